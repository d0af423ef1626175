"""All files are compared by content once in a while, however often an agent restarts."""

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
    """A clock on the wall that a test puts forward; the steady one of a new process begins anew."""

    hours = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(hours=self.hours)


def _altered_unseen(path: Path) -> None:
    """Other bytes of the same length at the same time, as only a comparison by content sees."""
    before = path.stat()
    path.write_bytes(b"x" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_restarts_do_not_put_the_full_comparison_off(tmp_path: Path) -> None:
    """DRF-1: the time since the last one goes on while nobody runs."""
    clock, policy = WallClock(), SyncPolicy(full_hash_seconds=24 * HOUR)
    with engine_harness(tmp_path) as site:
        work = await site.operations(clock)
        await work.sync(site.sync_request(), Interrupt(), trigger="")
        _altered_unseen(site.data / VIEW)
        found = []
        for _ in range(3):
            clock.hours += 10
            watch = DriftWatch(await site.operations(clock), clock)
            await watch.check(policy, GlobSet(()))
            assert watch.drift is not None
            found.append(watch.drift.modified)
        assert found == [(), (), (VIEW,)]
        clock.hours -= 10
        again = await site.operations(clock)
        assert again.state.hashed is not None
        assert again.state.hashed > clock.now(), "a clock that was set back"
        watch = DriftWatch(again, clock)
        await watch.check(policy, GlobSet(()))
        assert watch.drift is not None
        assert watch.drift.modified == (VIEW,)
