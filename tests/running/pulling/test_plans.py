"""What is refused before the first byte of a download."""

from __future__ import annotations

import shutil

import pytest

from localspec.base.errors import PullError
from localspec.running.models.engines import engine
from localspec.running.models.sources import Address, Hub
from localspec.running.pulling.address import download_folder
from localspec.running.pulling.listing import Listing, Remote
from localspec.running.pulling.pull import DISK_RESERVE, require_disk_space
from localspec.running.pulling.pull_plan import PullPart, PullPlan
from localspec.running.pulling.resolve import pull_plan

LOOSE = Address("http://127.0.0.1:9/loose.gguf", "0" * 64)
LISTING = Listing("people/one", "c0ffee", (Remote("one.gguf", 1 << 60, "ab" * 32, True),))
EB = 1 << 60


def plan(*parts):
    return PullPlan("loose", "as-given", engine("llamacpp"), *parts)


@pytest.mark.parametrize(
    ("part", "variable"),
    [
        (PullPart(LOOSE, address_bytes=EB), "XDG_DATA_HOME"),
        (PullPart(Hub("people/one"), LISTING, LISTING.files), "HF_HOME"),
    ],
    ids=["address", "hub"],
)
def test_a_download_that_the_disk_does_not_hold_is_refused(part, variable):
    with pytest.raises(PullError, match=f"takes 1,073,741,824 GiB .* or set {variable} to"):
        require_disk_space(plan(part))
    require_disk_space(plan(PullPart(LOOSE, address_bytes=1)))


def test_parts_on_one_disk_are_added_up():
    free = shutil.disk_usage(download_folder().parents[2]).free
    large = PullPart(LOOSE, address_bytes=free * 6 // 10 - DISK_RESERVE)
    require_disk_space(plan(large))
    with pytest.raises(PullError, match="takes"):
        require_disk_space(plan(large, "model", large))


def test_a_name_of_the_catalogue_is_not_taken_by_a_file():
    source = f"http://127.0.0.1:9/Qwen2.5-Coder-0.5B.gguf#sha256={'0' * 64}"
    message = (
        r"qwen2.5-coder-0.5b is a name of the catalogue already, .* localspec add NAME --target"
    )
    with pytest.raises(PullError, match=message):
        pull_plan(source)
