"""Scans of the mock gateway: requested at once, run in the background, reported afterwards.

Rules: a request never waits for the scan. A request that arrives while a scan runs is
recorded and followed by one more scan, because the running one may have passed the
changed files already. The timestamp grows with every finished scan. While `hold` is in
force no scan gets past its beginning. What a gateway reads at its start counts as
loaded, not as a scan.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from windlass_dev.mock_gateway import data_reader
from windlass_dev.mock_gateway.data_reader import SCAN_KINDS, DataSnapshot, TornRead

_MAX_TORN_READS = 1000


@dataclass(slots=True)
class _KindState:
    """The scans of one kind."""

    requested: bool = False
    """Whether a scan was requested that has not begun to read."""
    running: asyncio.Task[None] | None = None
    """The task of the latest scan, done or not; None before the first."""
    timestamp_ms: int = 0
    """End of the last scan, wall clock in ms since the epoch, strictly growing; 0 for none."""
    duration_ms: int = 0
    """How long the last scan took."""
    loaded: DataSnapshot = field(default_factory=DataSnapshot)
    """What was read last, by a scan or at the start."""


class MockScans:
    """What the gateway has loaded from `data`, and the scans that change it."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._kinds = {kind: _KindState() for kind in SCAN_KINDS}
        # Cleared while scans are held.
        self._may_finish = asyncio.Event()
        self._may_finish.set()
        # The latest torn reads of all scans, oldest first.
        self.torn: list[TornRead] = []
        # Finished scans by kind.
        self.finished: Counter[str] = Counter()

    def request(self, kind: str) -> None:
        """Request a scan of `kind`; returns at once."""
        state = self._kinds[kind]
        state.requested = True
        if not self._is_active(state):
            state.running = asyncio.create_task(self._run(kind, state), name=f"scan {kind}")

    def status(self, kind: str) -> dict[str, int | bool]:
        """The status of the scans of `kind`, as the API returns it."""
        state = self._kinds[kind]
        return {
            "scanActive": self._is_active(state),
            "lastScanTimestamp": state.timestamp_ms,
            "lastScanDuration": state.duration_ms,
        }

    @property
    def loaded(self) -> dict[str, str]:
        """Digests of all loaded files, by data-relative path."""
        return {
            path: sha for state in self._kinds.values() for path, sha in state.loaded.files.items()
        }

    @property
    def projects(self) -> dict[str, bool]:
        """The loaded projects in order of their names, and whether they are enabled."""
        return dict(sorted(self._kinds["projects"].loaded.projects.items()))

    def hold(self, held: bool) -> None:
        """Keep scans from finishing, or let them finish."""
        if held:
            self._may_finish.clear()
        else:
            self._may_finish.set()

    async def load(self) -> None:
        """Read everything now, as a gateway does at its start."""
        for kind, state in self._kinds.items():
            await self._read(kind, state)

    async def stop(self) -> None:
        """Cancel running scans and wait until they have ended."""
        running = [state.running for state in self._kinds.values() if state.running is not None]
        for task in running:
            task.cancel()
        for task in running:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self, kind: str, state: _KindState) -> None:
        while state.requested:
            state.requested = False
            await self._may_finish.wait()
            started = time.monotonic()
            await self._read(kind, state)
            state.duration_ms = int((time.monotonic() - started) * 1000)
            state.timestamp_ms = max(state.timestamp_ms + 1, int(time.time() * 1000))
            self.finished[kind] += 1

    async def _read(self, kind: str, state: _KindState) -> None:
        state.loaded = await asyncio.to_thread(data_reader.read_data, self._data, kind)
        self.torn.extend(state.loaded.torn)
        del self.torn[:-_MAX_TORN_READS]

    def _is_active(self, state: _KindState) -> bool:
        return state.running is not None and not state.running.done()
