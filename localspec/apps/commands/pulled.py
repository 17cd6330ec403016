"""The commands for models that were pulled: rm, cp, verify-files."""

from __future__ import annotations

import click

from localspec.base.errors import PullError, UsageError
from localspec.base.system.fingerprint import digest
from localspec.console.options import model_names
from localspec.running.memory.machine import size
from localspec.running.models import catalogue, catalogue_file, store
from localspec.running.models.pulled_files import copy, forget
from localspec.running.models.sources import Package, expand_home, is_there
from localspec.running.models.stored_pair import PulledPair

PULLED = click.Argument(
    ["name"], metavar="NAME", type=model_names.MODEL, shell_complete=model_names.pulled
)


@click.command(params=[PULLED])
def rm(name: str) -> None:
    """Remove a model from this machine.

    Files that another model uses stay.
    """
    freed = forget(pulled(name, "`pip uninstall {package}` removes it"))
    click.echo(f"{name} is gone; {size(freed)} are free again")


@click.command(params=[PULLED])
@click.argument("new_name")
def cp(name: str, new_name: str) -> None:
    """Give a model that was pulled another name.

    Both names share the files. `localspec rm` of one leaves the other. To serve a model under
    another name only for as long as a server runs, use `serve --alias`.
    """
    otherwise = f"`localspec serve {name} --alias {new_name}` serves it under that name"
    copy(pulled(name, otherwise), new_name)
    click.echo(f"{new_name} is {name}")


@click.command("verify-files", params=[PULLED])
def verify_files(name: str) -> None:
    """Compare a model's files with their checksums, as they were when it was pulled."""
    wrong = 0
    pairs = pulled(name, "`pip install --force-reinstall {package}` gets its file anew")
    for file in (file for pair in pairs for model in pair.models for file in model.files):
        if not file.path.exists():
            state = "is missing"
        elif file.sum and digest(file.path, file.large) != file.sum:
            state = "has changed"
        else:
            state = "is right"
        wrong += state != "is right"
        click.echo(f"{file.path.name} {state}")
    if wrong:
        files = "one file is" if wrong == 1 else f"{wrong} files are"
        raise PullError(f"{files} not what was pulled: localspec pull {name}")


def pulled(name: str, otherwise: str) -> list[PulledPair]:
    """Find what was pulled under a name; `otherwise` is the way for a model of a package."""
    bare, _, weights = name.partition(":")
    pairs = [pair for pair in store.everything() if pair.name == bare]
    pairs = [pair for pair in pairs if weights in ("", pair.weights)]
    if pairs:
        return pairs
    if package := package_of(bare):
        hint = otherwise.format(package=package)
        raise UsageError(f"{name} was not pulled, it comes with the package {package}: {hint}")
    if is_there(expand_home(name)):
        raise UsageError(f"{name} is a file of your own, which was not pulled under a name")
    if bare in catalogue_file.names(catalogue.own()):
        raise UsageError(f"{name} was not pulled; {catalogue.own()} lists it: edit it there")
    raise UsageError(f"{name} is not here; `localspec list` shows what is")


def package_of(name: str) -> str:
    """Name the installed package that holds a model of the catalogue; "" if none does."""
    entry = catalogue.entries().get(name)
    for offer in entry.offers.values() if entry else ():
        for weights in offer.weights.values():
            if isinstance(weights.source, Package) and weights.source.find():
                return weights.source.module
    return ""
