"""The links to workers, for people."""

from __future__ import annotations

from localspec.backend_spec import Link


def link_line(link: Link) -> str:
    return (
        f"a trip to {link.worker} takes {link.trip_seconds * 1e3:.2f} ms, "
        f"{link.bytes_a_second / 1e6:,.0f} MB/s"
    )
