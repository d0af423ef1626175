"""When the refs of a remote are listed again, and which repository destinations may use."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from windlass.api.kinds.gitrepoconfig import GitRepoConfig
from windlass.base.clock import SystemClock
from windlass.base.errors import Pending, Stalled
from windlass.git.errors import GitError
from windlass.git.format.refs import RefListing
from windlass.git.settings import GitSettings
from windlass.kube.api import Api
from windlass.objects.names import Key
from windlass.reverser.object_cache import ReverserCache
from windlass.reverser.repository import RepositoryReconciler
from windlass.runtime.pending_calls import PendingCalls
from windlass.sources.git_service import GitService

KEY = Key("ns", "repo")
HTTPS = "https://git.example.org/a"


READY = {
    "type": "Ready",
    "status": "True",
    "reason": "BranchFound",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@dataclass
class FakeRemote:
    """One GitRepoConfig, and a remote that answers as configured."""

    spec: dict[str, Any] = field(default_factory=lambda: {"repoUrl": HTTPS})
    uid: str = "first"
    generation: int = 1
    annotations: dict[str, str] = field(default_factory=dict)
    ready: dict[str, str] | None = field(default_factory=lambda: dict(READY))
    away: bool = False
    hangs: bool = False
    ages: list[float] = field(default_factory=list)
    changed: list[Key] = field(default_factory=list)

    def repository(self, key: Key) -> GitRepoConfig:
        return GitRepoConfig.decode(self.get(key))

    def get(self, key: Key) -> bytes:
        metadata = {"name": key.name, "namespace": key.namespace, "uid": self.uid}
        changing = {"generation": self.generation, "annotations": self.annotations}
        body = {
            "metadata": metadata | changing,
            "spec": {"allowedBranches": ["main"]} | self.spec,
            "status": {"conditions": [self.ready] if self.ready else []},
        }
        return json.dumps(body).encode()

    async def listing(self, remote: Any, found: Any, *, max_age_seconds: float, **_: Any) -> Any:
        self.ages.append(max_age_seconds)
        if self.hangs:
            await asyncio.Event().wait()
        if self.away:
            raise GitError("Unavailable", "nobody there")
        return RefListing({"refs/heads/main": "1" * 40}, "main")


@pytest.fixture
def remote() -> FakeRemote:
    """A remote that answers."""
    return FakeRemote()


@pytest.fixture
def repositories(remote: FakeRemote) -> RepositoryReconciler:
    """The reconciler under test."""
    return _reconciler(remote, check_seconds=60.0)


def _reconciler(remote: FakeRemote, *, check_seconds: float) -> RepositoryReconciler:
    cache = SimpleNamespace(
        repositories=remote, repository=remote.repository, destinations_for=lambda _: ()
    )
    return RepositoryReconciler(
        cast("Api", None),
        cast("ReverserCache", cache),
        cast(
            "GitService",
            SimpleNamespace(settings=GitSettings(), listings=SimpleNamespace(get=remote.listing)),
        ),
        PendingCalls(lambda _: None),
        SystemClock(),
        check_seconds=check_seconds,
        on_change=remote.changed.append,
    )


async def test_a_change_or_a_request_wants_a_fresh_answer(
    remote: FakeRemote, repositories: RepositoryReconciler
) -> None:
    """REP-1: a recent listing is enough for a new config and for an idle reconcile only."""
    await repositories.reconcile(KEY)
    await repositories.reconcile(KEY)
    remote.generation = 2
    await repositories.reconcile(KEY)
    remote.annotations = {"windlass.dev/requestedAt": "now"}
    await repositories.reconcile(KEY)
    await repositories.reconcile(KEY)
    assert remote.ages == [59.0, 59.0, 0.0, 0.0, 59.0]


async def test_without_checks_only_a_change_or_a_request_lists_the_remote(
    remote: FakeRemote,
) -> None:
    """--remote-check-interval=0: a listing of any age is enough for an idle reconcile."""
    repositories = _reconciler(remote, check_seconds=0.0)
    await repositories.reconcile(KEY)
    await repositories.reconcile(KEY)
    remote.annotations = {"windlass.dev/requestedAt": "now"}
    await repositories.reconcile(KEY)
    assert remote.ages == [float("inf"), float("inf"), 0.0]


async def test_a_new_repository_is_being_checked(
    remote: FakeRemote, repositories: RepositoryReconciler
) -> None:
    """2.1: Checking is reported once, before the refs are listed, and not after a restart."""
    remote.ready = None
    first, second = await repositories.reconcile(KEY), await repositories.reconcile(KEY)
    assert first.ready is not None
    assert second.ready is not None
    assert (first.ready.status, first.ready.reason) == ("Unknown", "Checking")
    assert second.ready.reason == "BranchFound"
    assert len(remote.ages) == 1


async def test_a_failure_is_repeated_until_something_changes(
    remote: FakeRemote, repositories: RepositoryReconciler
) -> None:
    """A remote that does not answer is not retried at once, except on request."""
    remote.away = True
    for _ in range(3):
        outcome = await repositories.reconcile(KEY)
        assert outcome.ready is not None
        assert outcome.ready.reason == "ConnectionFailed"
    assert len(remote.ages) == 1
    remote.away, remote.annotations = False, {"windlass.dev/requestedAt": "now"}
    outcome = await repositories.reconcile(KEY)
    assert outcome.ready is not None
    assert outcome.ready.reason == "BranchFound"


async def test_a_repository_that_was_created_again_is_checked_afresh(
    remote: FakeRemote, repositories: RepositoryReconciler
) -> None:
    """Its generation is the same, but what is known of the old one says nothing about it."""
    remote.away = True
    await repositories.reconcile(KEY)
    remote.away, remote.uid, remote.spec = False, "second", {"repoUrl": f"{HTTPS}/other"}
    outcome = await repositories.reconcile(KEY)
    assert outcome.ready is not None
    assert outcome.ready.reason == "BranchFound"
    assert remote.ages == [59.0, 0.0]


async def test_an_outage_is_logged_once(
    remote: FakeRemote, repositories: RepositoryReconciler
) -> None:
    """One line when a remote cannot be listed, whatever the number of checks, and one after."""
    with capture_logs() as logs:
        for request, away in (("1", True), ("2", True), ("3", False), ("4", False)):
            remote.away, remote.annotations = away, {"windlass.dev/requestedAt": request}
            await repositories.reconcile(KEY)
    assert [(row["event"], row["repository"], row.get("reason")) for row in logs] == [
        ("remote check failed; retrying", "ns/repo", "ConnectionFailed"),
        ("remote check recovered", "ns/repo", None),
    ]


async def test_a_changed_url_ends_writing_to_the_old_one(
    remote: FakeRemote, repositories: RepositoryReconciler
) -> None:
    """A new repoUrl that does not answer makes the repository unreachable."""
    await repositories.reconcile(KEY)
    remote.away = True
    remote.generation, remote.spec = 2, {"repoUrl": "https://git.example.org/b"}
    remote.changed.clear()
    await repositories.reconcile(KEY)
    assert repositories.reachable(KEY) is None
    assert set(remote.changed) == {KEY}


async def test_a_changed_url_ends_writing_before_it_answers(
    remote: FakeRemote, repositories: RepositoryReconciler
) -> None:
    """REP-1: destinations wait for its first answer, as after a start."""
    await repositories.reconcile(KEY)
    remote.hangs = True
    remote.generation, remote.spec = 2, {"repoUrl": "https://git.example.org/b"}
    remote.changed.clear()
    with pytest.raises(Pending):
        await repositories.reconcile(KEY)
    assert repositories.reachable(KEY) is None
    assert repositories.is_unchecked(KEY)
    assert remote.changed == [KEY]
    await repositories._calls.close()


async def test_changed_credentials_keep_the_last_answer_until_the_next(
    remote: FakeRemote, repositories: RepositoryReconciler
) -> None:
    """REP-1: unless the remote refuses them, writing goes on."""
    await repositories.reconcile(KEY)
    remote.hangs = True
    remote.generation, remote.spec = 2, {"repoUrl": HTTPS, "hostKeyVerification": "Disabled"}
    with pytest.raises(Pending):
        await repositories.reconcile(KEY)
    assert repositories.reachable(KEY) is not None
    assert not repositories.is_unchecked(KEY)
    await repositories._calls.close()
    remote.hangs, remote.away, remote.generation = False, True, 3
    await repositories.reconcile(KEY)
    assert repositories.reachable(KEY) is None


async def test_an_outage_does_not_forget_the_repository(
    remote: FakeRemote, repositories: RepositoryReconciler
) -> None:
    """Destinations keep pending updates during an outage and report it themselves."""
    await repositories.reconcile(KEY)
    remote.away, remote.generation = True, 2
    await repositories.reconcile(KEY)
    assert repositories.reachable(KEY) is not None


async def test_an_address_that_is_refused_is_forgotten(
    remote: FakeRemote, repositories: RepositoryReconciler
) -> None:
    """InsecureTransport: a change to http for a host that is not listed stops all writing."""
    await repositories.reconcile(KEY)
    remote.spec = {"repoUrl": "http://git.example.org/a"}
    with pytest.raises(Stalled, match="insecure"):
        await repositories.reconcile(KEY)
    assert repositories.reachable(KEY) is None
