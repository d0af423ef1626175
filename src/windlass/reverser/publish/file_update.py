"""What the watch hands to a destination's folder: file updates, scope snapshots and reviews."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from windlass.objects.names import GVR, Identity
from windlass.reverser.attribution.record_join import Observation
from windlass.reverser.file_operation import Operation


@dataclass(frozen=True, slots=True)
class FileUpdate:
    """One path and the content it should have; no blob means no file.

    `content` is dropped once the store holds the blob, `size` remains. Without an
    observation the state comes from a snapshot and has no actor.
    """

    identity: Identity
    kind: str
    path: str
    blob: str | None
    content: bytes | None
    mask: frozenset[Operation]
    observation: Observation | None
    received: datetime
    size: int = 0
    redacted: bool = False
    """Whether its content stands for values that must not leave the cluster."""
    reason: str = ""
    """Why the file goes although its object may live on; empty for every other change."""

    @classmethod
    def removal(
        cls,
        identity: Identity,
        kind: str,
        path: str,
        mask: frozenset[Operation],
        received: datetime,
        observation: Observation | None = None,
        reason: str = "",
    ) -> FileUpdate:
        """A file that should not exist."""
        return cls(identity, kind, path, None, None, mask, observation, received, reason=reason)

    @property
    def held_bytes(self) -> int:
        """The bytes that it keeps in memory."""
        return len(self.content) if self.content is not None else 0


@dataclass(frozen=True, slots=True)
class FolderReview:
    """A look at a whole folder for files that no rule covers any more.

    What the rules cover is asked when the window closes, so it is never older than that.
    """


@dataclass(frozen=True, slots=True)
class ScopeSnapshot:
    """A complete snapshot of one type in one namespace, or in all of them.

    Files of it that are not in `live` lost their object while nobody watched. `missed`
    are those of them that this process has seen alive, so it knows them without a look
    into their files. `empty` says that the whole answer held nothing, which is not proof
    enough.
    """

    gvr: GVR
    kind: str
    namespace: str
    live_paths: frozenset[str]
    is_empty: bool
    mask: frozenset[Operation]
    missing: tuple[Identity, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Paths of objects that live but are not mirrored, and what they are."""
