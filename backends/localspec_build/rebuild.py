"""Choose, install and remember a build of llama.cpp."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from localspec_build import records, wheels
from localspec_build.choice import RPC, Choice, choose, fix, general, lacks_products
from localspec_build.failure import SetupFailed
from localspec_build.machine import Machine, look
from localspec_build.pip import compiler_advice, say
from localspec_build.records import CUSTOM, BuildRequest, Installed
from localspec_build.target import Target

GENERAL_BUILD = (
    "This build is for processors of many kinds. One for yours can use other machines, and with "
    "AVX-512 reads prompts up to 1.5 times as fast"
)
OTHER_PRODUCTS = "This build lacks LocalSpec's newest products, which are faster on processors"


def rebuild(
    request: BuildRequest,
    target: Target,
    from_source: bool = False,
    or_processor: bool = False,
    quick: bool = False,
) -> Installed:
    """Install the requested build, and remember it for all environments.

    With `or_processor`, the processor's build takes the place of one that fails. A `quick` one for
    the processor is the makers' general build, where there is one and none was built here before.
    """
    machine, kind = look(program=program(target)), request.kind
    try:
        choice = choice_for(machine, request)
        kind = choice.kind
        announce(choice, machine)
        made = wheels.install(choice, target, from_source, quick)
    except SetupFailed as error:
        if not or_processor or kind == "cpu" or machine.system == "darwin":
            raise
        say(f"{error}\nThe build for the processor takes its place.")
        choice = choose(machine, "cpu")
        made = wheels.install(choice, target, quick=quick)
    if general(made):
        say(f"{GENERAL_BUILD}: {own_build(machine)}.")
    elif lacks_products(made, machine, choice):
        say(f"{OTHER_PRODUCTS}: {own_build(machine)}.")
    records.remember(request if made.kind == request.kind else BuildRequest(made.kind))
    return made


def own_build(machine: Machine) -> str:
    """Describe how to get a build for this processor."""
    return fix(machine) if machine.compiler else f"{compiler_advice()}; then {fix(machine)}"


def choice_for(machine: Machine, request: BuildRequest) -> Choice:
    if request.kind == CUSTOM:
        return Choice(CUSTOM, "CMAKE_ARGS", (RPC, *shlex.split(request.cmake)))
    return choose(machine, request.kind)


def program(target: Target) -> str:
    """Name the command of an environment, with its folder where it is on no PATH."""
    return (
        "localspec"
        if shutil.which("localspec")
        else str(Path(target.python).with_name("localspec"))
    )


def announce(choice: Choice, machine: Machine) -> None:
    for hint in choice.hints:
        say(hint)
    another = f"{machine.program} doctor --rebuild KIND"
    say(f"llama.cpp for {choice.kind}: {choice.because}. For another: {another}")
    for offer in choice.offers:
        say(offer)
