"""Invariants of every branch that we wrote to."""

from __future__ import annotations

import itertools
import json
from datetime import datetime

from tests.support.git import http_server
from tests.support.processes.operator import Operator, eventually
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass.reverser.publish import branch_worker


def assert_sound(mirrored: MirroredNamespace) -> None:
    """Linear, without empty or repeated commits, never rewritten, and complete."""
    log = http_server.git(mirrored.path, "log", "--format=%H %T %P", mirrored.branch)
    rows = [line.split() for line in log.splitlines()]
    assert all(len(row) <= 3 for row in rows), "no merge commit"
    trees = [row[1] for row in rows]
    repeated = [tree for tree, parent_tree in itertools.pairwise(trees) if tree == parent_tree]
    assert not repeated, "no commit repeats the tree of its parent"
    assert_only_advanced(mirrored)
    _assert_complete(mirrored)


def _assert_complete(mirrored: MirroredNamespace) -> None:
    """No object is missing; a push meanwhile brings objects that fsck walked past already."""
    before = tip(mirrored)
    try:
        http_server.git(mirrored.path, "fsck", "--strict", "--full")
    except AssertionError:
        if tip(mirrored) == before:
            raise
        _assert_complete(mirrored)


def assert_only_advanced(mirrored: MirroredNamespace) -> None:
    """Every update of the branch that the server logged was a fast-forward."""
    for old, new in branch_updates(mirrored):
        base = http_server.git(mirrored.path, "merge-base", old, new).strip()
        assert base == old, f"{old} to {new} was no fast-forward"


def branch_updates(mirrored: MirroredNamespace) -> list[tuple[str, str]]:
    """The updates of the branch by pushes, oldest first; its creation is not among them."""
    log = mirrored.path / "logs" / "refs" / "heads" / mirrored.branch
    rows = [line.split(" ", 2)[:2] for line in log.read_text().splitlines() if "\tpush" in line]
    return [(old, new) for old, new in rows if set(old) != {"0"}]


def late_snapshots(operator: Operator, logged: int, mirrored: MirroredNamespace) -> int:
    """How many more commits the snapshots of a namespace may need, by the operator's log.

    Snapshots that begin together share a commit, but it does not wait longer than that for what
    is late on a slow machine. Only what follows the first `logged` characters counts; one that
    broke does not count as a part of the next.
    """

    def rows() -> list[dict[str, str]]:
        lines = operator.log.read_text()[logged:].splitlines()
        found = [json.loads(line) for line in lines if '"message":"stream"' in line]
        return [row for row in found if row["scope"].endswith(f" in {mirrored.namespace}")]

    eventually(lambda: any(row["state"] == "synced" for row in rows()), "a snapshot")
    late, started = 0, None
    for row in rows():
        at = datetime.fromisoformat(row["timestamp"])
        if row["state"] in ("seeding", "restarting") and not row["detail"]:
            started = started or (at, late)
        elif started and row["state"] in ("synced", "incomplete"):
            first, before = started
            late = before + int((at - first).total_seconds() / branch_worker._SEEDING_SECONDS)
            started = started if row["state"] == "synced" else None
    return late


def tip(mirrored: MirroredNamespace) -> str:
    """The tip of the branch; empty if there is none."""
    return http_server.branch_tips(mirrored.path).get(mirrored.branch, "")
