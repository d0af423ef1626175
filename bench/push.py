"""Row `push`: from a push until the report that its gateway has scanned it.

Each round pushes one changed file and requests a sync by annotation, as the demo does. An operator
resolves the commit, an agent brings it onto the disk of a mock gateway and has it scanned, and the
operator reports. There is no node: the pod is an object that nothing runs, the agent a process of
this machine with the rights of that pod's service account.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from bench.figure import Figure, at_most, percentile
from bench.many_files import git
from bench.testbed import Testbed
from tests.support.gateways.agent_harness import AgentRun, agent_environment, write_pod_info
from tests.support.gateways.fleet import Fleet, FleetPod
from tests.support.gateways.mock_gateway import TOKEN, running_gateway
from tests.support.git.http_server import branch_tips, running_git_server
from windlass.api.kinds.registry import IGNITION_SYNCS
from windlass.kube.api import Api
from windlass.kube.connection import Connection

ROUNDS = 10

_VIEW = "services/a/projects/line/view"
_LOOK_SECONDS = 0.02
_DEADLINE_SECONDS = 60.0
_REST_SECONDS = 4.1
"""Until agent and operator may again write two statuses at once: a single push is measured."""


def measure(testbed: Testbed) -> Iterator[Figure]:
    """Seconds from a push until its commit is reported as scanned."""
    with testbed.operator("push"):
        took = asyncio.run(_measure(testbed))
    p95 = percentile(took, 0.95)
    yield Figure(
        "push",
        "push to scanned and reported, p95",
        f"{p95:.2f} s",
        p95,
        "s",
        goal=at_most(2.5),
        note=f"p50 {percentile(took, 0.5):.2f} s; {ROUNDS} pushes of one file to one gateway",
    )


async def _measure(testbed: Testbed) -> list[float]:
    took = []
    async with _fleet(testbed) as fleet:
        work = testbed.directory / "push" / "work"
        git(work.parent, "clone", "--quiet", fleet.served.server.url(fleet.namespace), work.name)
        await _until_reported(fleet, branch_tips(fleet.repository)["main"])
        with testbed.progress.step(f"push: {ROUNDS} pushes"):
            for number in range(ROUNDS):
                await asyncio.sleep(_REST_SECONDS)
                commit = _commit(work, number)
                began = time.perf_counter()
                await asyncio.to_thread(git, work, "push", "--quiet")
                await fleet.request()
                await _until_reported(fleet, commit)
                took.append(time.perf_counter() - began)
    return took


@contextlib.asynccontextmanager
async def _fleet(testbed: Testbed) -> AsyncIterator[Fleet]:
    """An IgnitionSync with one gateway and its running agent; both are gone afterwards."""
    directory = testbed.directory / "push"
    (directory / "data").mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(running_git_server(directory / "srv"))
        gateway = stack.enter_context(running_gateway(directory / "data", token=TOKEN))
        async with Connection.open(kubeconfig=testbed.cluster.admin_kubeconfig) as admin:
            fleet = Fleet(Api(admin), admin, served, testbed.namespace("push"))
            await fleet.secret(apiKey=TOKEN)
            access = {
                "apiKeySecretRef": {"name": "ignition-api"},
                "port": urlsplit(gateway.url).port,
                "tls": False,
            }
            await fleet.apply(fleet.sync(gateway=access))
            agent = _agent(testbed, await fleet.pod("area-1"), directory)
            stack.callback(agent.kill)
            agent.start()
            try:
                yield fleet
            finally:
                await fleet.admin.delete(IGNITION_SYNCS, "site", fleet.namespace)


def _agent(testbed: Testbed, pod: FleetPod, directory: Path) -> AgentRun:
    namespace = pod.fleet.namespace
    (directory / "apiKey").write_text(TOKEN)
    write_pod_info(directory, pod.annotations, pod.labels)
    user = f"system:serviceaccount:{namespace}:{pod.account}"
    return AgentRun(
        agent_environment(directory, namespace, pod.name, pod.uid),
        directory / "agent.log",
        testbed.cluster.user_kubeconfig(user),
    )


def _commit(work: Path, number: int) -> str:
    """A commit of one changed file, not pushed yet."""
    view = work / _VIEW / "view.json"
    view.parent.mkdir(parents=True, exist_ok=True)
    view.write_text(json.dumps({"number": number}))
    resource = {"scope": "G", "version": 1, "files": ["view.json"], "attributes": {}}
    (view.parent / "resource.json").write_text(json.dumps(resource))
    git(work, "add", "-A")
    git(work, "commit", "--quiet", "-m", f"Change the view ({number})")
    return branch_tips(work)["main"]


async def _until_reported(fleet: Fleet, commit: str) -> None:
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while True:
            status = await fleet.status()
            rows = {row["type"]: row["status"] for row in status.get("conditions", ())}
            if rows.get("Ready") == "True" and status.get("lastSyncCommit") == commit:
                return
            await asyncio.sleep(_LOOK_SECONDS)
