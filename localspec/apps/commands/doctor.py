"""The command `localspec doctor`: the state of this machine, and advice on speed."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import click

from localspec.apps.commands import draft_advice, report
from localspec.apps.commands.forget import amount
from localspec.base.errors import BackendError, DeviceError, LocalSpecError, UsageError, one_line
from localspec.base.system import folders, free_memory
from localspec.console.options import workers
from localspec.console.options.declare import TEXT, WRITABLE, flag, option, optional, options, read
from localspec.core.corpus import stored
from localspec.interfaces.backend_spec import Finding
from localspec.running.memory.machine import Machine, size
from localspec.running.models import engines, recent
from localspec.running.models.locate import locate
from localspec.running.models.seen_devices import forget_devices
from localspec.running.pulling.at_hand import first_at_hand
from localspec.running.runtime import kept_calibrations, pair_history, tuning

MIN_DISK = 5 << 30  # bytes of disk, with which few models can be had
MAX_MEASURED = 3  # models, the last ones, that are reported
MIN_MEMORY = 4 << 30  # bytes of memory, in which only small models fit
REPORT, STANDARD_OUTPUT = Path("localspec-report.json"), Path("-")


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    fix: bool = flag("New build of the engine for the graphics card of this machine.")
    rebuild: str | None = option(
        TEXT, "New build of the engine: cuda, hip, vulkan, metal, cpu or auto.", "KIND"
    )
    build: bool = flag(
        "With --fix or --rebuild, compilation even where the engine's makers offer a build."
    )
    workers: str | None = workers.workers()
    tune: bool = flag("A search for the fastest options of the model that was used last.")
    details: bool = flag("Findings on drafts, for each model that was measured here, too.")
    json: bool = flag("Findings as JSON, with all details.")
    report: Path | None = optional(
        WRITABLE,
        f"File to write for an issue, without private texts; -: standard output. Alone, {REPORT}.",
        "[FILE]",
        alone=REPORT,
    )


@click.command(params=options(DoctorOptions))
@click.pass_context
def doctor(context: click.Context) -> None:
    """Check engines, devices, memory and disk, and give advice on speed."""
    options = read(context, DoctorOptions)
    if options.build and not (options.fix or options.rebuild):
        raise UsageError("--build says how: add --fix or --rebuild KIND")
    if options.fix or options.rebuild:
        build_engines(options.rebuild or "", options.build)
    workers.use(options.workers)
    forget_devices()
    if options.tune:
        tune_last(context.find_root())
        return
    if options.report:
        write_report(options.report, context.find_root())
        return
    if options.json:
        click.echo(json.dumps({"findings": [*map(asdict, findings())]}, indent=2))
        return
    steps = 0
    for finding in findings(details=options.details):
        click.echo(f"{finding.subject:<10} {finding.state}")
        if finding.step:
            steps += 1
            click.echo(f"{'':<10} -> {finding.step}")
    click.echo(f"\n{steps or 'no'} suggestion{'' if steps == 1 else 's'}")


def tune_last(root: click.Context) -> None:
    """Run `localspec tune` for the model that was used last."""
    assert isinstance(root.command, click.Group)
    tune = root.command.get_command(root, "tune")
    assert tune
    with tune.make_context("tune", [first_at_hand().name], parent=root) as context:
        tune.invoke(context)


def write_report(file: Path, root: click.Context) -> None:
    text = json.dumps(report.report(machine_findings(), root), indent=2, ensure_ascii=False)
    if file == STANDARD_OUTPUT:
        click.echo(text)
        return
    try:
        file.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error
    click.echo(
        f"{file} has versions, devices, headers of models, costs and the last error. It has no "
        "prompt, path, host, key or name of yours. Read it, then add it to an issue."
    )


def build_engines(kind: str, from_source: bool) -> None:
    """Build the engines for this machine; with a kind, only those that have it."""
    builders = [(one.name, one.spec.builder) for one in engines.all_engines() if one.spec.builder]
    kinds = sorted({kind for _, builder in builders for kind in builder.kinds})
    if kind and kind not in kinds:
        raise UsageError(f"--rebuild is {kind!r}; known: {', '.join(kinds)}")
    for name, builder in builders:
        if not kind or kind in builder.kinds:
            click.echo(f"{name:<10} {builder.build(kind, from_source)}")


def findings(*, details: bool = True) -> Iterator[Finding]:
    yield from machine_findings()
    if details:
        yield from speculation()
    yield from falls()
    yield from untuned()
    yield from corpora()


def machine_findings() -> Iterator[Finding]:
    """Report the software and the machine, and nothing of models."""
    yield from program()
    for name in engines.names():
        yield from engine(name)
    yield from memory()
    yield from disk(folders.cache())


def program() -> Iterator[Finding]:
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    state = f"{version('localspec')}, Python {platform.python_version()}, {system}"
    step = ""
    if sys.platform == "darwin" and platform.machine() == "x86_64" and "ARM" in platform.version():
        step = "this Python is for Intel and runs translated: install one for Apple silicon"
    yield Finding("localspec", state, step)


def engine(name: str) -> Iterator[Finding]:
    """Report an engine's build, the devices it sees, and its makers' advice."""
    try:
        described = engines.engine(name)
        installed, links = described.installed(), described.links()
    except DeviceError as error:
        yield Finding(name, "a worker cannot be used", str(error))
        return
    except BackendError as error:
        needless = any(e.name == name and e.spec.preference < 0 for e in engines.all_engines())
        missing = Finding(name, "not installed, and not needed here")
        yield missing if needless else Finding(name, "cannot be used", str(error))
        return
    build = installed.build
    yield Finding(name, f"{build.version}: {', '.join(build.features) or 'no features'}")
    for device in installed.devices:
        free = f"{size(device.free_bytes)} free of {size(device.total_bytes)}"
        kind = "worker" if device.worker else device.kind
        yield Finding("", f"{kind}: {device.name}, {free}")
    for link in links:
        yield Finding("", str(link))
    if build.unseen:
        step = (
            "install its driver or a newer one, or build for another device: localspec doctor --fix"
        )
        kinds = ", ".join(build.unseen)
        why = f": {build.why_unseen}" if build.why_unseen else ""
        yield Finding("gpu", f"{name} was built for {kinds} and sees no such device{why}", step)
    if projectors := described.spec.projectors:
        fault = projectors.missing()
        place = "by a tower in its folder" if described.spec.folder else "by a projector beside it"
        state = f"no pictures: {fault}" if fault else f"pictures: of a model that has them, {place}"
        yield Finding("", state, "localspec doctor --fix" if fault else "")
    if builder := described.spec.builder:
        yield from builder.advise(build.features)


def speculation() -> Iterator[Finding]:
    """Report what was measured of models that were loaded here: which drafts would pay."""
    measured = kept_calibrations.newest(MAX_MEASURED)
    for at, (files, calibration) in enumerate(measured):
        price, *advice = draft_advice.describe(calibration)
        yield Finding("" if at else "drafts", f"{files}: {price}")
        for line in advice:
            yield Finding("", f"  {line}")


def falls() -> Iterator[Finding]:
    """Report pairs that are slower, or accept fewer drafts, since a version changed."""
    step = "if that matters, install the earlier version again, and tell the makers of the new one"
    for sentence in pair_history.fallen():
        yield Finding("versions", sentence, step)


def untuned() -> Iterator[Finding]:
    """Report models that were used lately and whose fastest options nobody searched here."""
    if names := ", ".join(filter(is_untuned, recent.names()[:MAX_MEASURED])):
        step = "localspec doctor --tune for the last one, or localspec tune NAME"
        yield Finding("tune", one_line(f"fastest options not searched yet: {names}"), step)


def is_untuned(name: str) -> bool:
    with suppress(LocalSpecError, OSError):
        files = locate(name)
        if files.engine.spec.coordinates and not tuning.is_tuned(files):
            return files.engine.backend().inspect(files.path).kind == "text"
    return False


def corpora() -> Iterator[Finding]:
    """Report the replies that are kept, and the indexes of what replies may repeat."""
    totals = stored.stored()
    if totals != stored.NOTHING:
        yield Finding("corpus", f"{amount(totals)}; `localspec forget` removes them")


def memory() -> Iterator[Finding]:
    host = Machine.of(free_memory.memory(), []).host
    state = f"{size(host.free)} free of {size(host.total)}; {size(host.reserve)} stay free"
    step = "close other programs, or choose a small model" if host.available < MIN_MEMORY else ""
    yield Finding("memory", state, step)


def disk(folder: Path) -> Iterator[Finding]:
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    writable = os.access(existing, os.W_OK)
    state = f"{size(free)} free under {folder}" + ("" if writable else ", which cannot be written")
    step = "make room, or set XDG_CACHE_HOME to a larger disk" if free < MIN_DISK else ""
    step = step or ("" if writable else "give yourself the right to write there")
    yield Finding("disk", state, step)
