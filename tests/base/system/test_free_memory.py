"""Memory as this process may use it, on systems that are drawn up in a folder."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from localspec.base.system import free_memory

GB, MB = 1 << 30, 1 << 20


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_groups_it_is_the_system_s(tmp_path):
    measured, system = free_memory.memory(tmp_path), psutil.virtual_memory()
    assert measured.total_bytes == system.total
    assert measured.free_bytes == pytest.approx(system.available, rel=0.2)


V2 = {
    "proc/self/cgroup": "0::/user.slice/app\n",
    "sys/fs/cgroup/user.slice/app/memory.max": f"{GB}\n",
    "sys/fs/cgroup/user.slice/app/memory.current": f"{700 * MB}\n",
    "sys/fs/cgroup/user.slice/app/memory.stat": f"anon 5\ninactive_file {200 * MB}\n",
}


def test_a_group_limits_and_file_pages_that_rest_are_free(tmp_path):
    measured = free_memory.memory(write(tmp_path, V2))
    assert measured.total_bytes == GB
    assert measured.free_bytes == GB - 500 * MB


def test_the_tightest_group_on_the_way_up_counts(tmp_path):
    above = {
        "sys/fs/cgroup/user.slice/memory.max": f"{800 * MB}\n",
        "sys/fs/cgroup/user.slice/memory.current": f"{790 * MB}\n",
        "sys/fs/cgroup/user.slice/memory.stat": "inactive_file 0\n",
    }
    measured = free_memory.memory(write(tmp_path, V2 | above))
    assert (measured.total_bytes, measured.free_bytes) == (800 * MB, 10 * MB)


def test_a_group_without_a_limit_is_none(tmp_path):
    files = V2 | {"sys/fs/cgroup/user.slice/app/memory.max": "max\n"}
    assert free_memory.memory(write(tmp_path, files)).total_bytes == psutil.virtual_memory().total


def test_inside_a_container_the_root_of_what_is_seen_counts(tmp_path):
    files = {
        "proc/self/cgroup": "0::/../../outside\n",
        "sys/fs/cgroup/memory.max": f"{2 * GB}\n",
        "sys/fs/cgroup/memory.current": f"{GB}\n",
        "sys/fs/cgroup/memory.stat": "inactive_file 0\n",
    }
    measured = free_memory.memory(write(tmp_path, files))
    assert (measured.total_bytes, measured.free_bytes) == (2 * GB, GB)


def test_the_older_groups_count_too(tmp_path):
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/job\n4:memory:/job\n",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{3 * GB}\n",
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{2 * GB}\n",
        "sys/fs/cgroup/memory/job/memory.stat": f"cache 1\ntotal_inactive_file {GB}\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{30 * GB}\n",
    }
    measured = free_memory.memory(write(tmp_path, files))
    assert (measured.total_bytes, measured.free_bytes) == (3 * GB, 2 * GB)


def test_use_beyond_a_limit_leaves_nothing(tmp_path):
    files = V2 | {"sys/fs/cgroup/user.slice/app/memory.current": f"{2 * GB}\n"}
    assert free_memory.memory(write(tmp_path, files)).free_bytes == 0


@pytest.mark.parametrize("text", ["", "max", "-1 2", "nonsense\n", "\xff"])
def test_what_makes_no_sense_is_no_limit(tmp_path, text):
    root = write(tmp_path, V2)
    (root / "sys/fs/cgroup/user.slice/app/memory.current").write_bytes(text.encode("latin-1"))
    assert free_memory.memory(root).total_bytes == psutil.virtual_memory().total


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_limit_of_the_address_space_counts():
    code = "from localspec.base.system.free_memory import memory; m = memory()"
    code += "; print(m.total_bytes, m.free_bytes)"
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({4 * GB}, {4 * GB})); "
    done = subprocess.run([sys.executable, "-c", limited + code], capture_output=True, check=True)
    total, free = map(int, done.stdout.split())
    assert total == min(4 * GB, psutil.virtual_memory().total)
    assert 0 < free < 4 * GB


def test_waiting_for_memory_is_told_by_the_group_or_the_system(tmp_path):
    assert free_memory.stalls(tmp_path) == 0
    text = "some avg10=50.00 avg60=1.00 avg300=0.00 total=9\nfull avg10=12.50 avg60=0 total=1\n"
    root = write(tmp_path, V2 | {"proc/pressure/memory": text})
    assert free_memory.stalls(root) == 0.125
    own = {"sys/fs/cgroup/user.slice/app/memory.pressure": "full avg10=0.00 avg60=0 total=1\n"}
    assert free_memory.stalls(write(tmp_path, own)) == 0


HOARD = """
import psutil
from localspec.base.system.free_memory import return_large_blocks
return_large_blocks()
held = psutil.Process().memory_info
size, blocks, last = 2 << 20, [], []
for _ in range(50):  # some are freed before others are taken
    blocks.append(bytearray(size))
    last.append([bytearray(size) for size in range(600, 700)])  # the heap cannot shrink below it
    blocks[-1] = None
    blocks.append(bytearray(size))
before = held().rss
blocks.clear()
print(before - held().rss)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone keeps what is freed")
def test_large_blocks_are_returned_to_the_system():
    result = subprocess.run([sys.executable, "-c", HOARD], capture_output=True, check=True)
    assert int(result.stdout) > 90 * MB
