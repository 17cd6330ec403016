"""The command `localspec serve`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import click
import uvicorn

from localspec.apps.server.app import application
from localspec.apps.server.connections import BoundedServer, Connection, affordable_limits
from localspec.apps.server.listening import address, listening, page_address
from localspec.apps.server.media_intake import Fetch, MediaLimits
from localspec.apps.server.model_host import ModelHost
from localspec.apps.server.model_library import PulledLibrary
from localspec.apps.server.monitoring.log_lines import begin_log
from localspec.apps.server.offer_options import idle_times, with_aliases, with_stays
from localspec.apps.server.offered_adapters import OfferedAdapters
from localspec.apps.server.offers import Load, ServedOffer, broken_offer
from localspec.apps.server.options import FOR_AGENTS, ServingOptions, keys_of
from localspec.apps.server.page.routes import show_page
from localspec.apps.server.paths import check_prefix
from localspec.apps.server.reading_ahead import may_read_ahead, rehearse
from localspec.apps.server.safety import LOCAL, Rules, allowed_host, allowed_origin, owner_of
from localspec.apps.server.server_policy import ServerPolicy
from localspec.base.errors import ModelFileError, UsageError
from localspec.base.model_files import bare_name
from localspec.base.system import folders
from localspec.base.system.addresses import is_loopback
from localspec.base.system.free_memory import return_large_blocks
from localspec.base.system.signals import handled
from localspec.base.system.supervisor import UNSUPERVISED, Child, supervise
from localspec.console.notices import tell
from localspec.console.questions.interactive_load import (
    load_and_report,
    load_vectors_and_report,
    locate_or_pull,
)
from localspec.interfaces.backend import CONTEXT, Footprint
from localspec.running.memory.plan import held_for_slots
from localspec.running.models import trial
from localspec.running.models.locate import ModelFiles, locate
from localspec.running.models.recommended import (
    ThoughtDefaults,
    parameters,
    thought_defaults,
    usual_sampling,
)
from localspec.running.runtime.drafter_choice import pair_files
from localspec.running.runtime.loading import Loading
from localspec.running.runtime.pair_files import PairFiles
from localspec.running.runtime.phases import TellPhase
from localspec.running.runtime.runtime import Runtime
from localspec.running.runtime.vector_loading import vector_options
from localspec.running.runtime.vector_runtime import VectorRuntime

log = logging.getLogger("localspec.server")

THREADS = 3  # for what takes its time; each keeps the most memory that it ever needed
# After which a thread lets another run. The models' thread asks for that dozens of times a round:
# at Python's 5 ms a stream stood still while a large request was checked.
SWITCH_SECONDS = 0.0005
BACKLOG = 4096  # connections that the system holds until they are accepted
GRACE_SECONDS = 9  # in which the process ends that is stopped, whatever its threads do
STREAM_SECONDS = 8  # of these, in which streams may end by themselves


def serve(
    options: ServingOptions,
    loading: Loading,
    draft: str | None,
    names: Sequence[str],
    as_typed: tuple[str, ...] = (),
) -> None:
    """Bind, load the first model, and answer until stopped.

    as_typed: the options of loading, by which `localspec bench` measures the first model
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    return_large_blocks()
    begin_log(options.log_file)
    policy = policy_of(options)
    loading = replace(
        loading,
        options=replace(loading.options, slots=options.slots, pooling=options.pooling or ""),
        cache_dir=options.cache_dir,
        cache_bytes=options.cache_size,
        restores=may_read_ahead(options.read_ahead),
        cache_ram=options.cache_ram,
        max_gap=options.max_gap,
    )
    loading = keeping_replies_apart(loading, policy.rules.keys)
    with listening(options) as listener:
        # A group's connections do not outlive a fork, nor does a group a lost member.
        is_group = loading.options.members > 1
        if is_group and options.cache_dir:
            tell("a model that is divided among processes keeps no prompts in --cache-dir")
        child = UNSUPERVISED if is_group else supervise(tell, grace=GRACE_SECONDS + 1)
        thought = ThoughtDefaults(options.reasoning_budget, options.reasoning_budget_message)
        named = named_models(names, draft, loading, thought, restarted=not child.is_first)
        models = with_bench(named, names, as_typed)
        offers = with_stays(with_aliases(models, options.alias), options.idle, options.pin)
        pulled = for_other_models(loading)
        library = PulledLibrary(loading.backend, partial(offer_pulled_model, pulled, thought))
        policy = replace(policy, library=library)
        asyncio.run(run_server(offers, policy, options, listener, child))


def keeping_replies_apart(loading: Loading, keys: Sequence[str]) -> Loading:
    """Have no reply drafted from replies to clients with another key, in this server or before.

    How fast a reply comes would show whether another client was given the same.
    """
    if len(keys) > 1 and loading.learn:
        raise UsageError(
            f"--learn keeps the replies to all of {len(keys)} API keys together, and the speed of "
            "a reply would show what others were answered: omit --learn, or run a server for "
            "each key"
        )
    owner = owner_of(keys[0]) if keys else ""
    return replace(loading, shares_replies=len(keys) < 2, reply_owner=owner)


def short_for_agents(context: int, trained: int) -> str:
    """Advise how to get a context that is long enough for coding agents."""
    note = f"the context is {context:,} tokens; coding agents need {FOR_AGENTS:,} and more"
    if trained < FOR_AGENTS:
        return f"{note}, and this model was trained for {trained:,}: take another for them"
    return f"{note}: --context"


def named_models(
    names: Sequence[str],
    draft: str | None,
    loading: Loading,
    thought: ThoughtDefaults,
    *,
    restarted: bool = False,
) -> list[ServedOffer]:
    """Find the models that are named on the command line.

    After a restart, one whose file broke meanwhile is offered as broken, and others are served.
    """
    located = [locate_or_pull(name, loading) for name in names]
    loadings = [loading, *[for_other_models(loading)] * (len(names) - 1)]
    offers: list[ServedOffer] = []
    for name, target, own in zip(names, located, loadings, strict=True):
        try:
            offers.append(offer_files(name, target, draft, own))
        except ModelFileError as error:
            if not restarted:
                raise
            offered = bare_name(target.path) if Path(name).exists() else name
            offers.append(broken_offer(offered, target.engine.name, str(error)))
    pairs = zip(offers, names, strict=True)
    return [with_thought(offer, name, thought) for offer, name in pairs]


def with_bench(
    offers: Sequence[ServedOffer], names: Sequence[str], as_typed: tuple[str, ...]
) -> list[ServedOffer]:
    """Note how each model would be measured; the options that were typed are the first one's."""
    typed = [as_typed, *[()] * (len(names) - 1)]
    return [
        replace(offer, bench=(name, *options)) if offer.kind == "text" else offer
        for offer, name, options in zip(offers, names, typed, strict=True)
    ]


def with_thought(offer: ServedOffer, name: str, chosen: ThoughtDefaults) -> ServedOffer:
    """Give a model its budget for thought: the one chosen, or the catalogue's."""
    budget, message = thought_defaults(name, chosen)
    return replace(
        offer,
        reasoning_budget=-1 if budget is None else budget,
        reasoning_budget_message=message or "",
    )


def for_other_models(loading: Loading) -> Loading:
    """Return the way to load models but the first, which adapters and a projector are for."""
    options = replace(loading.options, adapters=(), projector=None, pooling="")
    return replace(loading, options=options)


async def run_server(
    offers: Sequence[ServedOffer],
    policy: ServerPolicy,
    options: ServingOptions,
    listener: socket.socket,
    child: Child,
) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    app = application(offers, policy)
    host: ModelHost = app.state.host
    if child.is_first:  # later ones load when asked: what ended the one before may not be over
        click.echo(f"localspec: loading {offers[0].name}", err=True)
        with handled(leave_at_once, "SIGINT"):
            await host.preload(offers[0].name)
    listener.listen()  # before it is announced: who hears of it may come at once
    click.echo(f"localspec: answering at {address(options, listener)}", err=True)
    if options.log_file:
        log.info("answering at %s", address(options, listener))
    if policy.page and options.unix is None:
        show_page(page_address(options, listener), browse=options.open and child.is_first)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        http=Connection,  # by h11, which bounds headers, and is there in any case
        ws="none",
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
        backlog=BACKLOG,
        timeout_graceful_shutdown=STREAM_SECONDS,
    )
    server = BoundedServer(config, affordable_limits(), host.events.close, GRACE_SECONDS)
    child.report_ready()
    if options.cache_dir and may_read_ahead(policy.read_ahead):
        host.work(rehearse(host, app.state.preparing, offers[0].name))
    await server.serve(sockets=[listener])


def leave_at_once(number: int, _: object) -> NoReturn:
    """End the process while a model is loaded: the thread that loads it hears of nothing."""
    os._exit(128 + number)


def policy_of(options: ServingOptions) -> ServerPolicy:
    if options.open and (options.no_page or options.unix):
        other = "--no-page" if options.no_page else "--unix"
        raise UsageError(f"--open needs a page that a browser can reach: omit {other}")
    keys = keys_of(options.api_key, options.api_key_file)
    alone = options.unix is not None or is_loopback(options.host)
    if not alone and not keys and not options.insecure:
        raise UsageError(
            f"any client that reaches {options.host} could use this server: "
            "give --api-key, or --insecure"
        )
    return ServerPolicy(
        rules=Rules(keys, hosts_of(options), options.body_limit),
        origins=tuple(map(allowed_origin, options.allow_origin)),
        reply_seconds=options.time_limit,
        waiting=options.queue,
        idle_seconds=idle_times(options.idle).get(""),
        manage=alone if options.manage is None else options.manage,
        quotes=options.log_prompts,
        prefix=check_prefix(options.prefix),
        strict=options.strict,
        page=not options.no_page,
        responses=options.response_store,
        cache_dir=options.cache_dir,
        batch_dir=(options.cache_dir or folders.data()) / "batches" if options.batch_size else None,
        batch_bytes=options.batch_size,
        read_ahead=options.read_ahead,
        media=MediaLimits(options.max_images, options.max_image_size, options.max_image_pixels),
        fetch=fetcher() if options.fetch_images else None,
    )


def fetcher() -> Fetch:
    from localspec.apps.server.fetching import Fetcher  # HTTP takes its time to import

    return Fetcher().fetch


def hosts_of(options: ServingOptions) -> tuple[str, ...]:
    """List the names that the server may be called by; a unix socket has none for web pages."""
    if options.unix is not None:
        return ("*",)
    own = socket.gethostname().lower()
    names = () if is_loopback(options.host) else (options.host, own, f"{own}.local")
    return (*LOCAL, *names, *map(allowed_host, options.allow_host))


def offer_pulled_model(loading: Loading, thought: ThoughtDefaults, name: str) -> ServedOffer:
    """Find a model that a client names."""
    offer = offer_files(name, locate(name, loading.backend), None, loading)
    return with_thought(offer, name, thought)


def offer_files(name: str, target: ModelFiles, draft: str | None, loading: Loading) -> ServedOffer:
    """Describe a model of any kind before it is loaded."""
    footprint = target.engine.backend().inspect(target.path)
    if footprint.kind != "text":
        return offer_vectors(name, target, footprint, loading)
    files = pair_files(target, draft, loading)
    return offer_model(name, files, footprint, loading)


def offer_vectors(
    name: str, files: ModelFiles, footprint: Footprint, loading: Loading
) -> ServedOffer:
    """Describe a model for embeddings or reranking, which is loaded later."""

    def load(tell: TellPhase) -> VectorRuntime:
        return load_vectors_and_report(name, files, loading, line_changes=False, tell=tell)

    context = vector_options(loading.options, footprint).context or 0
    offer = described(name, files, footprint, load)
    return replace(offer, context=context)


def offer_model(name: str, files: PairFiles, footprint: Footprint, loading: Loading) -> ServedOffer:
    """Describe a model that continues text before it is loaded."""

    def load(tell: TellPhase) -> Runtime:
        # Beside lines of a log, none may change.
        runtime = load_and_report(name, files, loading, line_changes=False, tell=tell)
        plan = runtime.facts.plan
        notes = [held_for_slots(plan)] if plan else []
        click.echo(f"localspec: sampling: {runtime.facts.usual}", err=True)
        if runtime.context < FOR_AGENTS:
            notes.append(short_for_agents(runtime.context, footprint.context))
        for note in filter(None, notes):
            click.echo(f"localspec: {note}", err=True)
        return runtime

    offer = described(name, files.target, footprint, load)
    scaled = loading.options.adapters if files.target.engine.spec.adapters else ()
    return replace(
        offer,
        adapters=OfferedAdapters(offer.name, scaled),
        slots=loading.options.slots,
        pooling=loading.options.pooling,
        drafter=files.draft.path.name if files.draft else "",
        context=loading.options.context or min(footprint.context or CONTEXT, CONTEXT),
        media=loading.media_of(files),
    )


def described(name: str, files: ModelFiles, footprint: Footprint, load: Load) -> ServedOffer:
    """Describe a model by its files."""
    path = files.path
    offered = bare_name(path) if path.exists() and Path(name).exists() else name
    return ServedOffer(
        name=offered,
        load=load,
        vocabulary=partial(trial.vocabulary, files),
        usual=usual_sampling(files.name, footprint).sampling,
        path=str(path),
        parameters=parameters(name),
        footprint=footprint,
        engine=files.engine.name,
        format=files.engine.spec.format,
        created=int(path.stat().st_mtime),
        bytes=footprint.file_bytes,
        family=footprint.architecture,
        quantisation=footprint.quantisation,
    )
