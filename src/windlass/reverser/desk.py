"""What a stream needs of the mirror it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from windlass.kube.reflector import Scope
from windlass.objects.names import GVR, Identity, Key
from windlass.reverser.arrival import Arrival, Sweep
from windlass.reverser.decide.plan import Route
from windlass.reverser.decide.transition import Operation
from windlass.reverser.folder import Folder
from windlass.telemetry.reasons import SkipReason

if TYPE_CHECKING:
    from windlass.reverser.stream import Stream


class Desk(Protocol):
    """Where its objects go, and who hears of what it sees."""

    def routes(self, gvr: GVR, namespace: str) -> tuple[Route, ...]: ...

    def covered(self, scope: Scope) -> tuple[tuple[Key, str, frozenset[Operation]], ...]: ...

    def folder(self, destination: Key) -> Folder | None: ...

    def crowded(self, scope: Scope) -> bool: ...

    def offer(self, destination: Key, arrival: Arrival) -> None: ...

    def sweep(self, destination: Key, sweep: Sweep) -> None: ...

    def skipped(self, identity: Identity | None, reason: SkipReason) -> None: ...

    def undecodable(self, destination: Key, identity: Identity, why: str) -> None: ...

    def counted(self, kind: str) -> None: ...

    def stream_changed(self, stream: Stream) -> None: ...
