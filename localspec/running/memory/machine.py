"""The memory of the host, and of GPUs that have their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from localspec.base.errors import UsageError
from localspec.interfaces.backend import Device
from localspec.running.memory.gpu_limit import GpuLimit

# Bytes, and a share of the total, left for other programs; of a GPU at most so many bytes: 6% of a
# large one are 8 GiB, which kept all layers of a model off it while 3 GiB of it were free.
MIN_RESERVE, RESERVE_SHARE = 512 << 20, 0.06
MAX_GPU_RESERVE = 2 << 30


@dataclass(frozen=True, slots=True)
class Pool:
    """The memory of the host or of a GPU."""

    name: str
    total: int
    free: int
    reserve: int
    worker: str = ""  # HOST:PORT of the machine that has it; empty: this one
    by_budget: bool = False  # less is free than there is, since a user chose so
    limit: GpuLimit | None = None  # below what the host has

    @property
    def available(self) -> int:
        return max(self.free - self.reserve, 0)

    def advice(self, short: int) -> str:
        """Name the command that gives a GPU so many bytes more of the host's memory, if any."""
        if self.limit is None or self.by_budget:
            return ""
        command = self.limit.command(self.total, short, RESERVE_SHARE)
        return f"the GPU may take more of the memory after: {command}" if command else ""


@dataclass(frozen=True, slots=True)
class Machine:
    """The host, and GPUs with memory of their own, in the engine's order."""

    host: Pool
    gpus: tuple[Pool, ...] = ()
    main: int | None = None  # the GPU for a model that one can hold, and for draft models
    drafting: str = "auto"  # the device for draft models: "cpu", or the number of a GPU

    @classmethod
    def of(cls, host: Device, devices: Sequence[Device]) -> Machine:
        """Collect the pools; an integrated GPU shares the memory of the host.

        Beside workers it is a pool of its own, since layers are divided between it and theirs.
        """
        far = [device for device in devices if device.worker]
        own = [device for device in devices if device.kind == "gpu" and not device.worker]
        integrated = [device for device in devices if device.kind == "integrated gpu"]
        gpus = [*far, *(own or integrated)] if far else own
        limit = None
        if not gpus:
            for shared in integrated:
                limit = GpuLimit.between(host, shared)
                total = min(shared.total_bytes, host.total_bytes)
                free = min(shared.free_bytes, host.free_bytes)
                host = Device(shared.name, "cpu", total, free)
        names = Counter(gpu.name for gpu in gpus)
        distinct = [
            replace(gpu, name=f"{gpu.name} #{at}") if names[gpu.name] > 1 else gpu
            for at, gpu in enumerate(gpus)
        ]
        return cls(replace(_pool(host), limit=limit), tuple(map(_pool, distinct)))

    @property
    def available(self) -> int:
        return sum(pool.available for pool in (self.host, *self.gpus))

    @property
    def home(self) -> int | None:
        """The GPU for a draft model: as chosen, the main one, or the roomiest here; None: the host.

        A draft takes a step for each token, and a step on another machine takes a trip.
        """
        if self.drafting != "auto":
            return int(self.drafting) if self.drafting.isdecimal() else None
        if self.main is not None:
            return self.main
        local = [at for at, gpu in enumerate(self.gpus) if gpu.free and not gpu.worker]
        return max(local, key=lambda at: self.gpus[at].available, default=None)

    def only(self, gpu: int) -> Machine:
        """Return the machine with one GPU only."""
        self.require(gpu)
        others = (pool if at == gpu else replace(pool, free=0) for at, pool in enumerate(self.gpus))
        return replace(self, gpus=tuple(others))

    def led_by(self, gpu: int) -> Machine:
        """Return the machine with a main GPU."""
        self.require(gpu)
        return replace(self, main=gpu)

    def drafting_on(self, device: str) -> Machine:
        """Return the machine with a device for draft models."""
        if device.isdecimal():
            self.require(int(device))
        return replace(self, drafting=device)

    def require(self, gpu: int) -> None:
        if not 0 <= gpu < len(self.gpus):
            if self.gpus:
                raise UsageError(f"there is no GPU {gpu}; there are: 0 to {len(self.gpus) - 1}")
            raise UsageError(
                f"there is no GPU {gpu}: no engine sees one here; `localspec doctor` reports what "
                "it sees, and --device cpu needs none"
            )

    def within(self, budget: int) -> Machine:
        """Return the machine with at most `budget` bytes for models, on its GPUs if it has any."""
        if not self.gpus:
            return replace(self, host=_limit(self.host, budget))
        available = max(sum(gpu.available for gpu in self.gpus), 1)
        return replace(
            self, gpus=tuple(_limit(gpu, budget * gpu.available // available) for gpu in self.gpus)
        )

    def instead(self, budget: int) -> Machine:
        """Return another machine with exactly `budget` bytes for models, whatever is free here."""
        host, gpus = self.host, self.gpus
        if not gpus:
            return replace(self, host=_suppose(host, budget))
        return replace(self, gpus=tuple(_suppose(gpu, budget // len(gpus)) for gpu in gpus))


def _pool(device: Device) -> Pool:
    reserve = max(MIN_RESERVE, int(RESERVE_SHARE * device.total_bytes))
    if device.kind == "gpu":
        reserve = min(reserve, MAX_GPU_RESERVE)
    return Pool(device.name, device.total_bytes, device.free_bytes, reserve, device.worker)


def _limit(pool: Pool, budget: int) -> Pool:
    """Limit a pool to a budget; no reserve is left, since the user has chosen."""
    free = min(pool.free, budget)
    return replace(pool, free=free, reserve=0, by_budget=free < pool.free)


def _suppose(pool: Pool, budget: int) -> Pool:
    return replace(pool, total=budget, free=budget, reserve=0, by_budget=True)


def size(count: int) -> str:
    """Format bytes for people."""
    if count >= 10 << 30:
        return f"{count / 2**30:,.0f} GiB"
    if count >= 1 << 30:
        return f"{count / 2**30:.1f} GiB"
    return f"{max(-(-count >> 20), 1) if count else 0:,} MiB"
