"""Properties of the server and of a model, as llama.cpp's server reports them."""

from __future__ import annotations

from importlib.metadata import version

from localspec.memory.machine import Pool
from localspec.sampling.lists import LISTS
from localspec.sampling.parameters import Sampling
from localspec.sampling.table import PARAMETERS
from localspec.server.model_facts import ModelFacts
from localspec.server.model_host import Served, ServedOffer
from localspec.templates.capabilities import Takes

Object = dict[str, object]


def properties(offer: ServedOffer, served: Served | None, facts: ModelFacts) -> Object:
    """Describe a model; one that is unloaded is called sleeping: a request wakes it."""
    context = served.resident.context if served else offer.context
    params = sampling_defaults(offer.usual) | {"lora": offer.adapters.listed()}
    drawn = {"n_ctx": context, "params": params}
    return {
        "default_generation_settings": drawn,
        "n_ctx": context,
        "total_slots": served.resident.slots if served else offer.slots,
        "model_alias": offer.name,
        "model_path": offer.path,
        "model_ftype": offer.quantisation,
        "modalities": {"vision": False, "audio": False, "video": False},
        "endpoint_slots": True,
        "endpoint_props": False,
        "endpoint_metrics": True,
        "ui": False,
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


def sampling_defaults(usual: Sampling) -> Object:
    """Describe how text is sampled where a request says nothing."""
    return {**described(usual), "n_predict": -1, "max_tokens": -1}


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
    resident, busy = (served.resident, served.users) if served else (None, 0)
    return [
        {
            "id": at,
            "n_ctx": resident.context if resident else offer.context,
            "speculative": bool(offer.drafter),
            "is_processing": at < busy,
        }
        for at in range(resident.slots if resident else offer.slots)
    ]
