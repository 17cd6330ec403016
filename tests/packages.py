"""Packages of somebody else, installed for a test."""

from __future__ import annotations

from pathlib import Path


def install(site: Path, module: str, code: str, entry_points: str) -> None:
    """Put a module and its metadata into a folder of the path, as pip would lay them out."""
    (site / f"{module}.py").write_text(code)
    about = site / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)
