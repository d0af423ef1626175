"""What a transaction is about to do, and how far it has to be taken.

Rules:
- Before the commit point nothing outside the state directory changes. Everything that the
  transaction needs lies durably in `staging/<tx>` and `undo/<tx>`; staging is then linked
  to the name `journal` in one step, which is the commit point.
- While there is a journal, staging and undo of its transaction are whole. So it can be
  taken to either end from any state of the tree, also from one that a power cut made.
- The journal goes only after the tree and the manifest of that end are durable. Only
  then is anything dropped.

    state    | what happens                            | next    | tree
    ---------|-----------------------------------------|---------|--------------------
    none     | staged, undo kept, `forward` placed     | forward | old
    none     | crash, abandoned, disk full             | none    | old
    forward  | crash, lock lost                        | forward | any; replay resumes
    forward  | all steps done, manifest placed         | none    | new
    forward  | a step cannot be done, `back` placed    | back    | any
    back     | crash, lock lost, a step cannot be done | back    | any; replay resumes
    back     | all steps reverted                      | none    | old

Turning back writes nothing: the paper that says so was staged before the commit point,
because the usual reason to turn back is a full disk.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from windlass.base import failpoint
from windlass.gateways.agent import placement, state_directory
from windlass.gateways.agent.staging import Staging
from windlass.gateways.agent.state_directory import JOURNAL
from windlass.gateways.agent.tree import Tree
from windlass.gateways.decide.protected import STATE

Direction = Literal["forward", "back"]
Kind = Literal["", "file", "directory"]
OpName = Literal["mkdir", "put", "delete", "rmdir"]

RECORD = "record"
MANIFEST = "manifest"


class Step(msgspec.Struct, frozen=True):
    """One change to the tree; `was` is what the path held before it."""

    op: OpName
    path: str
    was: Kind
    staged: int | None = None
    sha256: str = ""
    size: int = 0
    was_size: int = 0


class Record(msgspec.Struct, frozen=True):
    """Everything a transaction does; its undo is kept under the numbers of its steps."""

    tx: str
    from_commit: str
    to_commit: str
    steps: tuple[Step, ...]
    has_manifest: bool
    had_manifest: bool
    keeps_undo: bool
    schema: int = state_directory.SCHEMA


class Journal(msgspec.Struct, frozen=True):
    """The transaction that has passed its commit point, and where it is going."""

    tx: str
    direction: Direction
    schema: int = state_directory.SCHEMA


def read(tree: Tree) -> Journal | None:
    """The journal, if a transaction is past its commit point."""
    return state_directory.read(tree, JOURNAL, Journal)


def read_record(tree: Tree, path: str) -> Record:
    """The record of a transaction; without it nobody knows what was going on."""
    record = state_directory.read(tree, path, Record)
    if record is None:
        raise state_directory.broken(path, "it is missing")
    return record


def write_papers(staging: Staging, record: Record) -> None:
    """Stage what the journal may have to say."""
    staging.write_paper(RECORD, msgspec.json.encode(record))
    for direction in ("forward", "back"):
        paper = Journal(record.tx, "forward" if direction == "forward" else "back")
        staging.write_paper(direction, msgspec.json.encode(paper))


def commit(tree: Tree, staging_folder: str) -> None:
    """The commit point: from here on the transaction is finished, whatever happens."""
    _point(tree, staging_folder, "forward")


def turn_back(tree: Tree, staging_folder: str) -> None:
    """From here on the transaction is undone, whatever happens."""
    _point(tree, staging_folder, "back")


def drop(tree: Tree) -> None:
    """The transaction is over; its end is durable."""
    failpoint.reach("gateways.journal.drop.before")
    placement.discard(tree, JOURNAL)
    tree.sync(STATE)
    failpoint.reach("gateways.journal.drop.after")


def withdraw(tree: Tree, tx: str) -> None:
    """Take back a commit point whose durability is not known, before any step was done."""
    found = read(tree)
    if found is not None and found.tx == tx:
        drop(tree)


def _point(tree: Tree, staging_folder: str, direction: Direction) -> None:
    failpoint.reach(f"gateways.journal.{direction}.before")
    placement.place(tree, f"{staging_folder}/{direction}", JOURNAL, tag=direction)
    tree.sync(STATE)
    failpoint.reach(f"gateways.journal.{direction}.after")
