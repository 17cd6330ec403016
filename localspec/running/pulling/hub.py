"""Files of a hub's repository: listed, and downloaded whole.

The hub's own client keeps nothing of a download that was cut off, so parts are kept here: they lie
beside the client's blobs, are gone on with, and become blobs once their sum is right.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout
from huggingface_hub import HfApi, constants, hf_hub_download, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import http_get, repo_folder_name
from huggingface_hub.utils._headers import build_hf_headers
from huggingface_hub.utils._http import hf_raise_for_status, http_stream_backoff
from huggingface_hub.utils.tqdm import disable_progress_bars

from localspec.base.errors import HubUnreachable, PullError
from localspec.base.system.fingerprint import digest
from localspec.running.models.sources import Hub, inside
from localspec.running.pulling.listing import Listing, Remote

LOCKS: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
PIECE_BYTES = 1 << 20  # bytes that are written at once

Count = Callable[[int], None]  # hears of bytes as they come


def list_files(source: Hub) -> Listing:
    """List the files of a repository, at a commit."""
    with translate_errors(source.repository):
        info = HfApi().model_info(
            source.repository, revision=source.revision or None, files_metadata=True
        )
    files = []
    for sibling in info.siblings or ():
        inside(sibling.rfilename, f"{source.repository}:{sibling.rfilename}")
        large = sibling.lfs is not None
        total = (sibling.lfs.size if sibling.lfs else sibling.size) or 0
        sum = (sibling.lfs.sha256 if sibling.lfs else sibling.blob_id) or ""
        files.append(Remote(sibling.rfilename, total, sum, large))
    return Listing(source.repository, info.sha or "", tuple(files))


def cached_path(listing: Listing, file: Remote) -> Path | None:
    path = try_to_load_from_cache(listing.repository, file.name, revision=listing.revision)
    return Path(path) if isinstance(path, str) and Path(path).exists() else None


def missing(listing: Listing, files: Sequence[Remote]) -> int:
    """Count the bytes that are still to be downloaded."""
    return sum(
        file.size - min(size_of(part(listing, file)), file.size)
        for file in files
        if cached_path(listing, file) is None
    )


def fetch(listing: Listing, file: Remote, count: Count) -> Path:
    """Get a file whole and right; what was there of it is not downloaded again."""
    path = cached_path(listing, file)
    if path is not None and is_right(path, file):
        count(file.size)
        return path
    part_path = part(listing, file)
    with translate_errors(listing.repository), locked(part_path, file.name):
        blob = part_path.with_suffix("")
        if is_right(blob, file):
            count(file.size)
        else:
            url = hf_hub_url(listing.repository, file.name, revision=listing.revision)
            resume_download(
                url, part_path, file.size, build_hf_headers(library_name="localspec"), count
            )
            if not is_right(part_path, file):
                raise wrong_file(part_path, f"{file.name} of {listing.repository}")
            part_path.replace(blob)
        if path is not None:  # a broken one may be in its place
            path.unlink()
        return Path(hf_hub_download(listing.repository, file.name, revision=listing.revision))


def head(listing: Listing, file: Remote, most: int) -> Path | None:
    """Fetch the first `most` bytes of a file, and return its path.

    What is fetched for it is where `fetch` goes on. None where that cannot be had.
    """
    part_path = part(listing, file)
    path = cached_path(listing, file) or part_path.with_suffix("")
    if path.exists():
        return path
    with suppress(PullError):
        return part_path if fetch_start(listing, file, part_path, most) else None
    return None


def fetch_start(listing: Listing, file: Remote, part_path: Path, most: int) -> bool:
    """Fetch the rest of the first `most` bytes; False if the server sends no ranges."""
    end = min(most, file.size)
    with translate_errors(listing.repository), locked(part_path, file.name):
        present = size_of(part_path)
        if present < end:
            url = hf_hub_url(listing.repository, file.name, revision=listing.revision)
            with part_path.open("ab") as out:
                for piece in span(url, present, end):
                    out.write(piece)
        return size_of(part_path) >= end


def span(url: str, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a file from `start` to `end`; none where the server sends all of it."""
    headers = build_hf_headers(library_name="localspec")
    with range_response(url, start, end, headers) as response:
        content_range = response.headers.get("Content-Range", "")
        if response.status_code != 206 or not content_range.startswith(f"bytes {start}-"):
            return
        for piece in response.iter_bytes(PIECE_BYTES):
            yield piece[: end - start]
            start += len(piece)
            if start >= end:
                return


@contextmanager
def range_response(url: str, start: int, end: int, headers: Mapping[str, str]) -> Iterator[Any]:
    """Ask for the bytes of a file from `start` to `end`; the response may have all of it."""
    with http_stream_backoff(
        "GET",
        url,
        headers={**headers, "Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"},
        timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
        retry_on_exceptions=(),  # what fails while the answer is read cannot be begun again
        retry_on_status_codes=(408, 429),
    ) as response:
        hf_raise_for_status(response)
        yield response


def wrong_file(part_path: Path, name: str) -> PullError:
    part_path.unlink()
    return PullError(
        f"{name} is not what was promised: its sum is another one; what came was thrown away, so "
        "pull it again"
    )


def resume_download(
    url: str, part_path: Path, total: int | None, headers: dict[str, str], count: Count
) -> None:
    """Download what is missing of a file."""
    part_path.parent.mkdir(parents=True, exist_ok=True)
    present = size_of(part_path)
    if total is not None and present > total:
        part_path.unlink()
        present = 0
    count(present)
    if present == total:
        return
    disable_progress_bars()
    if total and total > constants.MAX_HTTP_DOWNLOAD_SIZE:
        total = None  # of which the client would refuse even to try; the sum is checked anyhow
    with removed_when_full(part_path), part_path.open("r+b" if present else "wb") as file:
        file.seek(present)
        target: Any = Counted(file, count)
        http_get(url, target, resume_size=present, headers=headers, expected_size=total)


@contextmanager
def removed_when_full(part_path: Path) -> Iterator[None]:
    """Remove a partial download that filled the disk, which others need."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        part_path.unlink(missing_ok=True)
        raise PullError(
            f"the disk is full, and what came is removed from {part_path.parent}: make room, or "
            "set HF_HOME (for a file at an address XDG_DATA_HOME) to a larger disk"
        ) from error


def part(listing: Listing, file: Remote) -> Path:
    """Return the path of a partial download."""
    store = repo_folder_name(repo_id=listing.repository, repo_type="model")
    return Path(constants.HF_HUB_CACHE) / store / "blobs" / f"{file.sum}.localspec"


class Counted:
    """A file that reports the bytes written to it."""

    def __init__(self, file: BinaryIO, count: Count) -> None:
        self._file, self._count = file, count

    def write(self, data: bytes) -> int:
        self._count(len(data))
        return self._file.write(data)

    def seek(self, position: int) -> int:
        return self._file.seek(position)

    def tell(self) -> int:
        return self._file.tell()

    def truncate(self) -> int:
        """Empty the file: a server may send everything from the start after all."""
        position = self._file.tell()
        self._count(position - self._file.seek(0, os.SEEK_END))
        self._file.seek(position)
        return self._file.truncate()


def is_right(path: Path, file: Remote) -> bool:
    """Whether a file has the size and the checksum of the hub's listing."""
    return size_of(path) == file.size and file.sum in (digest(path, file.large), "")


def size_of(path: Path) -> int:
    """Return the bytes of a file; 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


@contextmanager
def locked(part_path: Path, name: str) -> Iterator[None]:
    """Lock a partial file: two writers would spoil it.

    Files of the same content have the same part; in this process they wait for each other.
    """
    part_path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with LOCKS[part_path], FileLock(part_path.with_suffix(".lock"), timeout=0):
            yield
    except Timeout:
        raise PullError(f"{name} is being pulled by another process: wait for it") from None


@contextmanager
def translate_errors(repository: str) -> Iterator[None]:
    """Put errors of the hub, the network or the disk into words for the user."""
    try:
        yield
    except GatedRepoError as error:
        raise PullError(
            f"{repository} is given out only to those who accepted its terms: do so on its page, "
            "then log in with `hf auth login`"
        ) from error
    except RepositoryNotFoundError as error:
        raise PullError(
            f"the hub has no repository {repository}, or it is private: log in with `hf auth login`"
        ) from error
    except (RevisionNotFoundError, EntryNotFoundError) as error:
        raise PullError(f"{repository} does not have what was asked for: {_line(error)}") from error
    except (OfflineModeIsEnabled, LocalEntryNotFoundError) as error:
        raise HubUnreachable(f"{repository} is not here, and {unreachable()}") from error
    except (HfHubHTTPError, HFValidationError) as error:
        raise PullError(f"the hub refused {repository}: {_line(error)}") from error
    except OSError as error:
        raise PullError(f"{repository} could not be pulled: {_line(error)}") from error
    except Exception as error:  # of the client's own HTTP library, whichever that is
        if type(error).__module__.startswith(("httpx", "httpcore", "requests", "urllib3")):
            raise HubUnreachable(f"{unreachable(repository)} ({_line(error)})") from error
        raise


def unreachable(place: str = "") -> str:
    """Describe how to reach the hub, or an address, again."""
    if constants.HF_HUB_OFFLINE:
        return "the hub is not asked, since HF_HUB_OFFLINE is set: unset it"
    if place.startswith("http"):
        return f"{place} is out of reach: check the network"
    return (
        f"the hub is out of reach: check the network, or HF_ENDPOINT, which is {constants.ENDPOINT}"
    )


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
