"""Where the commit comes from, and what is said when it does not come."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.support.gitserver import PASSWORD, commit_files, serving
from tests.support.previews import CONFIG_MAP, CONFIG_MAPS, MANAGER, SECRETS, Previews
from tests.support.waiting import eventually

pytestmark = pytest.mark.cluster


async def _secret(tenant: Previews, password: str) -> None:
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
    tenant: Previews, tmp_path: Path
) -> None:
    """Missing, wrong, right: each is seen by itself, and no value is ever repeated."""
    with serving(tmp_path / "private", username="git", password=PASSWORD) as private:
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
            assert "SecretMissing" in missing["status"]["message"]
            await _secret(tenant, "wrong-password-1")

            async def refused() -> bool:
                found = await tenant.get()
                return "AuthFailed:" in str(found["status"].get("message"))

            await eventually(refused, "the server refuses")
            failed = await tenant.phase("Failed")
            assert "wrong-password-1" not in str(failed)
            await _secret(tenant, PASSWORD)
            ready = await tenant.phase("Ready")
            assert PASSWORD not in str(ready)
        async with tenant.running(poll_seconds=3600.0) as controller:
            await tenant.passes(controller, 2)
            tenant.connection.made.clear()
            await tenant.passes(controller, 5)
            assert not tenant.connection.about(tenant.namespace)


async def test_an_unknown_branch_is_named_and_found_when_it_comes(tenant: Previews) -> None:
    """RefNotFound without a namespace full of leftovers; a push heals it."""
    source = {"name": "app", "branch": "later"}
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment(sources=[source]))
        failed = await tenant.condition("BuildReady", "RefNotFound")
        assert failed["status"]["phase"] == "Failed"
        assert "later" in failed["status"]["message"]
        tenant.commit({"deploy/all.yaml": CONFIG_MAP}, branch="later")
        await tenant.phase("Ready")


@pytest.mark.scenario("E46")
async def test_a_pinned_commit_must_lie_on_its_branch(tenant: Previews) -> None:
    """An older commit of the branch is taken as it is; one beside it is refused."""
    old = tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "green")})
    tenant.commit({"deploy/all.yaml": CONFIG_MAP})
    beside = tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")}, branch="side")
    async with tenant.running():
        await tenant.apply(
            tenant.project(),
            tenant.environment(sources=[{"name": "app", "commitSha": old[:12]}]),
        )
        ready = await tenant.phase("Ready")
        place = await tenant.place()
        assert ready["status"]["sources"][0]["commit"] == old
        await tenant.apply(tenant.environment(sources=[{"name": "app", "commitSha": beside}]))
        failed = await tenant.condition("BuildReady", "CommitNotOnRef")
        assert failed["status"]["phase"] == "Failed"
        assert failed["status"]["serving"] == ready["status"]["serving"]
        applied = await tenant.api.get(CONFIG_MAPS, "settings", place)
        assert applied["data"] == {"colour": "green"}
        await tenant.apply(
            tenant.environment(sources=[{"name": "app", "commitSha": beside, "branch": "side"}])
        )
        await tenant.phase("Ready")
        applied = await tenant.api.get(CONFIG_MAPS, "settings", place)
        assert applied["data"] == {"colour": "red"}


async def test_what_runs_runs_on_while_git_is_away(tenant: Previews, tmp_path: Path) -> None:
    """GitUnavailable is never Failed; nothing is touched, and a new commit heals it."""
    root = tmp_path / "unsteady"
    with serving(root) as first:
        repository = first.create("app", {"deploy/all.yaml": CONFIG_MAP})
        url, port = (
            first.server.url("app"),
            int(first.server.url("app").split(":")[2].split("/")[0]),
        )
        source = {"name": "app", "repositoryUrl": url, "branch": "main"}
        async with tenant.running():
            await tenant.apply(tenant.project(sources=[source]), tenant.environment())
            ready = await tenant.phase("Ready")
    async with tenant.running():
        away = await tenant.condition("BuildReady", "GitUnavailable")
        place = await tenant.place()
        before = await tenant.api.get(CONFIG_MAPS, "settings", place)
        assert away["status"]["phase"] == "Building"
        assert away["status"]["serving"] == ready["status"]["serving"]
        assert "still serving" in away["status"]["message"]
        with serving(root, port=port):
            commit_files(repository, {"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")})

            async def red() -> bool:
                found = await tenant.api.get(CONFIG_MAPS, "settings", place)
                return bool(found["data"] == {"colour": "red"})

            await eventually(red, "the new commit is there")
            assert before["data"] == {"colour": "blue"}
            await tenant.phase("Ready")


async def test_a_path_that_is_not_there_is_said_with_what_is(tenant: Previews) -> None:
    """Links are refused by name, missing paths with their neighbours."""
    project = tenant.project(templates={"default": {"type": "manifest", "path": "deplyo"}})
    async with tenant.running():
        await tenant.apply(project, tenant.environment())
        failed = await tenant.condition("DeploymentReady", "RenderFailed")
        assert "deploy" in failed["status"]["message"]
        await tenant.apply(tenant.project())
        await tenant.phase("Ready")
