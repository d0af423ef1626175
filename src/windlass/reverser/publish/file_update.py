"""File updates, scope snapshots and folder reviews: the input of a destination's folder.

Streams build the first two, `folder_reviews` requests the third; the branch worker consumes all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from windlass.objects.names import GVR, Identity
from windlass.reverser.attribution.record_join import Observation
from windlass.reverser.file_operation import Operation


@dataclass(frozen=True, slots=True)
class FileUpdate:
    """One path and the content that it should have; no blob means no file."""

    identity: Identity
    """The live object, in the API version of its stream."""
    kind: str
    """Kind of the object."""
    path: str
    """From the root of the repository."""
    blob: str | None
    """Blob id of the content; None removes the file."""
    content: bytes | None
    """Bytes of the file; None for a removal, and once the store holds the blob."""
    mask: frozenset[Operation]
    """Operations that the rules allow on the file."""
    observation: Observation | None
    """The change as the watch observed it; None if it comes from a snapshot and has no actor."""
    received: datetime
    """When the event or the snapshot was received, wall clock."""
    size: int = 0
    """Bytes of the content; stays when `content` is dropped."""
    redacted: bool = False
    """Whether digests in the content replace values that must not leave the cluster."""
    reason: str = ""
    """Why the file is removed although its object may still exist; else empty."""

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
        """The update that removes a file."""
        return cls(identity, kind, path, None, None, mask, observation, received, reason=reason)

    @property
    def held_bytes(self) -> int:
        """Bytes of content in memory."""
        return len(self.content) if self.content is not None else 0


@dataclass(frozen=True, slots=True)
class FolderReview:
    """A request to remove files of a folder that no rule covers any more.

    Coverage is read when the window closes, so it is never older than that.
    """


@dataclass(frozen=True, slots=True)
class ScopeSnapshot:
    """A complete snapshot of one type in one namespace, or in all of them.

    Files of the scope that are not in `live_paths` lost their object while it was not watched.
    """

    gvr: GVR
    """The listed type."""
    kind: str
    """Its kind."""
    namespace: str
    """The listed namespace; empty for all namespaces or a cluster-scoped type."""
    live_paths: frozenset[str]
    """Paths of the objects that exist, from the root of the repository."""
    is_empty: bool
    """Whether the whole list had no item, which alone proves no deletion (SNP-4)."""
    mask: frozenset[Operation]
    """Operations that the rules allow on files of the scope."""
    missing: tuple[Identity, ...] = ()
    """Objects this process tracked and that are gone: their files need not be read."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Paths of live objects that are not mirrored, with the reason."""
    seen_since: set[str] = field(default_factory=set)
    """Paths of objects that were observed after the snapshot; the folder adds them."""
