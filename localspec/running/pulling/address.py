"""Files of any address, whose sum is known: sized before they are downloaded."""

from __future__ import annotations

from pathlib import Path

from localspec.base.system.fingerprint import digest
from localspec.running.models import store
from localspec.running.models.sources import Address
from localspec.running.pulling.hub import (
    Count,
    locked,
    range_response,
    resume_download,
    size_of,
    translate_errors,
    wrong_file,
)


def download_folder() -> Path:
    """Name the folder of such files."""
    return store.folder().parent / "files"


def place(source: Address) -> Path:
    """Return the path of a file once it is here."""
    return download_folder() / source.sha256 / source.name


def part(source: Address) -> Path:
    """Return the path of a partial download."""
    return place(source).with_name(f"{source.name}.localspec")


def total_bytes(source: Address) -> int:
    """Ask for the size of a file; 0 where the server does not know it."""
    if place(source).exists():
        return size_of(place(source))
    # A range of one byte is answered with the whole size, and by more servers than HEAD is.
    with translate_errors(source.address), range_response(source.address, 0, 1, {}) as response:
        length: str = response.headers.get("Content-Length", "")
        if response.status_code == 206:
            length = response.headers.get("Content-Range", "").rpartition("/")[2]
        return int(length) if length.isdecimal() else 0


def missing_bytes(source: Address, total: int) -> int:
    """Count the bytes that are still to be downloaded."""
    return 0 if place(source).exists() else max(0, total - size_of(part(source)))


def fetch(source: Address, total: int, count: Count) -> Path:
    """Get a file whole and right; its size is 0 where it is not known."""
    whole, part_path = place(source), part(source)
    if whole.exists() and digest(whole, large=True) == source.sha256:
        count(total)
        return whole
    with translate_errors(source.address), locked(part_path, source.name):
        if not part_path.exists() or digest(part_path, large=True) != source.sha256:
            resume_download(source.address, part_path, total or None, {}, count)
        if digest(part_path, large=True) != source.sha256:
            raise wrong_file(part_path, source.address)
        return part_path.replace(whole)
