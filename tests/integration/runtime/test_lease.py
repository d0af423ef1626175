"""Election on a real API server, with real processes that are stopped and killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from windlass.kube.api import Api
from windlass.objects.resources import LEASES
from windlass.runtime.lease import Holder, LeaderElection

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

# Who holds it here keeps it, however slow the machine; the short one is the other process's.
_TERMS: dict[str, Any] = {"duration": 60, "renew": 40.0, "retry": 0.3}

_CANDIDATE = """
import asyncio, sys
from pathlib import Path
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.runtime.lease import Holder, LeaderElection

async def main(kubeconfig, namespace, duration):
    me = Holder.local()
    async with Connection.open(kubeconfig=Path(kubeconfig)) as connection:
        it = LeaderElection(Api(connection), namespace=namespace, name="leader", identity=str(me),
                        duration=int(duration), renew=2.0, retry=0.3,
                        holder_is_dead=me.is_known_dead)
        running = asyncio.create_task(it.run())
        held = None
        while True:
            if it.held(0.5) is not held:
                held = it.held(0.5)
                print(f"held {held} {me}", flush=True)
            await asyncio.sleep(0.01)

asyncio.run(main(*sys.argv[1:]))
"""


class Candidate:
    """A process that runs for election and prints when it holds the lease."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def expect_line(self, held: bool) -> str:
        """Wait for the next line, which must be this; returns the identity that printed it."""
        assert self.process.stdout is not None
        while True:
            line = await asyncio.wait_for(self.process.stdout.readline(), 30)
            assert line, "the candidate ended"
            lines = line.decode().split()
            if lines[0] == "held":
                assert lines[1] == str(held)
                return lines[2]

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)


@contextlib.asynccontextmanager
async def candidate(
    kubeconfig: Path, namespace: str, *, duration: int = 3
) -> AsyncIterator[Candidate]:
    """Such a process, ended with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _CANDIDATE,
        str(kubeconfig),
        namespace,
        str(duration),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield Candidate(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # Reads what is left, so that its pipe is closed too.
        await process.communicate()


def leadership(api: Api, namespace: str, identity: str, **more: Any) -> LeaderElection:
    """A candidate in this process."""
    return LeaderElection(
        api, namespace=namespace, name="leader", identity=identity, **_TERMS, **more
    )


async def test_acquire_renew_release(api: Api, namespace: str) -> None:
    """The server accepts our writes; the holder is set and removed."""
    one, two = leadership(api, namespace, "one"), leadership(api, namespace, "two")
    await one.attempt()
    await two.attempt()
    assert (one.held(0.5), two.held(0.5)) == (True, False)
    first = await api.get(LEASES, "leader", namespace)
    await one.attempt()
    second = await api.get(LEASES, "leader", namespace)
    assert first["spec"]["renewTime"] < second["spec"]["renewTime"]
    assert first["spec"]["acquireTime"] == second["spec"]["acquireTime"]
    await one.release()
    assert not (await api.get(LEASES, "leader", namespace))["spec"].get("holderIdentity")
    await two.attempt()
    assert two.held(0.5)
    assert (await api.get(LEASES, "leader", namespace))["spec"]["holderIdentity"] == "two"


async def test_a_race_has_one_winner(api: Api, namespace: str) -> None:
    """Of ten candidates at once on the real server one holds the lease."""
    candidates = [leadership(api, namespace, f"c{number}") for number in range(10)]
    # On a busy machine all requests of a round may come too late.
    while not (holders := [one for one in candidates if one.held(0.5)]):
        await asyncio.gather(*(one.attempt() for one in candidates))
    assert len(holders) == 1


async def test_a_killed_local_leader_is_replaced_at_once(
    cluster: LocalCluster, api: Api, namespace: str
) -> None:
    """SIGKILL: a candidate that finds the process dead does not wait for its lease."""
    async with candidate(cluster.admin_kubeconfig, namespace, duration=600) as other:
        dead = await _leads(other)
        other.send(signal.SIGKILL)
        await other.process.wait()
    me = Holder.local()
    heir = leadership(api, namespace, str(me), holder_is_dead=me.is_known_dead)
    assert me.is_known_dead(dead)
    async with asyncio.timeout(30):
        # A renewal that was under way when the process died may arrive in between.
        while not heir.held(0.5):
            await heir.attempt()


@pytest.mark.scenario("A77")
async def test_a_stopped_leader_knows_at_once_that_it_lost(
    cluster: LocalCluster, api: Api, namespace: str
) -> None:
    """SIGSTOP past the lease: another takes over, and after SIGCONT the first holds nothing."""
    async with candidate(cluster.admin_kubeconfig, namespace) as other:
        await _leads(other)
        heir = leadership(api, namespace, "heir")
        await heir.attempt()
        other.send(signal.SIGSTOP)
        task = asyncio.create_task(heir.run())
        try:
            await asyncio.wait_for(heir.acquired.wait(), 20)
            other.send(signal.SIGCONT)
            await other.expect_line(False)
            assert heir.held(0.5)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _leads(other: Candidate) -> str:
    """The identity of a candidate that acquired the lease."""
    await other.expect_line(False)
    return await other.expect_line(True)
