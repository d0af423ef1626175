"""Which destinations may hold a folder when another one is opened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from windlass.base.errors import Retryable, Stalled, WindlassError
from windlass.objects.names import Key
from windlass.reverser.publish import folder_opening
from windlass.reverser.publish.folder import Folder, WriteTarget
from windlass.reverser.publish.writer_group import WriterGroup


def _folder(name: str) -> Folder:
    return Folder(cast("WriteTarget", SimpleNamespace(key=Key("ns", name))))


def _group(name: str, *folders: Folder, error: WindlassError | None = None) -> WriterGroup:
    mine = {folder.target.key: folder for folder in folders}
    return WriterGroup(Key("ns", name), folders=mine, error=error)


def test_a_refused_writer_group_holds_no_folder() -> None:
    """GIT-2: a tenant without write access cannot squat a folder; a passing fault is no refusal."""
    mine, refused, away = _folder("mine"), _folder("refused"), _folder("away")
    own = _group("own", mine)
    other = _group("other", refused, error=Stalled("PushRejected", "no"))
    third = _group("third", away, error=Retryable("GitUnavailable", "later"))
    pairs = [(own, mine), (other, refused), (third, away)]
    assert folder_opening.possible_holders(mine, pairs) == [mine, away]


def test_folders_of_the_same_group_always_count() -> None:
    """An error of the whole group excludes none of its folders."""
    mine, beside, closed = _folder("mine"), _folder("beside"), _folder("closed")
    closed.close(Stalled("FolderClaimed", "theirs"), 300.0)
    group = _group("own", mine, beside, closed, error=Stalled("PushRejected", "no"))
    pairs = [(group, folder) for folder in (mine, beside, closed)]
    assert folder_opening.possible_holders(mine, pairs) == [mine, beside]
