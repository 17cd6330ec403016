"""Pages of the site as MkDocs needs them, made of documents that are written for a repository.

Documents outside docs/ become pages, links between them lead there, and code in tables and fences
is written as Python-Markdown reads it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCS = "docs"
# By the page's name, the document outside docs/.
OUTSIDE: Mapping[str, str] = {
    **{document.name: document.name for document in ROOT.glob("*.md") if document != README},
    "index.md": README.name,
    "packaging.md": "scripts/packaging/README.md",
}
# For those who change the program: searches of its users would find these first.
UNSEARCHED = ("CONTRIBUTING.md", "CODE_OF_CONDUCT.md")
PAGES = {document: page for page, document in OUTSIDE.items()}
LINK = re.compile(r'(\]\(|\]: |src="|srcset=")(?!https?:|#)([^)\s"#]+)')
CODE = re.compile(r"`[^`\n]+`")
NAMED_FENCE = re.compile(r"^(```\w+) \w+$", re.MULTILINE)  # its name is for a test


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents outside docs/."""
    for page, document in OUTSIDE.items():
        content = (ROOT / document).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Write a page's links for the site, and its code for Python-Markdown."""
    own = page.file.src_uri
    if own in UNSEARCHED:
        page.meta["search"] = {"exclude": True}
    folder = PurePosixPath(OUTSIDE.get(own, f"{DOCS}/{own}")).parent

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(str(folder / link[2]))
        place = PAGES.get(target, target.removeprefix(f"{DOCS}/"))
        return link[1] + posixpath.relpath(place, posixpath.dirname(own) or ".")

    markdown = LINK.sub(moved, NAMED_FENCE.sub(r"\1", markdown))
    return CODE.sub(lambda code: code[0].replace(r"\|", "|"), markdown)
