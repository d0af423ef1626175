"""How many files become durable at once.

A few are synced one by one. For many, one flush of their file system is some eight times
cheaper than a flush per file; files on several file systems take one flush each.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from windlass.gateways.agent.tree import Tree

FEW = 24


def settle(tree: Tree, paths: Iterable[str]) -> None:
    """Make files and directories outlive a power cut; what is gone needs nothing."""
    wanted = sorted(set(paths))
    if len(wanted) > FEW:
        wanted = _one_per_file_system(tree, wanted)
        for path in wanted:
            tree.sync_all(path)
        return
    for path in wanted:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            tree.sync(path)


def _one_per_file_system(tree: Tree, paths: Iterable[str]) -> list[str]:
    first: dict[int, str] = {}
    for path in paths:
        found = tree.stat(path)
        if found is not None:
            first.setdefault(found.st_dev, path)
    return list(first.values())
