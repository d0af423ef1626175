"""What we keep on a gateway's data volume, and where (APP-3).

    .ignition-sync/
        lock             who may write (lock.py)
        state.json       what the agent remembers
        manifest.json    the managed tree as we left it
        journal          present from the commit point until a transaction is finished
        staging/<tx>/    new contents, and the papers of a transaction
        undo/<tx>/       old contents of the last apply
        snapshots/       packed copies of the managed roots

Every document carries a schema number. One that is newer than ours stops all writes, but
never the gateway: a newer agent wrote it and knows something that we do not. Documents are
replaced in one step and durably; `.new` beside one is what a crash left of a replacement.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from typing import TypeVar

import msgspec

from windlass.base.errors import Stalled
from windlass.gateways.agent.placement import discard
from windlass.gateways.agent.tree import Tree
from windlass.gateways.decide.protected import STATE
from windlass.gateways.decide.refusal import Refused

LOCK = f"{STATE}/lock"
MEMORY = f"{STATE}/state.json"
MANIFEST = f"{STATE}/manifest.json"
JOURNAL = f"{STATE}/journal"
STAGING = f"{STATE}/staging"
UNDO = f"{STATE}/undo"

SCHEMA = 1

_DOCUMENTS = (MEMORY, MANIFEST, JOURNAL)
# Old and new contents lie here; nobody but us has to read them here.
_PRIVATE_DIRECTORY = 0o700
_PRIVATE_FILE = 0o600

Document = TypeVar("Document", bound=msgspec.Struct)


class _Head(msgspec.Struct):
    schema: int = SCHEMA


_head = msgspec.json.Decoder(_Head)


def create(tree: Tree) -> None:
    """Make the directories that are missing, durably; afterwards all of them are there."""
    missing = [folder for folder in (STATE, STAGING, UNDO) if tree.stat(folder) is None]
    for folder in missing:
        make(tree, folder)
    for folder in {folder.rpartition("/")[0] for folder in missing}:
        tree.sync(folder)


def make(tree: Tree, folder: str) -> None:
    """Make one private directory; one that is there already is as good."""
    with contextlib.suppress(FileExistsError):
        tree.mkdir(folder, _PRIVATE_DIRECTORY)


def check_schemas(tree: Tree, *, known: Collection[str] = ()) -> None:
    """Refuse to write where a newer windlass has written; a broken document waits for its use.

    `known` are documents whose content is known to be ours.
    """
    for path in _DOCUMENTS:
        data = tree.read(path) if path not in known else None
        if data is not None:
            with contextlib.suppress(msgspec.DecodeError):
                check_schema(path, data)


def check_schema(path: str, data: bytes) -> None:
    """`Refused` where the document is newer than we are."""
    found = _head.decode(data).schema
    if found > SCHEMA:
        raise Refused(
            "VolumeLocked",
            path,
            f"{path} was written by a newer version of windlass (schema {found}, this one "
            f"knows {SCHEMA}); nothing is written until the agent is at least as new",
        )


def read(tree: Tree, path: str, kind: type[Document]) -> Document | None:
    """The document at `path`; None if there is none."""
    data = tree.read(path)
    if data is None:
        return None
    try:
        check_schema(path, data)
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise broken(path, str(error)) from error


def write_new(tree: Tree, path: str, content: bytes, *, sync: bool) -> None:
    """Write a file that is not there yet; without `sync` somebody else makes it durable."""
    descriptor = tree.create(path, _PRIVATE_FILE)
    try:
        tree.write(descriptor, content)
        if sync:
            tree.sync_open(descriptor)
    finally:
        os.close(descriptor)


def replace(tree: Tree, path: str, content: bytes) -> None:
    """Let the document at `path` be `content`, in one step and durably."""
    temporary = f"{path}.new"
    discard(tree, temporary)
    try:
        write_new(tree, temporary, content, sync=True)
        tree.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            tree.unlink(temporary)
        raise
    tree.sync(path.rpartition("/")[0])


def sweep(tree: Tree) -> None:
    """Remove what a crash left of a replacement."""
    for name in tree.names(STATE):
        if name.endswith(".new"):
            discard(tree, f"{STATE}/{name}")


def remove_directory(tree: Tree, folder: str) -> None:
    """Remove a directory of ours with the files in it; there are no directories in it."""
    for name in tree.names(folder):
        discard(tree, f"{folder}/{name}")
    with contextlib.suppress(FileNotFoundError):
        tree.rmdir(folder)


def broken(path: str, why: str) -> Stalled:
    """The error for a document that cannot be what we wrote."""
    return Stalled(
        "Internal",
        f"{path} on the data volume is damaged ({why}): restore the volume, or remove "
        f"{STATE}, after which the next sync adopts the files that are there",
    )
