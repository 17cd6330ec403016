"""Install llama.cpp into the environment of this Python: for images and packages.

python -m localspec_build [KIND [-DOPTION=VALUE ...]]    KIND: auto, cuda, hip, vulkan, metal, cpu

The options go to CMake. CUDAARCHS names the architectures, where no card is here to ask.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from localspec_build.choice import AUTO, NAMES, choose
from localspec_build.failure import SetupFailed
from localspec_build.machine import look
from localspec_build.target import Target
from localspec_build.wheels import install


def main(arguments: list[str]) -> str | None:
    kind, *options = arguments or [AUTO]
    if kind not in NAMES or not all(option.startswith("-D") for option in options):
        return __doc__
    try:
        choice = choose(look(), kind)
        choice = replace(choice, cmake=(*choice.cmake, *options))
        made = install(choice, Target.of(sys.executable, Path(sys.prefix)), bool(options))
    except SetupFailed as error:
        return str(error)
    print(f"llama.cpp for {made.kind} ({made.because}), {made.source}")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
