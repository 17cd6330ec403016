"""Convert a GGUF to a folder for MLX, if the folder's tokenizer then agrees with llama.cpp's."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from localspec.errors import LocalSpecError, UsageError
from localspec.models.locate import locate
from mlx_conversion.agreement import compare
from mlx_conversion.convert import BITS, DTYPES, GROUP_SIZES, OutputFormat, convert

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str]) -> int:
    """Run one conversion; 0, or 1 failed, 2 wrong usage, 130 interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what is half done goes
    options = parser().parse_args(arguments)
    wanted = OutputFormat(options.dtype, options.bits, options.group_size)
    try:
        source = locate(options.source, "llamacpp").path
        convert(source, options.folder, wanted, lambda made: compare(source, made), show)
    except LocalSpecError as error:
        print(f"gguf_to_mlx: {error}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILED
    except KeyboardInterrupt:
        print("\ngguf_to_mlx: stopped; nothing is left behind", file=sys.stderr)
        return INTERRUPTED
    print(f"{options.folder} is ready: its tokenizer says what llama.cpp's says")
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="gguf_to_mlx", description=__doc__)
    made.add_argument("source", metavar="NAME_OR_PATH", help="a GGUF file, or a model by name")
    made.add_argument("folder", metavar="FOLDER", type=Path, help="a new folder")
    made.add_argument("--bits", type=int, choices=BITS, help="quantise the weights anew")
    made.add_argument("--group-size", type=int, choices=GROUP_SIZES, default=64)
    made.add_argument("--dtype", choices=sorted(DTYPES), help="of what is not quantised")
    return made


def show(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r{done} of {total} tensors", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
