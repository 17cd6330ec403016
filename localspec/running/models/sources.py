"""Sources of weights: a hub, an installed package, a file of one's own, an address."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from localspec.base.errors import UsageError

HUB = re.compile(
    r"hf:(?P<repository>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?(:(?P<file>[^:]+))?", re.ASCII
)
ADDRESS = re.compile(r"(?P<address>https?://[^\s#]+)#sha256=(?P<sha256>[0-9a-f]{64})")
PACKAGE = re.compile(r"package:(?P<module>\w+)/(?P<file>[^:]+)", re.ASCII)
SCHEMES = ("hf", "http", "https", "package")
KINDS = "hf:ORG/REPOSITORY[:FILE], https://ADDRESS#sha256=SUM, package:MODULE/FILE, or a path"


@dataclass(frozen=True, slots=True)
class Hub:
    repository: str
    file: str = ""  # a name or a pattern; nothing: by the quantisation, or all of a folder
    revision: str = ""

    def __str__(self) -> str:
        at = f"@{self.revision}" if self.revision else ""
        return f"hf:{self.repository}{at}" + (f":{self.file}" if self.file else "")


@dataclass(frozen=True, slots=True)
class Address:
    address: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.address}#sha256={self.sha256}"

    @property
    def name(self) -> str:
        return PurePosixPath(self.address.partition("?")[0]).name


@dataclass(frozen=True, slots=True)
class Package:
    """A file that an installed package carries."""

    module: str
    file: str

    def __str__(self) -> str:
        return f"package:{self.module}/{self.file}"

    def find(self) -> Path | None:
        """Find the file without importing the package."""
        spec = importlib.util.find_spec(self.module)
        for folder in (spec and spec.submodule_search_locations) or ():
            path = Path(folder) / self.file
            if path.exists():
                return path
        return None


@dataclass(frozen=True, slots=True)
class LocalFiles:
    path: Path

    def __str__(self) -> str:
        return str(self.path)


Source = Hub | Address | Package | LocalFiles


REPOSITORY = re.compile(
    r"((https://)?(hf\.co|huggingface\.co)/)?(?P<repository>[\w][\w.-]*/[\w.-]+)(:(?P<file>[^:/]+))?",
    re.ASCII,
)


def as_hub_source(text: str) -> str:
    """Write ORG/REPOSITORY, or the address of its page, as a source; "" where it is neither."""
    match = REPOSITORY.fullmatch(text)
    if not match:
        return ""
    return f"hf:{match['repository']}" + (f":*{match['file']}*" if match["file"] else "")


def source(text: str) -> Source:
    """Parse a source of weights, as a catalogue or a command line gives it."""
    if match := HUB.fullmatch(text):
        inside(match["file"] or "", text)
        return Hub(match["repository"], match["file"] or "", match["revision"] or "")
    if match := ADDRESS.fullmatch(text):
        return Address(match["address"], match["sha256"])
    if match := PACKAGE.fullmatch(text):
        inside(match["file"], text)
        return Package(match["module"], match["file"])
    if text.startswith(tuple(f"{scheme}:" for scheme in SCHEMES)) or not text:
        page = as_hub_source(text)
        kinds = f"write it as {page}" if page else f"it must be {KINDS}"
        raise UsageError(f"{text!r} is no source; {kinds}")
    return LocalFiles(expand_home(text).absolute())


def expand_home(text: str | Path) -> Path:
    """Expand `~` in a path."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UsageError(f"{str(text)!r} names a home that is not here") from None


def is_there(path: Path) -> bool:
    """Whether something has this path; a text may be too long for one, as a question is."""
    try:
        return path.exists()
    except OSError:
        return False


def inside(file: str, text: str) -> None:
    """Refuse a file outside of its repository or package."""
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or "\\" in file or "\0" in file:
        raise UsageError(f"{text!r} names a file outside of its repository")
