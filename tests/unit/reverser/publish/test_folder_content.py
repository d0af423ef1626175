"""Content is dropped from memory once the store has it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from windlass.git.format import objects
from windlass.objects.names import GVR, Identity
from windlass.reverser.attribution.author import Author
from windlass.reverser.publish.commit_plan import PlannedChange, PlannedCommit
from windlass.reverser.publish.file_update import FileUpdate
from windlass.reverser.publish.folder import Folder, PendingWindow
from windlass.reverser.publish.publisher import CommitStep, PublishPlan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AUTHOR = Author("somebody", "somebody@example.org")


def _update(name: str) -> FileUpdate:
    content = name.encode()
    identity = Identity(GVR("", "v1", "configmaps"), "default", name)
    blob = objects.blob_id(content)
    return FileUpdate(identity, "ConfigMap", name, blob, content, frozenset(), None, NOW)


def _planned(update: FileUpdate) -> PublishPlan:
    change = PlannedChange(
        path=update.path,
        identity=update.identity,
        blob=update.blob,
        size=update.size,
        author=AUTHOR,
        tier="sync",
        user="",
        received=NOW,
        op="CREATE",
    )
    commit = PlannedCommit(AUTHOR, "sync", "", (change,))
    folder = cast("Folder", None)
    return PublishPlan((CommitStep(folder, commit, "0" * 40, claims=False),), ())


def test_only_written_content_is_dropped() -> None:
    """What changed nothing on the old tip may be needed on the next one."""
    written, unchanged = _update("written"), _update("unchanged")
    gathered = PendingWindow(updates=[written, unchanged], size=16, held_bytes=16)
    left = gathered.without_content(_planned(written).blobs)
    assert [update.content for update in left.updates] == [None, b"unchanged"]
    assert (left.size, left.held_bytes) == (16, len(b"unchanged"))
