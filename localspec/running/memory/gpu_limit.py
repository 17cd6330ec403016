"""A GPU that may take a part of the host's memory, and the command that lets it take more."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.interfaces.backend import Device

STEP = 256 << 20  # bytes, to which a limit is rounded up
SYSTEM_BYTES, SYSTEM_SHARE = 4 << 30, 1 / 16  # of memory that are left to the system


@dataclass(frozen=True, slots=True)
class GpuLimit:
    """A limit below what the host has free.

    setting: its name
    spare: bytes that are free and beyond the limit
    most: bytes that it may be set to
    """

    setting: str
    spare: int
    most: int

    @classmethod
    def between(cls, host: Device, gpu: Device) -> GpuLimit | None:
        """Return the limit of a GPU; None if it is no hindrance."""
        spare = host.free_bytes - gpu.free_bytes
        if not gpu.limit or spare <= 0:
            return None
        left = max(SYSTEM_BYTES, int(SYSTEM_SHARE * host.total_bytes))
        return cls(gpu.limit, spare, host.total_bytes - left)

    def command(self, total: int, short: int, reserve_share: float) -> str:
        """Return the command that gives so many bytes more; "" if none does."""
        more = int(short / (1 - reserve_share)) + 1
        raised = -(-(total + more) // STEP) * STEP
        if more > self.spare or raised > self.most:
            return ""
        return f"sudo sysctl {self.setting}={raised >> 20}"
