"""The running streams and the scopes that rules select, as workers, gauges and status ask for them.

The mirror alone writes it and follows `plan_changed`. What a destination lacks is answered from
both: a selected scope has a stream only while the folder of its destination is open.
"""

from __future__ import annotations

import asyncio

from windlass.kube.reflector import Scope
from windlass.objects.names import GVR, Key
from windlass.reverser.selection.rules import RuleResolution
from windlass.reverser.watch.stream import Stream


class StreamRegistry:
    """What is selected and what is watched at this moment."""

    def __init__(self) -> None:
        # (rule kind, rule) -> its destination and what it selects.
        self.resolutions: dict[tuple[str, Key], tuple[Key, RuleResolution]] = {}
        # The stream of each scope that is watched.
        self.streams: dict[Scope, Stream] = {}
        # Set by whatever may change what is watched; the mirror builds a new plan then.
        self.plan_changed = asyncio.Event()

    def resnapshot(self, destination: Key) -> None:
        """Take a new snapshot of every scope of a destination: Git may lack files of it."""
        for stream in self.streams.values():
            # New to every stream: the next plan takes snapshots for it.
            stream.coverage.pop(destination, None)
            stream.synced.discard(destination)
        self.plan_changed.set()

    def streams_for(self, destination: Key) -> tuple[Stream, ...]:
        """The streams that feed a destination."""
        return tuple(stream for stream in self.streams.values() if destination in stream.coverage)

    def is_seeding(self, destination: Key) -> bool:
        """Whether a snapshot may still add updates, which belong into the same commit."""
        return any(
            stream.state in ("starting", "seeding", "restarting", "incomplete")
            for stream in self.streams_for(destination)
        )

    def states(self) -> dict[tuple[str, str], str]:
        """The state of each stream, by type and namespace."""
        return {
            (str(scope.gvr), scope.namespace): stream.state
            for scope, stream in self.streams.items()
        }

    def unsynced_scopes(self, destination: Key) -> tuple[str, ...]:
        """The selected scopes without a complete snapshot and why, as text for the status."""
        selected = {
            scope
            for key, resolution in self.resolutions.values()
            if key == destination
            for scope in resolution.watched
        }
        causes = {scope: self._why_unsynced(*scope, destination) for scope in selected}
        return tuple(sorted(f"{gvr} ({cause})" for (gvr, _), cause in causes.items() if cause))

    def _why_unsynced(self, gvr: GVR, namespace: str, destination: Key) -> str:
        """Why a scope has no complete snapshot for a destination; empty if it has one."""
        # A stream over all namespaces replaces those of single ones, so either may serve it.
        scopes = (Scope(gvr, namespace), Scope(gvr))
        streams = [self.streams[scope] for scope in scopes if scope in self.streams]
        synced = [stream for stream in streams if destination in stream.synced]
        if synced:
            return "" if any(not stream.gap for stream in synced) else synced[0].gap
        return next((stream.message or stream.state for stream in streams), "starting")
