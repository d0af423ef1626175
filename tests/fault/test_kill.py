"""SIGKILL before and after every named side effect: the end is that of a quiet run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault import history
from tests.fault.conftest import Mirrors
from tests.support.gitserver import files_at
from tests.support.mirrored import Mirrored
from tests.support.operator import Operator, eventually
from tests.support.reference_run import FOREIGN, ReferenceRun, Tree

pytestmark = pytest.mark.cluster

def test_x(idle_operator: Operator, mirrored: Mirrored, tmp_path: Path) -> None:
    import time
    log = tmp_path / "visited"
    t=time.monotonic()
    idle_operator.spawn({"WINDLASS_FAILPOINT_LOG": str(log)})
    run = ReferenceRun(mirrored)
    eventually(lambda: idle_operator._is_ready(), "x", seconds=60)
    print("ready", time.monotonic()-t)
    run.configure()
    mirrored.await_synced()
    print("synced", time.monotonic()-t)
    run.tell(run.has)
    print("told", time.monotonic()-t)
    history.assert_sound(mirrored)
    idle_operator.stop()
    print("stopped", time.monotonic()-t)
    from collections import Counter
    print(Counter(log.read_text().split()))
    print(mirrored.git("log","--format=%s %an"))
    idle_operator.spawn()
    t=time.monotonic()
    eventually(lambda: idle_operator._is_ready(), "x", seconds=60)
    print("ready", time.monotonic()-t)
    print(idle_operator.log.read_text()[-6000:])
