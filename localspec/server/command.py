"""The command `localspec serve`."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
import uvicorn

from localspec.backend import CONTEXT
from localspec.commands.interactive_load import load_and_report, locate_or_pull
from localspec.errors import UsageError
from localspec.models import trial
from localspec.models.engines import backend, spec
from localspec.models.recommended import advised, parameters
from localspec.runtime.loading import Loading
from localspec.runtime.pair_files import PairFiles
from localspec.runtime.runtime import Runtime
from localspec.sampling.parameters import Sampling
from localspec.server.app import Terms, application
from localspec.server.connections import BoundedServer, Connection, affordable_limits
from localspec.server.listening import address, listening
from localspec.server.model_host import ServedOffer
from localspec.server.model_library import PulledLibrary
from localspec.server.monitoring.log_lines import begin_log
from localspec.server.options import FOR_AGENTS, ServingOptions, keys_of
from localspec.server.prefix import checked
from localspec.server.safety import LOCAL, Rules, is_local
from localspec.system.rebirth import ONE_LIFE, Life, lives

log = logging.getLogger("localspec.server")

THREADS = 3  # for what takes its time; each keeps the most memory that it ever needed
API = Sampling(temperature=1.0)  # OpenAI's defaults, where nothing else is set
# After which a thread lets another run. The models' thread asks for that dozens of times a round:
# at Python's 5 ms a stream stood still while a large request was checked.
SWITCH_SECONDS = 0.0005
GRACE_SECONDS = 9  # in which the process ends that is stopped, whatever its threads do
STREAM_SECONDS = 8  # of these, in which streams may end by themselves


def serve(
    wanted: ServingOptions, loading: Loading, draft: str | None, names: Sequence[str]
) -> None:
    """Bind, load the first model, and answer until stopped."""
    sys.setswitchinterval(SWITCH_SECONDS)
    begin_log(wanted.log_file)
    terms = terms_of(wanted)
    loading = replace(
        loading,
        options=replace(loading.options, slots=wanted.slots),
        cache_dir=wanted.cache_dir,
        cache_bytes=wanted.cache_size,
        cache_ram=wanted.cache_ram,
        max_gap=wanted.max_gap,
    )
    with listening(wanted) as listener:
        # A group's connections do not outlive a fork, nor does a group a lost member.
        life = (
            ONE_LIFE if loading.options.members > 1 else lives(tell_of_end, grace=GRACE_SECONDS + 1)
        )
        offers = named(offered(names, draft, loading), wanted.alias)
        library = PulledLibrary(loading.backend, partial(pulled_offer, loading))
        terms = replace(terms, library=library)
        asyncio.run(answer(offers, terms, wanted, listener, life))


def short_for_agents(context: int, trained: int) -> str:
    """Say what to do for coding agents, where the context is too short for them."""
    note = f"the context is {context:,} tokens; coding agents need {FOR_AGENTS:,} and more"
    if trained < FOR_AGENTS:
        return f"{note}, and this model was trained for {trained:,}: take another for them"
    return f"{note}: --context"


def tell_of_end(said: str) -> None:
    click.echo(f"localspec: {said}", err=True)


def offered(names: Sequence[str], draft: str | None, loading: Loading) -> list[ServedOffer]:
    """Find the models that are named on the command line."""
    places = [
        PairFiles.for_target(found, draft, loading.backend, alone=loading.alone)
        for found in [locate_or_pull(name, loading) for name in names]
    ]
    return [offer(name, pair, loading) for name, pair in zip(names, places, strict=True)]


async def answer(
    offers: Sequence[ServedOffer],
    terms: Terms,
    options: ServingOptions,
    listener: socket.socket,
    life: Life,
) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    app = application(offers, terms)
    if life.first:  # later ones load when asked: what ended the one before may not be over
        click.echo(f"localspec: loading {offers[0].name}", err=True)
        await app.state.host.preload(offers[0].name)
    listener.listen()  # before it is told: who hears of it may come at once
    click.echo(f"localspec: answering at {address(options, listener)}", err=True)
    if options.log_file:
        log.info("answering at %s", address(options, listener))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        http=Connection,  # by h11, which bounds headers, and is there in any case
        ws="none",
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
        timeout_graceful_shutdown=STREAM_SECONDS,
    )
    server = BoundedServer(config, affordable_limits(), GRACE_SECONDS)
    app.state.host.events.ended = lambda: server.should_exit
    life.begun()
    await server.serve(sockets=[listener])


def terms_of(wanted: ServingOptions) -> Terms:
    keys = keys_of(wanted.api_key, wanted.api_key_file)
    alone = wanted.unix is not None or is_local(wanted.host)
    if not alone and not keys and not wanted.insecure:
        raise UsageError(
            f"any client that reaches {wanted.host} could use this server: "
            "give --api-key, or --insecure"
        )
    return Terms(
        rules=Rules(keys, hosts_of(wanted), wanted.body_limit),
        origins=wanted.allow_origin,
        reply_seconds=wanted.time_limit,
        waiting=wanted.queue,
        idle_seconds=wanted.idle,
        docs=wanted.docs,
        manage=alone if wanted.manage is None else wanted.manage,
        quotes=wanted.log_prompts,
        prefix=checked(wanted.prefix),
        strict=wanted.strict,
        responses=wanted.response_store,
        cache_dir=wanted.cache_dir,
    )


def hosts_of(wanted: ServingOptions) -> tuple[str, ...]:
    """List the names that the server may be called by; a unix socket has none for web pages."""
    if wanted.unix is not None:
        return ("*",)
    own = socket.gethostname().lower()
    named = () if is_local(wanted.host) else (wanted.host, own, f"{own}.local")
    return (*LOCAL, *named, *wanted.allow_host)


def named(offers: Sequence[ServedOffer], aliases: Sequence[str]) -> list[ServedOffer]:
    """Offers with their other names; without a model, a name is for the first."""
    found = {offer.name: offer for offer in offers}
    for each in aliases:
        alias, _, model = each.partition("=")
        model = model or offers[0].name
        if not alias or model not in found:
            raise UsageError(f"--alias {each} is for {model!r}; served: {', '.join(found)}")
        found[model] = replace(found[model], aliases=(*found[model].aliases, alias))
    return list(found.values())


def pulled_offer(loading: Loading, name: str) -> ServedOffer:
    """Find a model that a client names."""
    return offer(name, PairFiles.locate(name, None, loading.backend, alone=loading.alone), loading)


def offer(name: str, places: PairFiles, loading: Loading) -> ServedOffer:
    """Describe a model before it is loaded."""
    found, files = places.target, places.target.path
    looked = backend(found.engine).inspect(files)

    def open_it() -> Runtime:
        # Beside lines of a log, none may change.
        runtime = load_and_report(name, places, loading, line_changes=False)
        if runtime.context < FOR_AGENTS:
            click.echo(f"localspec: {short_for_agents(runtime.context, looked.context)}", err=True)
        return runtime

    return ServedOffer(
        name=files.stem if files.exists() and Path(name).exists() else name,
        load=open_it,
        vocabulary=partial(trial.vocabulary, found),
        usual=advised(name, API),
        slots=loading.options.slots,
        path=str(found.path),
        parameters=parameters(name),
        footprint=looked,
        engine=found.engine,
        format=spec(found.engine).format,
        drafter=places.draft.path.name if places.draft else "",
        context=loading.options.context or min(looked.context or CONTEXT, CONTEXT),
        created=int(files.stat().st_mtime),
        bytes=looked.file_bytes,
        family=looked.architecture,
        quantisation=looked.quantisation,
    )
