"""Files that were on a gateway before their directory became managed. Pure.

A managed directory may hold files that no commit brought. Under the policy Mirror:

| such a file | goes |
|---|---|
| came after the directory became managed | with the next sync |
| was there before: adopted | once a person allows this commit to delete |
| is there, and the manifest has no record of adoption | as if it were adopted |

The manifest records adopted files, and a record ends when the file is gone, becomes part of
the commit, or lies in no managed directory any more. A manifest without a record was written
by an earlier version: where a file came from is not known then, so none of them goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windlass.gateways.decide import live as live_trees
from windlass.gateways.decide.ops import Op
from windlass.gateways.decide.situation import Situation


def unmanaged(situation: Situation) -> Iterator[str]:
    """Live files in managed directories that neither the commit nor an earlier sync brought."""
    layout, ours = situation.layout, situation.ours
    managed = layout.managed_directories
    for path in situation.live.files:
        if path in layout.files or path in ours:
            continue
        if live_trees.covered(path, managed):
            yield path


def adopted(situation: Situation) -> frozenset[str]:
    """Those of the unmanaged files that were there before their directory became managed."""
    manifest, before = situation.manifest, situation.directories_before
    found = unmanaged(situation)
    if manifest is None or manifest.adopted is None:
        return frozenset(found)
    known = frozenset(manifest.adopted)
    return frozenset(
        path for path in found if path in known or not live_trees.covered(path, before)
    )


def recorded(situation: Situation, steps: Iterable[Op]) -> tuple[str, ...]:
    """What a manifest records after `steps`."""
    gone = {step.path for step in steps if step.op == "delete"}
    return tuple(sorted(adopted(situation) - gone))
