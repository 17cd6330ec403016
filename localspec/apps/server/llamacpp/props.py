"""Properties of the server and of a model, as llama.cpp's server reports them."""

from __future__ import annotations

from importlib.metadata import version

from localspec.apps.server.model_facts import ModelFacts
from localspec.apps.server.offers import ServedOffer
from localspec.apps.server.requests.completion_prompts import MARKER
from localspec.apps.server.served import Served, media_of
from localspec.core.requests.job import Job
from localspec.core.sampling.lists import LISTS
from localspec.core.sampling.parameters import PARAMETERS, Sampling
from localspec.formats.templates.capabilities import Takes
from localspec.running.memory.machine import Pool

Object = dict[str, object]


def properties(
    offer: ServedOffer, served: Served | None, facts: ModelFacts, *, page: bool
) -> Object:
    """Describe a model; one that is unloaded is called sleeping: a request wakes it."""
    context = served.resident.context if served else offer.context
    lengths = {"n_predict": -1, "max_tokens": -1}
    params = described(offer.usual) | lengths | {"lora": offer.adapters.listed()}
    media = media_of(offer, served)
    return {
        "default_generation_settings": {"n_ctx": context, "params": params},
        "n_ctx": context,
        "total_slots": served.resident.slots if served else offer.slots,
        "model_alias": offer.name,
        "model_path": offer.path,
        "model_ftype": offer.quantisation,
        "modalities": {"vision": "image" in media, "audio": "audio" in media, "video": False},
        "media_marker": MARKER,
        "endpoint_slots": True,
        "endpoint_props": False,
        "endpoint_metrics": True,
        "ui": page,
        "chat_template": facts.template,
        "chat_template_caps": template_capabilities(facts.takes) if facts.takes else {},
        "bos_token": facts.bos,
        "eos_token": facts.eos,
        "build_info": f"localspec {version('localspec')}",
        "is_sleeping": served is None,
        "devices": [device(pool) for pool in served.resident.devices()] if served else [],
    }


def device(pool: Pool) -> Object:
    return {"name": pool.name, "free_bytes": pool.free, "total_bytes": pool.total}


def described(sampling: Sampling) -> Object:
    """Return all parameters of sampling by their names in llama.cpp."""
    numbers = {parameter.names[-1]: parameter.get(sampling) for parameter in PARAMETERS}
    lists = {parameter.name: list(parameter.get(sampling)) for parameter in LISTS}
    return {**numbers, **lists}


def template_capabilities(takes: Takes) -> Object:
    return {
        "supports_string_content": takes.text,
        "supports_typed_content": takes.parts,
        "supports_tools": takes.tools,
        "supports_tool_calls": takes.calls,
        "supports_parallel_tool_calls": takes.parallel,
        "supports_system_role": takes.system,
        "supports_object_arguments": takes.objects,
    }


def slots_of(offer: ServedOffer, served: Served | None) -> list[Object]:
    """Describe each slot; one that was given away and has no text yet counts as busy."""
    resident, users = (served.resident, served.users) if served else (None, 0)
    jobs = {job.generation.slot: job for job in served.jobs} if served else {}
    count = resident.slots if resident else offer.slots
    idle = [at for at in range(count) if at not in jobs]
    taken = idle[: max(users - sum(at in jobs for at in range(count)), 0)]
    return [
        {
            "id": at,
            "n_ctx": resident.context if resident else offer.context,
            "speculative": bool(offer.drafter),
            "is_processing": at in jobs or at in taken,
            **(progress_of(jobs[at]) if at in jobs else {}),
        }
        for at in range(count)
    ]


def progress_of(job: Job) -> Object:
    """Count what was read, written and drafted; the models' thread goes on meanwhile."""
    generation, rounds = job.generation, list(job.ledger.drafts.items())
    return {
        "n_prompt_tokens": generation.prompt_tokens,
        "n_prompt_tokens_cache": generation.reused,
        "n_prompt_tokens_processed": min(generation.cached, generation.prompt_tokens),
        "n_decoded": generation.history.size - generation.prompt_tokens,
        "n_rounds": sum(count for _, count in rounds),
        "n_drafted": sum(drafted * count for (_, drafted, _), count in rounds),
        "n_accepted": sum(accepted * count for (_, _, accepted), count in rounds),
    }
