"""Wires the environments capability: informers, work queues, reconcilers and their services.

`EnvironmentsController.run` is run by the leader (`app`). Everything is level-triggered: a
change of an object enqueues the key of the Environment or Project it concerns, and the reconcile
observes the current state. No reconcile begins before all informers are synced and the operator
policy is in force.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from windlass.api.install.installation import Installation
from windlass.api.kinds import environment as environment_kind
from windlass.api.kinds import project as project_kind
from windlass.base.clock import Clock
from windlass.environments import status
from windlass.environments.apply import bundle_applier, rollout
from windlass.environments.apply.hook_runs import HookRuns
from windlass.environments.audit_log import CorrectionEvents
from windlass.environments.bundle import cluster_access
from windlass.environments.bundle.cluster_access import ClusterAccess
from windlass.environments.deletion import EnvironmentDeletion, OrphanCleanup
from windlass.environments.environment_reconciler import (
    EnvironmentReconciler,
    EnvironmentServices,
    ReconcilerSettings,
)
from windlass.environments.isolation import isolation_writer
from windlass.environments.isolation.network_policies import ClusterNetwork
from windlass.environments.isolation.operator_policy import OperatorPolicyCheck
from windlass.environments.isolation.trust import UntrustedPolicy
from windlass.environments.metrics import ReconcileMetrics
from windlass.environments.namespace import namespace_manager
from windlass.environments.namespace.naming import NamingRules
from windlass.environments.owned_cache import OwnedCache
from windlass.environments.owned_objects import OperatorAccount
from windlass.environments.project_reconciler import ProjectReconciler
from windlass.environments.render.api_capabilities import CapabilitiesCache
from windlass.environments.render.helm import Helm
from windlass.environments.render.output_store import OutputStore
from windlass.environments.render.renderer import BundleRenderer, ChartRenderer
from windlass.environments.render.sandbox.child import RenderLimits
from windlass.environments.resource_cache import ResourceCache
from windlass.environments.source.commits import CommitResolver, SourceRepositories
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import GVR, Key, Object
from windlass.runtime.controller import Controller, Reconcile
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.informer import Informer
from windlass.runtime.informer_registry import InformerRegistry
from windlass.runtime.outcome import Outcome
from windlass.runtime.owned import OwnedObjects
from windlass.runtime.pending_calls import PendingCalls
from windlass.runtime.queue import KeyedQueue
from windlass.runtime.reporter import Complete, Reporter
from windlass.sources.git_service import GitService
from windlass.sources.resolver import Resolver
from windlass.telemetry.environments import EnvironmentMetrics

FIELD_MANAGER = "windlass-environments"
STATUS_MANAGER = "windlass-environments-status"
REVISION_ANNOTATION = "catalyst.dev/revision"
"""Annotation of an Event: the revision of the Environment at that time."""

_WORKERS = 16
"""Keys of one kind that are reconciled at the same time."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EnvironmentsSettings:
    """Settings of the capability, put together by `app` from flags, environment and file."""

    # Git stores, proofs that a commit is on its branch, and scratch space for charts.
    work_directory: Path
    # The operator's own user, which gets its rights in each namespace by a RoleBinding.
    operator: OperatorAccount
    # Timeouts and backoff of all watches.
    reflector: ReflectorSettings = field(default_factory=ReflectorSettings)
    # How namespaces of Environments are named.
    naming: NamingRules = field(default_factory=NamingRules)
    # Closed ranges, egress ceiling, and whether policies are enforced at all.
    network: ClusterNetwork = field(default_factory=ClusterNetwork)
    # What Environments with `trust: untrusted` get.
    untrusted: UntrustedPolicy = field(default_factory=UntrustedPolicy)
    # What bundles may refer to outside their namespace; its StorageClasses are filled in later.
    cluster_access: ClusterAccess = field(default_factory=ClusterAccess)
    # StorageClasses that claims may name; empty = every class with a provisioner.
    storage_classes: frozenset[str] = frozenset()
    # Names of the installed ClusterRoles and of the operator policy.
    install: Installation = field(default_factory=Installation)
    # How often the head of a branch is resolved again.
    poll_seconds: float = 60.0
    # How long a rollout or a hook may take.
    rollout_seconds: float = rollout.DEADLINE_SECONDS
    # How often orphaned namespaces are searched for.
    cleanup_seconds: float = 600.0
    # Path or name of the helm program; empty = charts are refused.
    helm: str = "helm"
    # Nothing in the cluster is changed; status is still reported.
    suspended: bool = False


def _unchanged(_: Object, outcome: Outcome) -> Outcome:
    return outcome


class EnvironmentsController:
    """Owns all parts of the capability and runs them."""

    def __init__(
        self,
        connection: Connection,
        settings: EnvironmentsSettings,
        git: GitService,
        *,
        clock: Clock,
        metrics: EnvironmentMetrics,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._metrics = ReconcileMetrics(metrics)
        # The work queues by kind.
        self._queues: dict[str, KeyedQueue[Key]] = {
            "Environment": KeyedQueue(),
            "Project": KeyedQueue(),
        }
        self._informers = InformerRegistry(connection, settings.reflector, clock)
        self.cache = ResourceCache(
            self._informers, self._queues["Project"].add, self._queues["Environment"].add
        )
        self.owned_cache = OwnedCache(self._informers, self._queues["Environment"].add)
        api = Api(connection)
        self.operator_policy = OperatorPolicyCheck(
            api,
            operator=settings.operator,
            install=settings.install,
            field_manager=FIELD_MANAGER,
        )
        self._resolver = Resolver(git, settings.work_directory / "proofs", clock)
        # Calls of git and helm by kind, which no worker waits for.
        self._calls = {kind: PendingCalls(queue.add) for kind, queue in self._queues.items()}
        self._recorder = EventRecorder(
            api, "windlass.dev/environments", clock=clock, annotate=self._event_annotations
        )
        sources = SourceRepositories(api, git, self._resolver, settings.work_directory, clock)
        self._services = self._make_services(api, sources)
        self._orphan_cleanup = OrphanCleanup(
            api,
            self.owned_cache,
            self._services.namespaces,
            self._metrics,
            self._recorder,
            interval_seconds=settings.cleanup_seconds,
        )
        self._controllers = self._make_controllers(api, sources)

    # ---- wiring

    def _make_services(self, api: Api, sources: SourceRepositories) -> EnvironmentServices:
        """What an Environment reconcile acts with."""
        owned = OwnedObjects(api, FIELD_MANAGER)
        hook_runs = HookRuns(
            self.owned_cache, self._clock, deadline_seconds=self._settings.rollout_seconds
        )
        applier = bundle_applier.BundleApplier(
            self._connection, self.owned_cache, owned, hook_runs, self._clock
        )
        namespaces = namespace_manager.NamespaceManager(
            api, self.owned_cache, owned, self._settings.naming, field_manager=FIELD_MANAGER
        )
        return EnvironmentServices(
            namespaces=namespaces,
            isolation=isolation_writer.IsolationWriter(
                api,
                self.owned_cache,
                owned,
                self._clock,
                operator=self._settings.operator,
                install=self._settings.install,
                field_manager=FIELD_MANAGER,
            ),
            commits=CommitResolver(
                sources,
                self._calls["Environment"],
                self._clock,
                poll_seconds=self._settings.poll_seconds,
            ),
            renderer=BundleRenderer(
                sources,
                self._make_charts(api),
                self._calls["Environment"],
                self._metrics,
                self._clock,
            ),
            applier=applier,
            rollouts=rollout.RolloutTracker(
                self.owned_cache,
                applier,
                self._clock,
                deadline_seconds=self._settings.rollout_seconds,
            ),
            deletion=EnvironmentDeletion(
                api,
                namespaces,
                self._metrics,
                self._recorder,
                self._clock,
                field_manager=FIELD_MANAGER,
            ),
            cluster_access=self._cluster_access,
        )

    def _cluster_access(self) -> ClusterAccess:
        """What bundles may refer to, with the StorageClasses that exist now."""
        classes = cluster_access.classes(
            self.owned_cache.storage_classes(), self._settings.storage_classes
        )
        return replace(self._settings.cluster_access, storage_classes=classes)

    def _make_charts(self, api: Api) -> ChartRenderer:
        directory = self._settings.work_directory / "charts"
        helm = Helm(self._settings.helm, RenderLimits(), directory)
        return ChartRenderer(
            helm, CapabilitiesCache(api, self._clock), OutputStore(api, field_manager=FIELD_MANAGER)
        )

    def _make_controllers(
        self, api: Api, sources: SourceRepositories
    ) -> tuple[Controller[Key], ...]:
        """One controller for each of our two kinds."""
        environment_reporter = self._reporter(
            api, environment_kind.KIND.gvr, self.cache.environments, status.complete_outcome
        )
        environments = EnvironmentReconciler(
            api,
            self.cache,
            self._services,
            self._metrics,
            self._clock,
            newest=environment_reporter.newest,
            settings=self._reconciler_settings(),
            on_correction=CorrectionEvents(self._recorder, self._metrics, self._clock).record,
        )
        projects = ProjectReconciler(
            api,
            self.cache,
            sources,
            self._calls["Project"],
            field_manager=FIELD_MANAGER,
            poll_seconds=self._settings.poll_seconds,
            suspended=self._settings.suspended,
        )
        return (
            self._controller("Environment", environments.reconcile, environment_reporter),
            self._controller(
                "Project",
                projects.reconcile,
                self._reporter(api, project_kind.KIND.gvr, self.cache.projects),
            ),
        )

    def _reconciler_settings(self) -> ReconcilerSettings:
        return ReconcilerSettings(
            network=self._settings.network,
            untrusted=self._settings.untrusted,
            poll_seconds=self._settings.poll_seconds,
            field_manager=FIELD_MANAGER,
            suspended=self._settings.suspended,
        )

    def _reporter(
        self, api: Api, gvr: GVR, informer: Informer, complete: Complete = _unchanged
    ) -> Reporter:
        return Reporter(
            api,
            gvr,
            informer.get,
            field_manager=STATUS_MANAGER,
            recorder=self._recorder,
            clock=self._clock,
            complete=complete,
        )

    def _controller(
        self, kind: str, reconcile: Reconcile[Key], reporter: Reporter
    ) -> Controller[Key]:
        return Controller(
            kind.lower(), self._queues[kind], reconcile, reporter=reporter, workers=_WORKERS
        )

    def _event_annotations(self, ref: ObjectRef) -> dict[str, str]:
        """The annotation with the current revision; none before the first revision."""
        namespace = next(iter(self.owned_cache.namespaces_of(ref.uid)), "")
        number = self._services.applier.release_state(namespace).revision.number if namespace else 0
        return {REVISION_ANNOTATION: str(number)} if number else {}

    # ---- running

    async def run(self) -> None:
        """Watch and reconcile until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._informers.start(group)
                await self._informers.wait_synced()
                await self.operator_policy.wait()
                if not self._settings.suspended:
                    group.create_task(self._orphan_cleanup.run(), name="sweep")
                for controller in self._controllers:
                    group.create_task(controller.run(), name=controller.name)
                _log.info("environments started", suspended=self._settings.suspended)
        finally:
            for calls in self._calls.values():
                await calls.close()
            await self._resolver.close()
