"""Writes a commit into a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from windlass.git.edit import Editing
from windlass.git.format import commit
from windlass.git.format.person import Person
from windlass.git.store import Store


def write_commit(
    into: Store | Editing,
    *,
    tree: str,
    parents: Sequence[str],
    author: Person,
    author_time: datetime,
    committer: Person,
    commit_time: datetime,
    message: str,
    sign: Callable[[bytes], str] | None = None,
) -> str:
    """The id of the new commit; `sign` makes an armoured signature over its bytes.

    Into an `Editing` it goes with everything else that is written together.
    """
    data = commit.encode(
        tree=tree,
        parents=parents,
        author=author,
        author_time=author_time,
        committer=committer,
        commit_time=commit_time,
        message=message,
    )
    if sign is not None:
        data = commit.signed(data, sign(data))
    editing = into if isinstance(into, Editing) else Editing(into)
    identifier = editing.keep("commit", data)
    if editing is not into:
        editing.write()
    return identifier
