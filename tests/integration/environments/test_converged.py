"""A converged Environment costs nothing, and its state does not depend on its history."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from tests.support.environments.environment_harness import (
    CONFIG_MAP,
    NAMESPACES,
    POLICIES,
    PROJECTS,
    QUOTAS,
    SERVICE,
    EnvironmentHarness,
    deployment,
)
from tests.support.environments.namespace_state import KINDS, read_state
from tests.support.processes.polling import eventually
from windlass.environments.namespace.naming import NamingRules

pytestmark = pytest.mark.cluster


async def _versions(tenant: EnvironmentHarness, name: str) -> dict[tuple[str, str], str]:
    versions = {
        (gvr.resource, row["metadata"]["name"]): row["metadata"]["resourceVersion"]
        for gvr in KINDS
        for row in await tenant.api.list(gvr, name)
        # The cluster publishes its CA whenever it gets to it.
        if row["metadata"]["name"] != "kube-root-ca.crt"
    }
    namespace = await tenant.api.get(NAMESPACES, name)
    environment = await tenant.get()
    return {
        **versions,
        ("namespaces", name): namespace["metadata"]["resourceVersion"],
        ("environments", "one"): environment["metadata"]["resourceVersion"],
    }


async def _wait_counted(tenant: EnvironmentHarness) -> None:
    """Wait until the Project counts its Environment as ready, which it does in its own time."""

    async def counted() -> bool:
        project = await tenant.api.get(PROJECTS, tenant.name, tenant.namespace)
        return bool(((project.get("status") or {}).get("environments") or {}).get("ready") == 1)

    await eventually(counted, "the Project counts the Environment")


@pytest.mark.scenario("E19")
@pytest.mark.parametrize("is_plain", [False, True])
async def test_twenty_reconciles_of_a_converged_environment_send_no_request(
    tenant: EnvironmentHarness, is_plain: bool
) -> None:
    """Not one request, not one new version; also not after a restart, statuses included."""
    tenant.commit({"deploy/all.yaml": "---\n".join((CONFIG_MAP, SERVICE, deployment()))})
    plain = frozenset({tenant.namespace} if is_plain else ())
    naming = NamingRules(plain_namespaces=plain)
    async with tenant.running(naming=naming, poll_seconds=3600.0):
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.wait_running()
        await _wait_counted(tenant)
        namespace = await tenant.environment_namespace()
    async with tenant.running(naming=naming, poll_seconds=3600.0) as controller:
        await tenant.reconcile_times(controller, 2)
        before = await _versions(tenant, namespace)
        tenant.connection.recorded.clear()
        await tenant.reconcile_times(controller, 20)
        assert not tenant.connection.requests_for(namespace, tenant.namespace)
        assert await _versions(tenant, namespace) == before


async def test_a_restart_writes_nothing(tenant: EnvironmentHarness) -> None:
    """A new process finds no difference between desired and live objects."""
    tenant.commit({"deploy/all.yaml": "---\n".join((CONFIG_MAP, SERVICE, deployment()))})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.wait_running()
        namespace = await tenant.environment_namespace()
        await tenant.request_reconcile()
        await _wait_counted(tenant)
    before = await _versions(tenant, namespace)
    tenant.connection.recorded.clear()
    async with tenant.running() as controller:
        await tenant.reconcile_times(controller, 3)
    writes = [
        request
        for request in tenant.connection.requests_for(namespace, tenant.namespace)
        if request.is_write
    ]
    assert not writes
    assert await _versions(tenant, namespace) == before


class _Walk:
    """Random changes of everything a user may change."""

    def __init__(self, tenant: EnvironmentHarness, source: random.Random) -> None:
        self.tenant = tenant
        self.source = source
        self.project: dict[str, Any] = {}
        self.environment: dict[str, Any] = {}
        self.files: dict[str, str] = {"deploy/all.yaml": CONFIG_MAP}

    async def step(self) -> str:
        name = self.source.choice(
            [
                "quota",
                "limits",
                "egress",
                "web",
                "files",
                "files",
                "branch",
                "revert",
                "pin",
                "edit",
            ]
        )
        await getattr(self, f"_{name}")()
        await self.tenant.apply(
            self.tenant.project(**self.project), self.tenant.environment(**self.environment)
        )
        return name

    async def _quota(self) -> None:
        self.environment["quota"] = {"pods": self.source.randint(2, 19)}

    async def _limits(self) -> None:
        self.project["resources"] = {"defaultQuota": {"services": self.source.randint(3, 9)}}

    async def _egress(self) -> None:
        rules = [{"name": f"rule{n}", "cidrs": [f"192.0.2.{n}/32"]} for n in range(4)]
        chosen = self.source.sample(rules, self.source.randint(0, 3))
        web = self.project.get("network", {}).get("webEgress", "Public")
        self.project["network"] = {"webEgress": web, "egress": chosen}

    async def _web(self) -> None:
        egress = self.project.get("network", {}).get("egress", [])
        web = self.source.choice(["Public", "None"])
        self.project["network"] = {"webEgress": web, "egress": egress}

    async def _files(self) -> None:
        color = self.source.choice(["red", "green", "blue"])
        objects = [
            CONFIG_MAP.replace("blue", color),
            CONFIG_MAP.replace("settings", "more"),
            SERVICE,
            deployment(image=f"registry.invalid/web:{self.source.randint(1, 3)}", replicas=1),
            "apiVersion: policy/v1\nkind: NotAKind\nmetadata: {name: x}\n",
        ]
        chosen = self.source.sample(objects, self.source.randint(1, 4))
        self.files = {"deploy/all.yaml": "---\n".join(chosen)}
        self.tenant.commit(self.files)

    async def _branch(self) -> None:
        self.tenant.commit({"deploy/all.yaml": CONFIG_MAP}, branch="side")
        self.environment["sources"] = [
            {"name": "app", "branch": self.source.choice(["main", "side", "nowhere"])}
        ]

    async def _pin(self) -> None:
        commit = self.tenant.commit(self.files)
        self.environment["sources"] = [{"name": "app", "commitSha": commit}]

    async def _revert(self) -> None:
        chosen = self.source.choice([self.project, self.environment])
        if chosen:
            chosen.pop(self.source.choice(sorted(chosen)))

    async def _edit(self) -> None:
        """A user deletes an object of the isolation."""
        with contextlib.suppress(Exception):
            namespace = await self.tenant.environment_namespace()
            deleted = self.source.choice([(QUOTAS, "default-quota"), (POLICIES, "default-policy")])
            await self.tenant.api.delete(*deleted, namespace)

    async def settle(self) -> None:
        """End with a spec and a commit that can become ready."""
        self.environment.pop("sources", None)
        self.files = {"deploy/all.yaml": "---\n".join((CONFIG_MAP, SERVICE, deployment()))}
        self.tenant.commit(self.files)
        await self.tenant.apply(
            self.tenant.project(**self.project), self.tenant.environment(**self.environment)
        )


@pytest.mark.scenario("E124")
async def test_any_history_ends_in_the_state_of_a_new_environment(
    tenant: EnvironmentHarness,
) -> None:
    """After changes, reverts, edits and restarts, the state depends on the last spec alone."""
    seed = random.randrange(2**32)
    walk = _Walk(tenant, random.Random(seed))
    taken: list[str] = []
    for _ in range(3):
        async with tenant.running(poll_seconds=0.3):
            for _ in range(5):
                taken.append(await walk.step())
                if walk.source.random() < 0.4:
                    await tenant.request_reconcile()
    async with tenant.running(poll_seconds=0.3):
        await walk.settle()
        await tenant.request_reconcile()
        await tenant.wait_running()
        copy = tenant.environment("two", **walk.environment)
        await tenant.apply(copy)
        await tenant.wait_running("two")
        story = f"seed {seed}: {taken}"

        async def equal() -> bool:
            return await read_state(tenant, "one") == await read_state(tenant, "two")

        with contextlib.suppress(AssertionError):
            await eventually(equal, "equal")
        assert await read_state(tenant, "one") == await read_state(tenant, "two"), story
