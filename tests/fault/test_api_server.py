"""The API server is killed and restarted while clients write."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.fault import history
from tests.support.processes.operator import Operator, eventually
from tests.support.reverser.api_users import admin_user, api_user
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass_dev.cluster import cluster_state
from windlass_dev.cluster.components import API_SERVER
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

RESTARTS = "windlass_mirror_watch_restarts_total"
LEASE = "gitopsreverser_lease_acquire_failures_total"


@contextmanager
def _writing_all_the_time(mirrored: MirroredNamespace) -> Iterator[dict[str, str]]:
    """Writes without a pause; yields what the API server acknowledged."""
    state: dict[str, str] = {}
    enough = threading.Event()

    def work() -> None:
        alice = api_user(mirrored, "alice")
        for number in itertools.count():
            if enough.wait(0.02):
                return
            name, value = f"load-{number % 5}", str(number)
            with suppress(OSError, HTTPException):
                if alice.send(mirrored.config_map(name, value=value)).ok:
                    state[name] = value

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        enough.set()
        thread.join(60)
        assert not thread.is_alive()


def test_restarts_under_load_lose_nothing(
    mirrored: MirroredNamespace, idle_operator: Operator, fault_cluster: LocalCluster
) -> None:
    """The operator stays alive, is not ready meanwhile, and catches up.

    Only the API server was another one; it came back on its port, to all it had stored.
    """
    idle_operator.start()
    mirrored.configured({"resources": ["configmaps"]})
    pid = idle_operator.pid
    with _writing_all_the_time(mirrored) as acknowledged:
        eventually(lambda: len(acknowledged) == 5, "some load", seconds=30.0)
        restarts, failures = idle_operator.metric(RESTARTS), idle_operator.metric(LEASE)
        before = _pids(fault_cluster)
        fault_cluster.restart_api_server()
        assert {name for name, pid in _pids(fault_cluster).items() if before[name] != pid} == {
            API_SERVER
        }
        eventually(lambda: idle_operator.metric(RESTARTS) > restarts, "streams begun again")
        eventually(lambda: len(mirrored.files()) == 5, "five files", seconds=60.0)
        fault_cluster.stop_api_server()
        try:
            assert fault_cluster.api.request("/readyz").status == 0
            # A short restart may pass between two renewals.
            eventually(lambda: idle_operator.metric(LEASE) > failures, "a failed lease request")
            eventually(lambda: not idle_operator._is_ready(), "not ready", seconds=30.0)
        finally:
            fault_cluster.start_api_server()
        earlier = dict(acknowledged)
        eventually(lambda: acknowledged != earlier, "load again", seconds=60.0)
    live = {
        row["metadata"]["name"]: row["data"]["value"]
        for row in _config_maps(mirrored)
        if row["metadata"]["name"].startswith("load-")
    }
    eventually(lambda: _mirrors(mirrored, live), "Git equals the cluster", seconds=60.0)
    eventually(idle_operator._is_ready, "ready again", seconds=30.0)
    assert Path(f"/proc/{pid}/cmdline").read_bytes(), "the process never ended"
    history.assert_sound(mirrored)


def _pids(fault_cluster: LocalCluster) -> dict[str, int]:
    now = cluster_state.load_state(fault_cluster.directory)
    assert now is not None
    return {component: process.pid for component, process in now.processes.items()}


def _config_maps(mirrored: MirroredNamespace) -> list[dict[str, dict[str, str]]]:
    admin = admin_user(mirrored)
    rows: list[dict[str, dict[str, str]]] = admin.request("GET", admin.path("configmaps")).object[
        "items"
    ]
    return rows


def _mirrors(mirrored: MirroredNamespace, live: dict[str, str]) -> bool:
    mirrored_files = mirrored.files()
    reported = {
        f"v1/configmaps/{mirrored.namespace}/{name}.yaml": f'value: "{value}"'
        for name, value in live.items()
    }
    return mirrored_files.keys() == reported.keys() and all(
        text in mirrored_files[path] for path, text in reported.items()
    )
