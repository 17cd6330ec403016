"""The documents: models that they name exist, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from localspec.models import catalogue

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LOADS = r"localspec (?:bench|chat|generate|info|plan|prove|pull|rm|serve|show|tune|verify-files) "
NAME = re.compile(LOADS + r"([a-z0-9][a-z0-9._-]*)")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


def text(page):
    return page.read_text(encoding="utf-8")


def test_models_that_the_documents_name_are_in_the_catalogue():
    named = {match[1] for page in PAGES for match in NAME.finditer(text(page))}
    assert "qwen3-8b" in named
    assert named - {"hf"} <= catalogue.entries().keys()  # hf:ORG/REPOSITORY


def test_links_between_documents_lead_to_files():
    for page in PAGES:
        for link in LINK.findall(text(page)):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_document_can_be_reached_from_the_readme():
    reached, new = set(), {ROOT / "README.md"}
    while new:
        reached |= new
        found = {
            (page.parent / link).resolve() for page in new for link in LINK.findall(text(page))
        }
        new = {page for page in found if page.suffix == ".md"} - reached
    assert set(PAGES) <= reached


def test_the_files_for_services_are_named():
    page = text(ROOT / "docs" / "running-as-a-service.md")
    packaging = ROOT / "scripts" / "packaging"
    for file in ("compose.yaml", "io.localspec.server.plist", "localspec.rb", "localspec.service"):
        assert (packaging / file).is_file()
        assert file in page
