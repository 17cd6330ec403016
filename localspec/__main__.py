"""`python -m localspec` is the command."""

from localspec.cli import main

main()
