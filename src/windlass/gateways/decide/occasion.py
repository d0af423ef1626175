"""Why a gateway is synced, as the audit record says it.

The first row that fits decides:

| what is known | occasion |
|---|---|
| somebody asked, or allowed deletes, and was not heeded yet | manual |
| nothing was ever synced, or the gateway has not been started yet | start |
| another ref, or another routing of the gateway | spec |
| another commit under the same ref | poll |
| the version that is there already | drift |

Agents are not told how the controller heard of a commit; a push is a poll to them.
"""

from __future__ import annotations

from typing import Literal

from windlass.gateways.decide import next_step
from windlass.gateways.decide.next_step import Facts

Occasion = Literal["manual", "start", "spec", "poll", "drift"]


def occasion(facts: Facts, *, ref: str, is_starting: bool) -> Occasion:
    """Why a sync is the next step; `ref` is the one that was synced last."""
    goal, metadata, held = next_step.wanted(facts), facts.metadata, facts.on_disk
    if facts.may_delete or (metadata is not None and metadata.trigger != facts.trigger):
        return "manual"
    if held is None or goal is None or is_starting:
        return "start"
    source = metadata.source if metadata is not None else None
    if held.profile_hash != goal.profile_hash or (source is not None and source.ref != ref):
        return "spec"
    return "poll" if held.commit != goal.commit else "drift"
