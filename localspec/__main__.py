"""The command, also as `python -m localspec`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it without a traceback, also while modules are imported."""
    try:
        from localspec.apps import command_line

        command_line.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
