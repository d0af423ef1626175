"""All files are compared by content periodically, however often an agent restarts."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

from tests.support.gateways.engine_harness import engine_harness
from windlass.base.clock import SystemClock
from windlass.gateways.agent.drift_watch import DriftWatch
from windlass.gateways.agent.interrupt import Interrupt
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.wire.metadata import SyncPolicy

VIEW = "projects/line/view/view.json"
HOUR = 3600.0


class WallClock(SystemClock):
    """A wall clock that a test advances; the monotonic clock of a new process starts again."""

    hours = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(hours=self.hours)


def _alter_content_only(path: Path) -> None:
    """Write other bytes of the same length and time, which only a full hash detects."""
    before = path.stat()
    path.write_bytes(b"x" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_restarts_do_not_delay_the_full_hash(tmp_path: Path) -> None:
    """DRF-1: the time since the last one includes the time while no agent runs."""
    clock, policy = WallClock(), SyncPolicy(full_hash_seconds=24 * HOUR)
    with engine_harness(tmp_path) as site:
        operations = await site.operations(clock)
        await operations.sync(site.sync_request(), Interrupt(), trigger="")
        _alter_content_only(site.data / VIEW)
        modified = []
        for _ in range(3):
            clock.hours += 10
            watch = DriftWatch(await site.operations(clock), clock)
            await watch.check(policy, GlobSet(()))
            assert watch.drift is not None
            modified.append(watch.drift.modified)
        assert modified == [(), (), (VIEW,)]
        clock.hours -= 10
        restarted = await site.operations(clock)
        assert restarted.state.hashed is not None
        assert restarted.state.hashed > clock.now(), "a clock that was set back"
        watch = DriftWatch(restarted, clock)
        await watch.check(policy, GlobSet(()))
        assert watch.drift is not None
        assert watch.drift.modified == (VIEW,)
