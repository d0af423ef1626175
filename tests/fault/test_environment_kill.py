"""SIGKILL before and after every side effect of a pass over an Environment.

One Environment is led from its first sight to its end. At every place of the list a fresh
process dies there; the next one goes on from what it finds. What comes out at last is what
an undisturbed run makes.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.cluster import control_plane as clusters
from tests.support.environments import helm
from tests.support.environments.charts import JOBS, chart, finish_job, job
from tests.support.environments.environment_harness import (
    CONFIG_MAP,
    CONFIG_MAPS,
    ENVIRONMENTS,
    NAMESPACES,
    POLICIES,
    PROJECTS,
    SECRETS,
    SERVICE,
    EnvironmentHarness,
    environment_harness,
)
from tests.support.environments.namespace_state import read_state
from tests.support.git.http_server import RunningGitServer, running_git_server
from tests.support.processes.polling import eventually

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

MAKING = (
    "runtime.finalizer.before",
    "runtime.finalizer.after",
    "runtime.status.before",
    "runtime.status.after",
    "environments.namespace.before",
    "environments.namespace.after",
    "runtime.owned.before",
    "runtime.owned.after",
    "environments.ledger.before",
    "environments.ledger.after",
    "environments.apply.before",
    "environments.apply.after",
    "runtime.event.before",
)
CHANGING = (
    "environments.ledger.after",
    "environments.apply.after",
    "environments.prune.before",
    "environments.prune.after",
    "environments.ledger.before",
)
OPENING = ("environments.policy.delete.before", "environments.policy.delete.after")
ENDING = (
    "environments.namespace.delete.before",
    "environments.namespace.delete.after",
    "runtime.event.after",
    "runtime.finalizer.before",
    "runtime.finalizer.after",
)
_DOOR = {"name": "mail", "cidrs": ["192.0.2.0/24"]}
_DRAWN = (
    "apiVersion: v1\nkind: Secret\nmetadata: {name: drawn}\n"
    "stringData: {password: {{ randAlphaNum 24 }}}\n"
)
_FIRST = "---\n".join((CONFIG_MAP, SERVICE))
_SECOND = "---\n".join((CONFIG_MAP.replace("blue", "red"), CONFIG_MAP.replace("settings", "new")))


class Mortal:
    """A controller that can be made to die at a named place."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._child = 0

    async def _line(self, seconds: float) -> int:
        assert self._process.stdout is not None
        return int(await asyncio.wait_for(self._process.stdout.readline(), seconds))

    async def start(self, armed: str = "") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{armed}\n".encode())
        await self._process.stdin.drain()
        self._child = await self._line(40.0)

    async def dies_at(self, failpoint: str) -> None:
        """Start it, and wait until it has killed itself."""
        await self.start(f"{failpoint}=kill")
        try:
            code = await self._line(40.0)
        except TimeoutError:
            await self.stop()
            raise AssertionError(f"{failpoint} was not reached") from None
        self._child = 0
        assert code == -signal.SIGKILL

    @contextlib.asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        await self.start()
        yield
        await self.stop()

    async def stop(self) -> None:
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            self._child = 0
            await self._line(40.0)


@pytest.fixture(scope="module")
def source_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGitServer]:
    """A git server for this file."""
    with running_git_server(tmp_path_factory.mktemp("sources")) as served:
        yield served


@pytest.fixture
async def tenant(
    fault_cluster: LocalCluster, source_host: RunningGitServer, tmp_path: Path
) -> AsyncIterator[EnvironmentHarness]:
    """A namespace with a repository, on a control plane without any other Environment."""
    with clusters.fresh_namespace(fault_cluster) as namespace:
        async with environment_harness(fault_cluster, namespace, source_host, tmp_path) as found:
            yield found


@pytest.fixture
async def mortal(tenant: EnvironmentHarness, tmp_path: Path) -> AsyncIterator[Mortal]:
    """The process that starts controllers; it notes every place that they pass."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.fault.environment_runner",
        str(tenant.kubeconfig),
        str(tmp_path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "PATH": f"{Path(helm.helm_program()).parent}:{os.environ['PATH']}",
            "WINDLASS_FAILPOINT_LOG": str(tmp_path / "visited"),
        },
    )
    found = Mortal(process)
    try:
        yield found
    finally:
        await found.stop()
        assert process.stdin is not None
        process.stdin.close()
        # Reads what is left, so that its pipes are closed too.
        await process.communicate()


@pytest.mark.scenario("E29", "E71")
async def test_killed_anywhere_the_end_is_the_same(
    tenant: EnvironmentHarness, mortal: Mortal, tmp_path: Path
) -> None:
    """Created, changed, isolated again and deleted, with a death at every step of it."""
    opened = tenant.project(network={"egress": [_DOOR]})
    tenant.commit({"deploy/all.yaml": _FIRST})
    await tenant.apply(opened, tenant.environment())
    for failpoint in MAKING:
        await mortal.dies_at(failpoint)
    async with mortal.alive():
        made = await tenant.phase("Ready")
    assert made["status"]["revision"] == 1

    tenant.commit({"deploy/all.yaml": _SECOND})
    for failpoint in CHANGING:
        await mortal.dies_at(failpoint)
    await tenant.apply(tenant.project())
    for failpoint in OPENING:
        await mortal.dies_at(failpoint)

    async with mortal.alive():
        await eventually(lambda: _serves(tenant, 2), "the second revision serves")
        await tenant.apply(tenant.environment("reference"))
        await tenant.phase("Ready", "reference")
        await tenant.phase("Ready")

        async def are_equal() -> bool:
            return await read_state(tenant, "one") == await read_state(tenant, "reference")

        await eventually(are_equal, "the state of an undisturbed run")
    uid = made["metadata"]["uid"]
    mine = await tenant.api.list(NAMESPACES, label_selector=f"catalyst.dev/environment-uid={uid}")
    assert [row["metadata"]["name"] for row in mine] == [made["status"]["namespace"]]

    await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
    for failpoint in ENDING:
        await mortal.dies_at(failpoint)
    async with mortal.alive():
        await tenant.wait_deleted(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.wait_deleted(NAMESPACES, made["status"]["namespace"])
        survivor = await tenant.environment_namespace("reference")
        await tenant.api.get(CONFIG_MAPS, "new", survivor)
    _nothing_was_left_out(tmp_path / "visited")


@pytest.mark.scenario("E29", "E65")
async def test_killed_around_a_render_the_lot_is_drawn_once(
    tenant: EnvironmentHarness, mortal: Mortal
) -> None:
    """What was drawn before a death is what runs, and a hook that ended does not run again."""
    hook = job("once", "pre-install,pre-upgrade")
    tenant.commit(chart({"drawn.yaml": _DRAWN, "once.yaml": hook}))
    templates = {"default": {"type": "helm", "path": "chart"}}
    await tenant.apply(tenant.project(templates=templates), tenant.environment())
    await mortal.dies_at("environments.chart.before")
    await mortal.dies_at("environments.chart.after")
    uid = (await tenant.get())["metadata"]["uid"]
    mine = await tenant.api.list(NAMESPACES, label_selector=f"catalyst.dev/environment-uid={uid}")
    (namespace,) = (row["metadata"]["name"] for row in mine)
    kept = await tenant.api.get(SECRETS, "windlass-release-chart", namespace)
    await mortal.dies_at("environments.apply.after")
    async with mortal.alive():
        await tenant.condition("DeploymentReady", "HookRunning")
        await eventually(lambda: _has_job(tenant, namespace), "the hook is there")
    await finish_job(tenant, namespace, "once")
    await mortal.dies_at("environments.ledger.after")
    await tenant.api.delete(JOBS, "once", namespace, propagation="Background")
    async with mortal.alive():
        ready = await tenant.phase("Ready")
        assert ready["status"]["revision"] == 1
        assert not await _has_job(tenant, namespace)
        assert await tenant.api.get(SECRETS, "windlass-release-chart", namespace) == kept
        drawn = await tenant.api.get(SECRETS, "drawn", namespace)
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.wait_deleted(ENVIRONMENTS, "one", tenant.namespace)
    printed = gzip.decompress(base64.b64decode(kept["data"]["output"]))
    assert base64.b64decode(drawn["data"]["password"]) in printed


async def test_killed_while_isolation_is_restored_and_while_a_project_cascades(
    tenant: EnvironmentHarness, mortal: Mortal
) -> None:
    """An opened policy is closed by whoever comes next, and nothing outlives its Project."""
    tenant.commit({"deploy/all.yaml": _FIRST})
    await tenant.apply(tenant.project(deletionPolicy="Cascade"), tenant.environment())
    async with mortal.alive():
        namespace = (await tenant.phase("Ready"))["status"]["namespace"]
    before = (await tenant.api.get(POLICIES, "default-policy", namespace))["spec"]
    await tenant.api.merge_patch(
        POLICIES, "default-policy", {"spec": {"ingress": [{}]}}, namespace, field_manager="a-hand"
    )
    await mortal.dies_at("environments.policy.replace.before")
    await mortal.dies_at("environments.policy.replace.after")
    assert (await tenant.api.get(POLICIES, "default-policy", namespace))["spec"] == before

    await tenant.api.delete(PROJECTS, tenant.name, tenant.namespace)
    await mortal.dies_at("environments.cascade.before")
    await mortal.dies_at("environments.cascade.after")
    async with mortal.alive():
        await tenant.wait_deleted(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.wait_deleted(NAMESPACES, namespace)
        await tenant.wait_deleted(PROJECTS, tenant.name, tenant.namespace)


async def _has_job(tenant: EnvironmentHarness, namespace: str) -> bool:
    return bool(await tenant.api.list(JOBS, namespace))


async def _serves(tenant: EnvironmentHarness, revision: int) -> bool:
    status = (await tenant.get())["status"]
    return bool(status["serving"]["revision"] == revision)


def _nothing_was_left_out(visited: Path) -> None:
    """The lists above hold every place of a pass."""
    passed = {
        failpoint
        for failpoint in visited.read_text().split()
        if failpoint.startswith(("environments.", "runtime."))
    }
    assert passed == {*MAKING, *CHANGING, *OPENING, *ENDING}
