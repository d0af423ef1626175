"""Directories that deletes leave empty (APP-6).

Only what lies in a root of now or of before goes, and only if this plan emptied it: a
directory that was empty already is the gateway's own business. A root that is still
managed stays, even empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from windlass.gateways.decide import live as live_trees
from windlass.gateways.decide import paths
from windlass.gateways.decide.obstacles import Obstacles
from windlass.gateways.decide.situation import Situation


def emptied(situation: Situation, deletes: Iterable[str], first: Obstacles) -> frozenset[str]:
    """The directories to remove after `deletes`, when `first` has already gone."""
    going = tuple(deletes)
    candidates = paths.all_parents(going) - _needed(situation)
    if not candidates:
        return frozenset()
    live = situation.live
    left = Counter(map(paths.parent, (*live.files, *live.directories, *live.others)))
    left.subtract(map(paths.parent, (*going, *first.files, *first.directories)))
    roots = situation.layout.managed_directories | situation.directories_before
    found: set[str] = set()
    for folder in sorted(candidates, key=lambda path: -path.count("/")):
        if left[folder] <= 0 and live_trees.covered(folder, roots):
            found.add(folder)
            left[paths.parent(folder)] -= 1
    return frozenset(found)


def _needed(situation: Situation) -> frozenset[str]:
    layout = situation.layout
    return layout.directories.union(root.path for root in (*layout.roots, *layout.vacant))
