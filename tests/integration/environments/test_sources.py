"""Where the commit comes from, and what is said when it does not come."""

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
    """Missing, wrong, right: each is seen by itself, and no value is ever repeated."""
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


async def test_an_unknown_branch_is_named_and_found_when_it_comes(
    tenant: EnvironmentHarness,
) -> None:
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
async def test_a_pinned_commit_must_lie_on_its_branch(tenant: EnvironmentHarness) -> None:
    """An older commit of the branch is taken as it is; one beside it is refused."""
    old = tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "green")})
    tip = tenant.commit({"deploy/all.yaml": CONFIG_MAP})
    beside = tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")}, branch="side")
    async with tenant.running():
        await tenant.apply(
            tenant.project(),
            tenant.environment(sources=[{"name": "app", "commitSha": old[:12]}]),
        )
        ready = await tenant.phase("Ready")
        place = await tenant.place()
        assert ready["status"]["sources"][0]["commit"] == old
        # Whoever rewrites the branch takes nothing away from what runs.
        anew = git(tenant.repository, "commit-tree", f"{tip}^{{tree}}", "-m", "a new beginning")
        git(tenant.repository, "update-ref", "refs/heads/main", anew.strip())
        await tenant.poke()
        assert (await tenant.get())["status"]["phase"] == "Ready"
        git(tenant.repository, "update-ref", "refs/heads/main", tip)
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


async def test_what_runs_runs_on_while_git_is_away(
    tenant: EnvironmentHarness, tmp_path: Path
) -> None:
    """It stays Ready and is kept as it is; who starts meanwhile does not claim to know more."""
    root = tmp_path / "unsteady"
    with contextlib.ExitStack() as server:
        first = server.enter_context(running_git_server(root))
        repository = first.create("app", {"deploy/all.yaml": CONFIG_MAP})
        url = first.server.url("app")
        source = {"name": "app", "repositoryUrl": url, "branch": "main"}
        async with tenant.running():
            await tenant.apply(tenant.project(sources=[source]), tenant.environment())
            ready = await tenant.phase("Ready")
            place = await tenant.place()
            server.close()
            away = await eventually(
                lambda: _says(tenant, "cannot check for newer commits"), "it is told"
            )
            assert away["status"]["phase"] == "Ready"
            rows = {row["type"]: row for row in away["status"]["conditions"]}
            assert (rows["Ready"]["status"], rows["BuildReady"]["status"]) == ("True", "True")
            assert "cannot check for newer commits" in rows["BuildReady"]["message"]
            await tenant.patch(CONFIG_MAPS, "settings", {"data": {"colour": "odd"}}, place)
            await eventually(lambda: _is(tenant, place, "blue"), "it is put right")
            assert (await tenant.get())["status"]["phase"] == "Ready"
    async with tenant.running():
        away = await tenant.condition("BuildReady", "GitUnavailable")
        assert away["status"]["phase"] == "Building"
        assert away["status"]["serving"] == ready["status"]["serving"]
        assert "still serving" in away["status"]["message"]
        with running_git_server(root, port=int(url.split(":")[2].split("/")[0])):
            commit_files(repository, {"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")})
            await eventually(lambda: _is(tenant, place, "red"), "the new commit is there")
            healed = await tenant.phase("Ready")
            assert "newer commits" not in healed["status"]["message"]


async def _says(tenant: EnvironmentHarness, words: str) -> Any:
    found = await tenant.get()
    return found if words in str(found["status"].get("message")) else None


async def _is(tenant: EnvironmentHarness, place: str, colour: str) -> bool:
    found = await tenant.api.get(CONFIG_MAPS, "settings", place)
    return bool(found["data"] == {"colour": colour})


async def test_a_path_that_is_not_there_is_said_with_what_is(tenant: EnvironmentHarness) -> None:
    """Links are refused by name, missing paths with their neighbours."""
    project = tenant.project(templates={"default": {"type": "manifest", "path": "deplyo"}})
    async with tenant.running():
        await tenant.apply(project, tenant.environment())
        failed = await tenant.condition("DeploymentReady", "RenderFailed")
        assert "deploy" in failed["status"]["message"]
        await tenant.apply(tenant.project())
        await tenant.phase("Ready")
