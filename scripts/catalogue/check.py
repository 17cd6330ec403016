"""Compare a catalogue with the hub, by headers alone; with --write, write down what was found."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from catalogue.look import Looks
from catalogue.offer import Claim, OfferFinding, check
from localspec.base.errors import LocalSpecError
from localspec.running.models.catalogue import builtin
from localspec.running.models.catalogue_file import read
from localspec.running.models.engines import all_engines
from localspec.running.models.entry import Entry, Weights
from localspec.running.models.sources import Hub
from localspec.running.pulling.pull_plan import PullPart


def main(arguments: Sequence[str]) -> int:
    """Return 0 if every entry, or every one that was named, is what the catalogue says."""
    wishes = parser().parse_args(arguments)
    try:
        entries = read(wishes.catalogue)
    except LocalSpecError as error:
        sys.exit(str(error))
    if unknown := sorted(set(wishes.names) - entries.keys()):
        sys.exit(f"{wishes.catalogue} has no {', '.join(unknown)}")
    with TemporaryDirectory(prefix="localspec-") as folder:
        headers = Looks(Path(folder))
        findings = []
        for claim in claims(entries, wishes.names):
            finding = check(claim, headers)
            findings.append(replace(finding, size=()) if wishes.write else finding)
            print(describe(findings[-1]), flush=True)
    if wishes.write:
        write_findings(wishes.catalogue, findings)
    problems = [f"{finding.claim}: {text}" for finding in findings for text in finding.all]
    print(f"{len(findings)} offers, {len(problems)} problems", *problems, sep="\n")
    return 1 if problems else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("check-catalog", description=__doc__)
    made.add_argument("names", nargs="*", metavar="NAME")
    made.add_argument("--write", action="store_true", help="write revisions, sizes and sums")
    made.add_argument("--catalogue", type=Path, default=builtin(), help="another models.toml")
    return made


def claims(entries: Mapping[str, Entry], names: Sequence[str]) -> Iterator[Claim]:
    for entry in entries.values():
        if not names or entry.name in names:
            for engine in all_engines():
                if offer := entry.offers.get(engine.spec.format):
                    yield from (Claim(entry, engine, name) for name in offer.weights)


def describe(finding: OfferFinding) -> str:
    count = len(finding.all)
    state = "right" if not count else "1 problem" if count == 1 else f"{count} problems"
    return f"{finding.claim}: {state} ({finding.line})"


def write_findings(place: Path, findings: Sequence[OfferFinding]) -> None:
    """Write revisions, sizes and sums; an entry is checked that has no other problem."""
    text = place.read_text(encoding="utf-8")
    wrong = set()
    for finding in findings:
        claim, part = finding.claim, finding.part
        if part and isinstance(part.source, Hub):
            text = enter_weights(text, claim.name, claim.weights, part)
        if finding.problems:
            wrong.add(claim.entry.name)
    for name in {finding.claim.entry.name for finding in findings} - wrong:
        text = mark_checked(text, name)
    place.write_text(text, encoding="utf-8")
    read(place)


def enter_weights(text: str, name: str, weights: Weights, part: PullPart) -> str:
    """Replace the line of one set of weights by what was found."""
    line = re.compile(
        rf'^{re.escape(name)} = \{{ from = "{re.escape(str(weights.source))}".*$', re.M
    )
    sums = ", ".join(f'"{file.sum}"' for file in part.files if file.large)
    size = f"{part.bytes / 1e9:.2f}GB"
    new = f'{name} = {{ from = "{part.source}", size = "{size}", sha256 = [{sums}] }}'
    return line.sub(lambda _: new, text)


def mark_checked(text: str, name: str) -> str:
    quoted = rf"\[\"?{re.escape(name)}\"?\]"
    return re.sub(rf"({quoted}\n(?:(?!\n\[).)*?checked = )false", r"\1true", text, flags=re.S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
