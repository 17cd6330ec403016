"""A third engine, as somebody else would write one: what it says before it is imported.

A model of its format is a text file that begins with `TOY name context`; it goes on with the rest.
"""

from pathlib import Path

from localspec.interfaces.backend_spec import BackendSpec
from localspec_toy.calls import noted


def claims(path: Path) -> bool:
    noted("claims")
    return path.suffix == ".toy"


SPEC = BackendSpec(
    module="localspec_toy.engine",
    format="toy",
    kind="a toy file",
    install="pip install localspec-toy",
    claims=claims,
    packages=("localspec-toy",),
)
