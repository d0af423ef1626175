"""When all gateways had a new commit or routing for the first time.

The moment is kept in the status ConfigMap of the CR, beside the gateways: it must survive
a restart, or every start would write a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from windlass.gateways.decide.status_report import written

KEY = "_synced"
"""No pod can be called so."""


class Reached(Struct, frozen=True, rename="camel"):
    """All counted gateways had this commit and routing from `time` on."""

    commit: str
    routing_hash: str
    time: datetime


def told(data: Mapping[str, str]) -> Reached | None:
    """What was noted last; None where nothing can be read."""
    try:
        found = msgspec.json.decode(data.get(KEY, ""), type=Reached)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.time.tzinfo is not None else None


def next_reached(
    before: Reached | None, commit: str, routing_hash: str, *, all_synced: bool, now: datetime
) -> Reached | None:
    """What is to be noted now: it moves only when all have reached something new."""
    if not all_synced or not commit:
        return before
    if before is not None and (before.commit, before.routing_hash) == (commit, routing_hash):
        return before
    return Reached(commit, routing_hash, now.astimezone(UTC).replace(microsecond=0))


def noted(reached: Reached | None) -> dict[str, str]:
    """The key of the ConfigMap."""
    if reached is None:
        return {}
    body = {
        "commit": reached.commit,
        "routingHash": reached.routing_hash,
        "time": written(reached.time),
    }
    return {KEY: msgspec.json.encode(body, order="sorted").decode()}
