"""The documents: models and commands that they name exist, and links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

import localspec
from localspec.apps.command_line import commands
from localspec.apps.command_line.lazy_group import ALIASES
from localspec.running.models import catalogue
from localspec.running.models.ollama_names import meant

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "scripts"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
TEMPLATES = [*(ROOT / ".github").glob("*.md"), *(ROOT / ".github" / "ISSUE_TEMPLATE").iterdir()]
LOADS = r"localspec (?:bench|chat|generate|info|plan|prove|pull|rm|serve|show|tune|verify-files) "
NAME = re.compile(LOADS + r"([a-z0-9][a-z0-9._-]*(?::[a-z0-9._-]+)?)")
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)")
FENCE = re.compile(r"^ *```(?:sh|console|bash|powershell|)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def text(page):
    return page.read_text(encoding="utf-8")


def anchors(page):
    """Name a page's headings as its links do."""
    headings = re.findall(r"^#+ (.+)$", text(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands_of(page):
    """Yield the commands in a page's blocks and spans, as words."""
    fences = FENCE.findall(text(page))
    spans = SPAN.findall(FENCE.sub("", text(page)))
    lines = [line for block in fences for line in block.replace("\\\n", " ").splitlines()]
    for line in (*lines, *(span.replace("\n", " ") for span in spans)):
        for part in re.split(r"\s(?:\||&&|>|<|;)\s|\$\(", line):
            lexer = shlex.shlex(part, posix=True, punctuation_chars=False)
            lexer.whitespace_split, lexer.escape = True, ""
            try:
                words = list(lexer)
            except ValueError:  # a quote that is an apostrophe
                continue
            while words and (words[0] in ("$", "python3", "py", "sudo", "exec") or "=" in words[0]):
                del words[0]
            if words[1:] and (words[0] == "localspec" or words[0].startswith("scripts/")):
                yield words


COMMANDS = {tuple(words) for page in (*PAGES, *TEMPLATES) for words in commands_of(page)}
TYPED = sorted(words[1:] for words in COMMANDS if words[0] == "localspec")
# A measurement names the revision that it was made with, whose script may be gone.
LAB = {tuple(words) for page in PAGES if page.parent.name == "lab" for words in commands_of(page)}
RUN = sorted(words for words in COMMANDS - LAB if words[0] != "localspec")


def test_comments_beside_commands_are_seen_on_a_small_screen():
    pages = [page for page in PAGES if "lab" not in page.parts]
    lines = [
        line
        for page in pages
        for block in FENCE.findall(text(page))
        for line in block.splitlines()
        if re.match(r"(localspec|uv|pip|docker) .*\S +# ", line)
    ]
    assert len(lines) > 30
    assert [line for line in lines if len(line) > 80] == []


def test_no_page_of_the_server_is_a_wall():
    pages = [ROOT / "docs" / "server.md", *(ROOT / "docs" / "server").glob("*.md")]
    assert len(pages) >= 10
    assert {page.name: n for page in pages if (n := len(text(page).split())) > 1200} == {}
    for page in pages:  # and none begins with a long part that no list of contents has
        assert len(text(page).split("\n## ")[0].split()) < 250, page


def test_models_that_the_documents_name_are_in_the_catalogue():
    named = {match[1] for page in PAGES for match in NAME.finditer(text(page))}
    assert "qwen3-8b" in named
    named = {name for name in named if not name.startswith("hf") and not name.endswith(".gguf")}
    listed = catalogue.names()
    unknown = {name for name in named if not {name.partition(":")[0], meant(name, listed)} & listed}
    assert unknown == set()


def test_links_between_documents_lead_to_files_and_headings():
    for page in PAGES:
        for link in LINK.findall(text(page)):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_every_document_can_be_reached_from_the_readme():
    reached, new = set(), {ROOT / "README.md"}
    while new:
        reached |= new
        linked = {
            (page.parent / link.partition("#")[0]).resolve()
            for page in new
            for link in LINK.findall(text(page))
        }
        new = {page for page in linked if page.suffix == ".md"} - reached
    assert set(PAGES) <= reached


def test_the_readme_is_read_in_a_minute():
    assert len(text(ROOT / "README.md").splitlines()) <= 120


def test_the_files_for_services_are_named():
    page = text(ROOT / "docs" / "running-as-a-service.md")
    packaging = ROOT / "scripts" / "packaging"
    for file in ("compose.yaml", "io.localspec.server.plist", "localspec.rb", "localspec.service"):
        assert (packaging / file).is_file()
        assert file in page


@pytest.mark.parametrize("words", TYPED, ids=" ".join)
def test_a_command_that_the_documents_name_has_the_options_that_they_give(words):
    name, *arguments = (word.strip("[]") for word in words)
    if name.isupper() or name.startswith("-"):
        return
    command = commands.commands[ALIASES.get(name, name)]
    context = click.Context(command, info_name=name, **command.context_settings)
    values, _, order = command.make_parser(context).parse_args(arguments)
    for option in order:
        for value in as_list(values.get(option.name)):
            if isinstance(value, str) and not (is_placeholder(value) or is_path(option.type)):
                option.type.convert(value, option, context)


def as_list(value):
    return value if isinstance(value, list | tuple) else [value]


def is_placeholder(value):
    return value.isupper() or "..." in value


def is_path(kind):
    return isinstance(kind, click.Path | click.File)


def test_options_that_replace_those_of_other_programs_are_there():
    ours = [row.split(" | ")[1] for row in table_rows(ROOT / "docs" / "coming-from.md")]
    options = {
        name
        for command in commands.commands.values()
        for parameter in command.params
        for name in parameter.opts
    }
    named = {name for cell in ours for name in re.findall(r"(--[a-z-]+)", cell)}
    assert {"--slots", "--idle", "--draft"} <= named
    assert named <= options


def table_rows(page):
    return re.findall(r"^\| (.+) \|$", text(page), re.MULTILINE)


def test_the_names_of_the_reference_are_the_public_ones():
    page = text(ROOT / "docs" / "api.md")
    named = re.findall(r"^::: localspec\.(\w+)$", page, re.MULTILINE)
    assert sorted(named) == sorted(localspec.__all__)


def test_the_site_has_every_document():
    nav = re.findall(r"^ +- (\S+\.md)$", text(ROOT / "mkdocs.yml"), re.MULTILINE)
    below = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    outside = {page.name for page in ROOT.glob("*.md")} - {"README.md"}
    assert sorted(nav) == sorted(below | outside | {"index.md", "packaging.md"})


PACKAGES = {
    "bench": "benchmarks",
    "check-catalog": "catalogue",
    "pictures": "drawing",
    "simulate": "simulation",
    "soak": "soaking",
    "zoo": "architectures",
}


@pytest.mark.parametrize("words", RUN, ids=" ".join)
def test_a_script_that_the_documents_name_has_the_options_that_they_give(words):
    path, *arguments = (word.strip("[]") for word in words)
    script = ROOT / path
    sources = [script, SCRIPTS / "usage.py", SCRIPTS / "environment.py"]
    if package := PACKAGES.get(script.name):
        sources += (SCRIPTS / package).rglob("*.py")
    quoted = set(re.findall(r'"([^"\s]+)"', " ".join(map(text, sources))))
    quoted |= {source.stem for source in sources}
    assert {word for word in arguments if word.startswith("-")} <= quoted
    if script.name == "bench" and not is_placeholder(arguments[0]):
        assert (SCRIPTS / "benchmarks" / f"{arguments[0]}.py").is_file()
    if script.name in ("pictures", "simulate", "zoo"):
        assert arguments[0] in quoted
    if arguments[:1] == ["server"]:
        assert arguments[1] in quoted
