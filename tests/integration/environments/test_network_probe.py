"""`windlass check --network-probe` where no pod ever runs: it reports that and cleans up."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.processes import windlass_command
from tests.support.processes.polling import eventually
from windlass.base.clock import SystemClock
from windlass.base.errors import Stalled
from windlass.environments.probe import enforcement
from windlass.environments.probe.network_probe import NetworkProbe
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.objects.names import Object
from windlass.objects.resources import NAMESPACES
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster


@pytest.fixture
async def api(cluster: LocalCluster) -> AsyncIterator[Api]:
    """The administrator's client."""
    async with Connection.open(kubeconfig=cluster.admin_kubeconfig) as opened:
        yield Api(opened)


async def _probe_namespaces(api: Api) -> list[Object]:
    return await api.list(NAMESPACES, label_selector=enforcement.SELECTOR)


async def test_a_cluster_that_runs_no_pod_is_reported(api: Api) -> None:
    """There is no verdict; the namespaces are deleted, those of another probe stay."""
    run = secrets.token_hex(4)
    name = enforcement.namespace_names(run)[0]
    busy = enforcement.namespace_object(name, run)
    before = {live["metadata"]["uid"] for live in await _probe_namespaces(api)}
    other = await api.create(NAMESPACES, busy, field_manager="test")
    reported: list[str] = []
    probe = NetworkProbe(api, SystemClock(), image="any", seconds=1.0, report=reported.append)
    try:
        with pytest.raises(
            Stalled, match="pod server is not running after 1 s: not started yet"
        ) as caught:
            await probe.run()
        assert caught.value.reason == "PodNotRunning"
        assert any(name in text for text in reported)
        left = {live["metadata"]["uid"] for live in await _probe_namespaces(api)}
        # Those that an earlier test deletes may take a while to end.
        assert left - before == {other["metadata"]["uid"]}
    finally:
        await api.delete(NAMESPACES, name)


def _start_ignoring_sigint(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path
) -> windlass_command.StartedProcess:
    """Start the command like a background job of a script, which inherits SIGINT as ignored."""
    shell = ("sh", "-c", 'trap "" INT; exec "$0" "$@"', windlass_command.COMMAND)
    return windlass_command.start_executable(arguments, environment, log, command=shell)


async def test_an_interrupted_probe_cleans_up(
    cluster: LocalCluster, api: Api, tmp_path: Path
) -> None:
    """After SIGINT or SIGTERM none of its namespaces is left."""
    before = {live["metadata"]["uid"] for live in await _probe_namespaces(api)}
    ways: list[tuple[windlass_command.Starting, signal.Signals]] = [
        (windlass_command.start, signal.SIGINT),
        (windlass_command.start, signal.SIGTERM),
        (_start_ignoring_sigint, signal.SIGINT),
    ]

    async def all_started() -> set[str]:
        created = {live["metadata"]["uid"] for live in await _probe_namespaces(api)} - before
        return created if len(created) == 2 * len(ways) else set()

    flags = ["--network-probe", "--image=any", f"--kubeconfig={cluster.admin_kubeconfig}"]
    logs = [tmp_path / f"probe-{number}" for number in range(len(ways))]
    running = [
        start(["check", *flags], os.environ, log)
        for (start, _), log in zip(ways, logs, strict=True)
    ]
    try:
        namespaces = await eventually(all_started, "two namespaces of each")
        for process, (_, number) in zip(running, ways, strict=True):
            process.send_signal(number)
        for process, log in zip(running, logs, strict=True):
            assert await asyncio.to_thread(process.wait, 60) == 1, log.read_text()
            assert "interrupted" in log.read_text()
    finally:
        for process in running:
            process.send_signal(signal.SIGKILL)
    assert not namespaces & {live["metadata"]["uid"] for live in await _probe_namespaces(api)}


def test_a_missing_permission_is_named(cluster: LocalCluster) -> None:
    """Before anything is created."""
    kubeconfig = cluster.user_kubeconfig("user-without-rights")
    flags = ["--network-probe", "--image=any", f"--kubeconfig={kubeconfig}"]
    done = windlass_command.run(["check", *flags], os.environ)
    assert done.returncode == 1
    assert "create namespaces" in done.stderr
    assert "user-without-rights" in done.stderr
    assert "still exists" not in done.stderr
