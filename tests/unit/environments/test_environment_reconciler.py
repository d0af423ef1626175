"""What a reconcile of an Environment begins from while the watch is behind."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest
from prometheus_client import CollectorRegistry

from tests.unit.runtime.fakes import FakeApi, ManualClock
from windlass.api.kinds import environment
from windlass.api.kinds.project import Project
from windlass.environments import phase, status, step
from windlass.environments.environment_reconciler import (
    EnvironmentReconciler,
    ReconcilerSettings,
    Run,
)
from windlass.environments.inventory import ReleaseState
from windlass.environments.isolation.network_policies import ClusterNetwork
from windlass.environments.isolation.trust import UntrustedPolicy
from windlass.environments.memory import EnvironmentMemory
from windlass.environments.metrics import ReconcileMetrics
from windlass.environments.namespace.namespace_manager import NamespaceResult
from windlass.environments.preconditions import EnvironmentContext
from windlass.environments.resource_cache import ResourceCache
from windlass.environments.status import ReconcileReport
from windlass.kube.reflector import Observed
from windlass.objects.names import Key, Object
from windlass.runtime.events import EventRecorder
from windlass.runtime.informer_registry import InformerRegistry
from windlass.runtime.outcome import Outcome
from windlass.runtime.reporter import Reporter
from windlass.telemetry.environments import EnvironmentMetrics

if TYPE_CHECKING:
    from windlass.environments.ownership import Ownership

KEY = Key("team-a", "pr-1")
GVR = environment.KIND.gvr
_NAMESPACE: Object = {"metadata": {"name": "pr-1-shop", "uid": "uid-n"}}
_PROJECT: Object = {
    "metadata": {"name": "shop", "namespace": "team-a", "uid": "uid-p", "resourceVersion": "1"},
    "spec": {"sources": [{"name": "app", "repositoryUrl": "https://h/x.git"}]},
}
_ENVIRONMENT: Object = {
    "apiVersion": GVR.api_version,
    "kind": "Environment",
    "metadata": {
        "name": "pr-1",
        "namespace": "team-a",
        "uid": "uid-e",
        "generation": 1,
        "finalizers": [environment.FINALIZER],
    },
    "spec": {"projectRef": {"name": "shop"}, "type": "staging", "sources": []},
    "status": {"phase": "Initializing"},
}


class _Services:
    """A namespace that exists, and whose step waits with another text each time."""

    def __init__(self) -> None:
        self.namespaces = self.applier = self.commits = self.renderer = self
        self.isolation = self
        self.is_rendering = self.has_commits = True
        self._count = itertools.count()

    async def ensure(self, *_: Any) -> NamespaceResult:
        text = f"waiting for the {next(self._count)}th time"
        result = step.waiting(phase.NAMESPACE, "NamespaceTerminating", text, after=5.0)
        return NamespaceResult(result, _NAMESPACE)

    def is_resolved(self, _: Key) -> bool:
        return self.has_commits

    def forget(self, _: Key) -> None:
        self.has_commits = False

    def cancel(self, _: Key) -> None:
        self.is_rendering = False

    def release_state(self, _: str) -> ReleaseState:
        return ReleaseState()


class _Watched:
    """An Environment on an API server, and a controller whose watch delivers on request."""

    def __init__(self) -> None:
        self.api, self.clock, self.services = FakeApi(), ManualClock(), _Services()
        self.cache = ResourceCache(
            InformerRegistry(None),  # type: ignore[arg-type]
            lambda _: None,
            lambda _: None,
        )
        self.cache.projects.apply(Observed("ADDED", orjson.dumps(_PROJECT), False))
        self.reporter = Reporter(
            self.api,
            GVR,
            self.cache.environments.get,
            field_manager="f",
            recorder=EventRecorder(self.api, "windlass.dev/test", clock=self.clock),
            clock=self.clock,
            complete=status.complete_outcome,
        )
        self.reconciler = EnvironmentReconciler(
            self.api,  # type: ignore[arg-type]
            self.cache,
            self.services,  # type: ignore[arg-type]
            ReconcileMetrics(EnvironmentMetrics(CollectorRegistry())),
            self.clock,
            newest=self.reporter.newest,
            settings=ReconcilerSettings(
                ClusterNetwork(), UntrustedPolicy(), 60.0, "f", suspended=False
            ),
            on_correction=lambda *_: None,
        )
        self.api.put(GVR, _ENVIRONMENT)
        self.deliver()

    @property
    def live(self) -> Object:
        return self.api.objects["environments", "team-a", "pr-1"]

    @property
    def events(self) -> list[str]:
        kinds = ((key[0], obj) for key, obj in self.api.objects.items())
        return [obj["reason"] for kind, obj in kinds if kind == "events"]

    def deliver(self) -> None:
        """The watch catches up with the API server."""
        self.cache.environments.apply(Observed("MODIFIED", orjson.dumps(self.live), False))

    def change(self, **spec: Any) -> None:
        """Another client changes the spec."""
        changed = copy.deepcopy(self.live)
        changed["spec"] |= spec
        changed["metadata"]["generation"] += 1
        self.api.put(GVR, changed)

    async def reconcile(self) -> Outcome:
        snapshot = self.reporter.read_status(KEY)
        outcome = await self.reconciler.reconcile(KEY)
        await self.reporter.report(KEY, snapshot, outcome)
        return outcome


async def test_a_reconcile_before_the_watch_shows_our_status_repeats_no_event() -> None:
    """The second one begins with the status that the first one wrote, not with the cached one."""
    watched = _Watched()
    await watched.reconcile()
    assert "NamespaceCreated" in watched.events
    before, status_before = watched.events, watched.live["status"]
    await watched.reconcile()
    assert watched.live["status"] != status_before
    assert watched.events == before


async def test_a_change_by_others_counts_as_soon_as_the_watch_shows_it() -> None:
    """Our last write hides nothing that was written after it."""
    watched = _Watched()
    await watched.reconcile()
    watched.change(suspend=True)
    watched.deliver()
    outcome = await watched.reconcile()
    assert outcome.ready is not None
    assert outcome.ready.reason == "Suspended"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({}, "NamespaceTerminating"),
        ({"suspend": True}, "Suspended"),
        ({"type": 5}, "ConfigInvalid"),
    ],
)
async def test_an_isolation_that_is_not_checked_is_unknown(
    spec: dict[str, Any], reason: str
) -> None:
    """Whatever PoliciesReady was, once there is a namespace."""
    watched = _Watched()
    await watched.reconcile()
    watched.change(**spec)
    watched.deliver()
    await watched.reconcile()
    rows = {row["type"]: row for row in watched.live["status"]["conditions"]}
    policies = rows["PoliciesReady"]
    assert (policies["status"], policies["reason"]) == ("Unknown", reason)


async def test_the_observed_generation_is_the_one_that_was_reconciled() -> None:
    """Also where our write was made over a change that the watch does not show yet."""
    watched = _Watched()
    watched.change(suspend=True)
    await watched.reconcile()
    assert watched.live["status"]["observedGeneration"] == 1
    await watched.reconcile()
    assert watched.live["status"]["observedGeneration"] == 2
    rows = {row["type"]: row["reason"] for row in watched.live["status"]["conditions"]}
    assert rows["Ready"] == "Suspended"


async def test_a_retry_resolves_the_newest_commits_once() -> None:
    """Later reconciles keep them until the retry is handled, however fast the branch moves."""
    watched = _Watched()
    retried = copy.deepcopy(watched.live)
    retried["metadata"]["annotations"] = {"windlass.dev/retryAt": "now"}
    context = EnvironmentContext(
        environment.Environment.from_object(retried),
        retried,
        Project.from_object(_PROJECT),
        cast("Ownership", None),
    )
    run = Run(context, EnvironmentMemory(), ReconcileReport())
    requested = watched.reconciler._is_refresh_requested
    assert requested(run)
    assert not watched.services.is_rendering
    assert requested(run)
    watched.services.has_commits = True
    assert not requested(run)
