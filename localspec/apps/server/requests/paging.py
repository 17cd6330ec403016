"""Pages of lists, as OpenAI's API has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localspec.apps.server.faults import refused


def page(
    ordered: Sequence[Mapping[str, object]], limit: int, after: str | None
) -> dict[str, object]:
    """Return so many entries behind one of them, or from the first."""
    ids = [str(entry["id"]) for entry in ordered]
    if after is not None:
        if after not in ids:
            raise refused(f"there is no item {after[:80]!r} to list items after", "after")
        ordered = ordered[ids.index(after) + 1 :]
    data = ordered[:limit]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(ordered) > limit,
    }
