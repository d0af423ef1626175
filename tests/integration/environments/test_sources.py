"""Resolving and fetching commits, and what status reports when that fails."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path
from typing import Any

import pytest

from tests.support.environments.environment_harness import (
    CONFIG_MAP,
    CONFIG_MAPS,
    MANAGER,
    SECRETS,
    EnvironmentHarness,
)
from tests.support.git.http_server import PASSWORD, commit_files, git, running_git_server
from tests.support.processes.operator import free_port
from tests.support.processes.polling import eventually

pytestmark = pytest.mark.cluster


async def _secret(tenant: EnvironmentHarness, password: str) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "git", "namespace": tenant.namespace},
        "data": {
            "username": base64.b64encode(b"git").decode(),
            "password": base64.b64encode(password.encode()).decode(),
        },
    }
    await tenant.api.apply(SECRETS, secret, field_manager=MANAGER)


@pytest.mark.scenario("E45")
async def test_a_private_repository_needs_the_right_secret(
    tenant: EnvironmentHarness, tmp_path: Path
) -> None:
    """A missing, wrong and right Secret each take effect; no value is ever reported."""
    with running_git_server(tmp_path / "private", username="git", password=PASSWORD) as private:
        private.create("app", {"deploy/all.yaml": CONFIG_MAP})
        source = {
            "name": "app",
            "repositoryUrl": private.server.url("app"),
            "branch": "main",
            "secretRef": {"name": "git"},
        }
        async with tenant.running():
            await tenant.apply(tenant.project(sources=[source]), tenant.environment())
            missing = await tenant.condition("BuildReady", "GitAuthFailed")
            assert f"Secret {tenant.namespace}/git not found" in missing["status"]["message"]
            await _secret(tenant, "wrong-password-1")

            async def refused() -> bool:
                environment = await tenant.get()
                return "Authentication failed" in str(environment["status"].get("message"))

            await eventually(refused, "the server refuses")
            failed = await tenant.phase("Failed")
            assert "wrong-password-1" not in str(failed)
            await _secret(tenant, PASSWORD)
            ready = await tenant.phase("Ready")
            assert PASSWORD not in str(ready)
        async with tenant.running(poll_seconds=3600.0) as controller:
            await tenant.reconcile_times(controller, 2)
            tenant.connection.recorded.clear()
            await tenant.reconcile_times(controller, 5)
            assert not tenant.connection.requests_for(tenant.namespace)


async def test_a_missing_branch_is_named_and_used_once_pushed(
    tenant: EnvironmentHarness,
) -> None:
    """RefNotFound; a push of the branch recovers."""
    source = {"name": "app", "branch": "later"}
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment(sources=[source]))
        failed = await tenant.condition("BuildReady", "RefNotFound")
        assert failed["status"]["phase"] == "Failed"
        assert "later" in failed["status"]["message"]
        tenant.commit({"deploy/all.yaml": CONFIG_MAP}, branch="later")
        await tenant.phase("Ready")


@pytest.mark.scenario("E46")
async def test_a_pinned_commit_must_lie_on_its_branch(tenant: EnvironmentHarness) -> None:
    """An older commit of the branch is used; one of another branch is refused."""
    old = tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "green")})
    tip = tenant.commit({"deploy/all.yaml": CONFIG_MAP})
    beside = tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")}, branch="side")
    async with tenant.running():
        await tenant.apply(
            tenant.project(),
            tenant.environment(sources=[{"name": "app", "commitSha": old[:12]}]),
        )
        ready = await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        assert ready["status"]["sources"][0]["commit"] == old
        # A rewritten branch does not affect the running revision.
        rewritten = git(
            tenant.repository, "commit-tree", f"{tip}^{{tree}}", "-m", "a new beginning"
        )
        git(tenant.repository, "update-ref", "refs/heads/main", rewritten.strip())
        await tenant.request_reconcile()
        assert (await tenant.get())["status"]["phase"] == "Ready"
        git(tenant.repository, "update-ref", "refs/heads/main", tip)
        await tenant.apply(tenant.environment(sources=[{"name": "app", "commitSha": beside}]))
        failed = await tenant.condition("BuildReady", "CommitNotOnRef")
        assert failed["status"]["phase"] == "Failed"
        assert failed["status"]["serving"] == ready["status"]["serving"]
        applied = await tenant.api.get(CONFIG_MAPS, "settings", namespace)
        assert applied["data"] == {"color": "green"}
        await tenant.apply(
            tenant.environment(sources=[{"name": "app", "commitSha": beside, "branch": "side"}])
        )
        await tenant.phase("Ready")
        applied = await tenant.api.get(CONFIG_MAPS, "settings", namespace)
        assert applied["data"] == {"color": "red"}


async def test_an_environment_keeps_serving_while_git_is_unavailable(
    tenant: EnvironmentHarness, tmp_path: Path
) -> None:
    """It stays Ready and drift is corrected; after a restart it is Building until Git is back."""
    root = tmp_path / "stopped"
    with contextlib.ExitStack() as server:
        port = free_port()
        first = server.enter_context(running_git_server(root, port=port))
        repository = first.create("app", {"deploy/all.yaml": CONFIG_MAP})
        source = {"name": "app", "repositoryUrl": first.server.url("app"), "branch": "main"}
        async with tenant.running():
            await tenant.apply(tenant.project(sources=[source]), tenant.environment())
            ready = await tenant.phase("Ready")
            namespace = await tenant.environment_namespace()
            server.close()
            unavailable = await eventually(
                lambda: _with_message(tenant, "cannot check for newer commits"),
                "the failure is reported",
            )
            assert unavailable["status"]["phase"] == "Ready"
            rows = {row["type"]: row for row in unavailable["status"]["conditions"]}
            assert (rows["Ready"]["status"], rows["BuildReady"]["status"]) == ("True", "True")
            assert "cannot check for newer commits" in rows["BuildReady"]["message"]
            await tenant.patch(CONFIG_MAPS, "settings", {"data": {"color": "odd"}}, namespace)
            await eventually(lambda: _has_color(tenant, namespace, "blue"), "drift is corrected")
            assert (await tenant.get())["status"]["phase"] == "Ready"
    async with tenant.running():
        unavailable = await tenant.condition("BuildReady", "GitUnavailable")
        assert unavailable["status"]["phase"] == "Building"
        assert unavailable["status"]["serving"] == ready["status"]["serving"]
        assert "still serving" in unavailable["status"]["message"]
        with running_git_server(root, port=port):
            commit_files(repository, {"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")})
            await eventually(
                lambda: _has_color(tenant, namespace, "red"), "the new commit is applied"
            )
            recovered = await tenant.phase("Ready")
            assert "newer commits" not in recovered["status"]["message"]


async def _with_message(tenant: EnvironmentHarness, text: str) -> Any:
    environment = await tenant.get()
    return environment if text in str(environment["status"].get("message")) else None


async def _has_color(tenant: EnvironmentHarness, namespace: str, color: str) -> bool:
    live = await tenant.api.get(CONFIG_MAPS, "settings", namespace)
    return bool(live["data"] == {"color": color})


async def test_a_missing_path_is_reported_with_existing_ones(
    tenant: EnvironmentHarness,
) -> None:
    """The message lists the entries beside the missing path."""
    project = tenant.project(templates={"default": {"type": "manifest", "path": "deplyo"}})
    async with tenant.running():
        await tenant.apply(project, tenant.environment())
        failed = await tenant.condition("DeploymentReady", "RenderFailed")
        assert "deploy" in failed["status"]["message"]
        await tenant.apply(tenant.project())
        await tenant.phase("Ready")
