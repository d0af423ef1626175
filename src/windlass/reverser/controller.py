"""The reverser controller: mirrors Kubernetes objects of four custom resources into Git.

`app` builds one `Reverser` per process; the leader runs `Reverser.run`. Cancelling it stops the
watches first, then pushes what is pending. Everything is level-triggered: a change of one object
adds the keys of its dependents to their queues, and their reconciles read the current state:

| Changed | Reconciled again |
|---|---|
| GitRepoConfig, or what is known of its remote | its GitDestinations |
| GitDestination | itself, its rules; its GitRepoConfig if the branch is to be created |
| mirror progress of a GitDestination | itself, its folder review |
| served types, or the route plan | all rules |
| admission webhook health | all GitDestinations |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from windlass.api.install import webhook
from windlass.api.install.installation import Installation
from windlass.api.kinds import registry
from windlass.base.clock import Clock
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.reflector import Scope
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import GVR, Key
from windlass.reverser import mirror_salt
from windlass.reverser.attribution.attributor import Attributor
from windlass.reverser.attribution.records import AdmissionRecords
from windlass.reverser.attribution.webhook_coverage import WebhookCoverage
from windlass.reverser.content import noise, secret_redaction
from windlass.reverser.content.clean_object import ObjectReader
from windlass.reverser.destination import DestinationReconciler
from windlass.reverser.event_queue import EventQueue
from windlass.reverser.folder_reviews import FolderReviews
from windlass.reverser.gauges import MirrorGauges
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.object_cache import ReverserCache
from windlass.reverser.publish import cadence
from windlass.reverser.publish.branch_worker import BranchWorker
from windlass.reverser.publish.publisher import ControllerIdentity, Delivery
from windlass.reverser.publish.worker_hooks import WorkerHooks
from windlass.reverser.publish.worker_pool import WorkerPool
from windlass.reverser.repository import RepositoryReconciler
from windlass.reverser.rule import RuleReconciler
from windlass.reverser.selection.rules import RuleKind
from windlass.reverser.watch.catalog_refresher import (
    API_SERVICES,
    CUSTOM_RESOURCE_DEFINITIONS,
    CatalogRefresher,
)
from windlass.reverser.watch.mirror import Mirror
from windlass.runtime.controller import Controller
from windlass.runtime.events import EventRecorder
from windlass.runtime.informer import Informer
from windlass.runtime.pending_calls import PendingCalls
from windlass.runtime.queue import KeyedQueue
from windlass.runtime.reporter import Reporter
from windlass.sources.git_service import GitService

_log = structlog.get_logger(__name__)

_STATUS_MANAGER = "windlass-reverser-status"
_DRAIN_SECONDS = 20.0
"""How long a shutdown may push pending changes."""


@dataclass(frozen=True, slots=True)
class ReverserSettings:
    """The reverser's slice of the process settings; `app` fills it from flags."""

    # Release and namespace, from which the names of windlass's own objects follow.
    install: Installation
    # Identity of this process, as in the lease and in commit trailers.
    instance: str
    # Where the bare stores of the branches are; may be empty at the start.
    work_directory: Path
    # Of every watch: page size and idle timeout.
    reflector: ReflectorSettings = field(default_factory=ReflectorSettings)
    # When a window of changes closes, and how large a commit gets.
    limits: cadence.WindowLimits = field(default_factory=cadence.WindowLimits)
    # Interval of API discovery; changes of CRDs and APIServices trigger it earlier.
    discovery_refresh_seconds: float = 300.0
    # `[group/]resource` of types that no rule selects.
    excluded: frozenset[str] = frozenset()
    # Age up to which a GitDestination may lack its rules without losing files.
    removal_grace_seconds: float = 60.0
    # `[group/]resource` of types that are redacted like Secrets.
    sensitive: frozenset[str] = frozenset()
    # Annotation prefixes that stay readable on redacted objects, beside the built-in ones.
    readable_annotations: tuple[str, ...] = ()
    # Whether a rule item without `resources` selects every type instead of the preset.
    watch_all: bool = False
    # Whether objects that controllers create on their own are left out.
    noise_filter: bool = True
    # False: rules are checked and reported, but select nothing, so nothing is watched.
    ingests: bool = True
    # Interval at which remotes are listed; 0 = on change and on request only.
    remote_check_seconds: float = 60.0
    # Bytes not yet pushed that one branch may hold; above it, folders whose pushes fail drop the
    # content and read the objects again later.
    pending_max_bytes: int = 512 << 20
    # Branch workers of one remote repository that may write at the same time.
    workers_per_repository: int = 5
    # Stable identity of the cluster in claims and trailers; empty = uid of kube-system.
    cluster_uid: str = ""
    # Beside the install namespace: where a ClusterWatchRule may have its destination.
    cluster_destination_namespaces: frozenset[str] = frozenset()
    # How long an admission record can explain a change.
    attribution_ttl_seconds: float = 60.0
    # Object versions (uid and resourceVersion) for which admission records are kept.
    attribution_max_entries: int = 10_000
    # Admission records kept per object version.
    attribution_depth: int = 10


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """Identity and salt of the cluster, loaded before anything is mirrored."""

    cluster_uid: str
    mirror_salt: bytes

    @property
    def digest_key(self) -> bytes:
        """The key under which digests of sensitive objects are kept in memory."""
        return secret_redaction.derive_digest_key(self.mirror_salt)


async def load_cluster_identity(api: Api, settings: ReverserSettings) -> ClusterIdentity:
    """Read the uid of the cluster and the salt of its mirror, which is created if missing."""
    uid = settings.cluster_uid
    if not uid:
        namespace = await api.get(GVR("", "v1", "namespaces"), "kube-system")
        uid = namespace["metadata"]["uid"]
    return ClusterIdentity(uid, await mirror_salt.ensure_salt(api, settings.install))


class Reverser:
    """Wires the parts of the reverser, requeues what depends on a change, and runs them all."""

    def __init__(
        self,
        connection: Connection,
        settings: ReverserSettings,
        git: GitService,
        identity: ClusterIdentity,
        *,
        clock: Clock,
        metrics: MirrorMetrics,
        may_push: Callable[[], bool],
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._git = git
        self._clock = clock
        self._metrics = metrics
        self._may_push = may_push
        # Branch workers that run; kept here because asyncio holds tasks only weakly.
        self._tasks: set[asyncio.Task[None]] = set()
        api = Api(connection)
        # One work queue per custom resource kind.
        self._queues: dict[str, KeyedQueue[Key]] = {
            kind.name: KeyedQueue() for kind in registry.REVERSER_KINDS
        }
        # Listings of remotes, which no worker waits for.
        self._calls = PendingCalls(self._queues["GitRepoConfig"].add)
        self.objects = ReverserCache(
            repositories=self._informer(registry.GIT_REPO_CONFIGS, self._repository_changed),
            destinations=self._informer(registry.GIT_DESTINATIONS, self._destination_changed),
            watch_rules=self._informer(registry.WATCH_RULES, self._queues["WatchRule"].add),
            cluster_watch_rules=self._informer(
                registry.CLUSTER_WATCH_RULES, self._queues["ClusterWatchRule"].add
            ),
        )
        # In this order: `_is_definition_deleted` reads the first.
        self._type_informers = tuple(
            self._informer(gvr, lambda _: self.catalog.refresh_soon(), keep_bytes=False)
            for gvr in (CUSTOM_RESOURCE_DEFINITIONS, API_SERVICES)
        )
        self.attributor = Attributor(
            AdmissionRecords(
                settings.attribution_ttl_seconds,
                settings.attribution_max_entries,
                settings.attribution_depth,
            ),
            metrics,
            clock,
            coverage=WebhookCoverage(
                frozenset({*webhook.SYSTEM_NAMESPACES, settings.install.namespace})
            ),
            on_state_change=self._requeue_all_destinations,
            definition_deleted=self._is_definition_deleted,
        )
        self._recorder = EventRecorder(api, "windlass.dev/reverser", clock=clock)
        self._event_queue = EventQueue(self._recorder, self.objects.destinations.get)
        self.catalog = CatalogRefresher(
            api,
            refresh_seconds=settings.discovery_refresh_seconds,
            on_change=self._catalog_changed,
            clock=clock,
        )
        self.mirror = Mirror(
            connection,
            object_reader=self._object_reader(identity),
            reflector_settings=settings.reflector,
            clock=clock,
            metrics=metrics,
            workers=lambda mirror: self._make_workers(mirror, identity),
            on_destination=self._destination_updated,
            on_rules=self._requeue_all_rules,
            on_write=self.attributor.record_write,
            record_event=self._event_queue.add,
        )
        self.repositories = RepositoryReconciler(
            api,
            self.objects,
            git,
            self._calls,
            clock,
            check_seconds=settings.remote_check_seconds,
            on_change=self._requeue_destinations,
        )
        self.destinations = DestinationReconciler(
            self.objects,
            self.repositories,
            self.mirror,
            self._queues["GitDestination"],
            clock,
            mirror_salt=identity.mirror_salt,
            metrics=metrics,
            attribution=lambda key: (self.attributor.state, self.attributor.is_settling(key)),
        )
        self._gauges = MirrorGauges(metrics.metrics, self.mirror, self._queues, clock)
        self._controllers = self._make_controllers(api)

    # ---- wiring

    def _informer(
        self, gvr: GVR, on_change: Callable[[Key], None], *, keep_bytes: bool = True
    ) -> Informer:
        return Informer(
            self._connection,
            Scope(gvr),
            on_change=on_change,
            keep="bytes" if keep_bytes else "digest",
            settings=self._settings.reflector,
            clock=self._clock,
        )

    def _object_reader(self, identity: ClusterIdentity) -> ObjectReader:
        install = self._settings.install
        own: noise.OwnObjects = frozenset(
            {
                ("Secret", install.namespace, install.salt_secret),
                ("Secret", install.namespace, install.webhook_secret),
                # windlass writes its path and caBundle; they are not desired state of a user.
                ("ValidatingWebhookConfiguration", "", install.webhook_configuration),
                ("Lease", install.namespace, install.lease),
            }
        )
        return ObjectReader(
            digest_key=identity.digest_key,
            sensitive=self._settings.sensitive,
            own_objects=own,
            noise_filter=self._settings.noise_filter,
            readable_annotations=self._settings.readable_annotations,
        )

    def _make_workers(self, mirror: Mirror, identity: ClusterIdentity) -> WorkerPool:
        settings = self._settings
        self._folder_reviews = FolderReviews(
            Api(self._connection),
            self.objects,
            mirror,
            lambda: self.catalog.current,
            self._clock,
            watch_all=settings.watch_all,
            excluded=settings.excluded,
            grace_seconds=settings.removal_grace_seconds,
        )
        return WorkerPool(
            work_directory=settings.work_directory,
            git=self._git,
            controller_identity=ControllerIdentity(
                cluster_uid=identity.cluster_uid,
                controller_namespace=settings.install.namespace,
                controller_name=settings.install.release,
                instance_id=settings.instance,
            ),
            judge=self.attributor.judge,
            limits=settings.limits,
            hooks=WorkerHooks(
                may_push=self._may_push,
                is_seeding=mirror.is_seeding,
                is_deleted=mirror.is_deleted,
                current_coverage=self._folder_reviews.current_coverage,
                reread_object=mirror.reread,
                destinations=lambda: frozenset(map(str, self.objects.destinations.keys())),
                destination_changed=mirror.destination_changed,
                resnapshot=mirror.resnapshot,
                push_acknowledged=self._push_acknowledged,
                count_verdict=self._metrics.count_verdict,
                count_skip=mirror.count_skip,
                count_race=self._metrics.count_race,
                observe_push=self._metrics.observe_push,
                record_event=self._event_queue.add,
            ),
            clock=self._clock,
            max_workers_per_repository=settings.workers_per_repository,
            pending_max_bytes=settings.pending_max_bytes,
            spawn=self._spawn_worker,
        )

    def _make_controllers(self, api: Api) -> tuple[Controller[Key], ...]:
        reconcilers = {
            "GitRepoConfig": (self.objects.repositories, self.repositories.reconcile),
            "GitDestination": (self.objects.destinations, self.destinations.reconcile),
            "WatchRule": (self.objects.watch_rules, self._rule_reconciler("WatchRule").reconcile),
            "ClusterWatchRule": (
                self.objects.cluster_watch_rules,
                self._rule_reconciler("ClusterWatchRule").reconcile,
            ),
        }
        return tuple(
            Controller(
                kind.name.lower(),
                self._queues[kind.name],
                reconcilers[kind.name][1],
                reporter=Reporter(
                    api,
                    kind.gvr,
                    reconcilers[kind.name][0].get,
                    field_manager=_STATUS_MANAGER,
                    recorder=self._recorder,
                    clock=self._clock,
                ),
                on_result=self._metrics.observe_reconcile,
            )
            for kind in registry.REVERSER_KINDS
        )

    def _rule_reconciler(self, kind: RuleKind) -> RuleReconciler:
        settings = self._settings
        return RuleReconciler(
            kind,
            self.objects,
            self.destinations,
            self.mirror,
            lambda: self.catalog.current,
            watch_all=settings.watch_all,
            excluded=settings.excluded,
            install_namespace=settings.install.namespace,
            cluster_namespaces=settings.cluster_destination_namespaces,
            ingests=settings.ingests,
            reviews=self._folder_reviews,
        )

    # ---- what is reconciled again after a change

    def _repository_changed(self, key: Key) -> None:
        self._queues["GitRepoConfig"].add(key)
        self._requeue_destinations(key)

    def _requeue_destinations(self, key: Key) -> None:
        for destination in self.objects.destinations_for(key):
            self._queues["GitDestination"].add(destination)

    def _destination_changed(self, key: Key) -> None:
        self._queues["GitDestination"].add(key)
        destination = self.objects.destination(key)
        if destination is not None and destination.spec.create_branch:
            # A missing branch is no error of the repository if a destination creates it.
            ref = destination.spec.repo_ref
            self._queues["GitRepoConfig"].add(Key(ref.namespace_from(key.namespace), ref.name))
        self._requeue_rules_of(key)

    def _destination_updated(self, key: Key) -> None:
        self.destinations.mirror_progressed(key)
        self._folder_reviews.folder_changed(key)

    def _requeue_all_destinations(self) -> None:
        for key in tuple(self.objects.destinations.keys()):
            self.destinations.mirror_progressed(key)

    def _push_acknowledged(self, delivery: Delivery) -> None:
        self._metrics.log_push(delivery)
        if delivery.creates_branch:
            # Otherwise the GitRepoConfig would report the branch as missing until the next check.
            target = delivery.written.folder.target
            self._git.listings.forget(target.remote)
            self._queues["GitRepoConfig"].add(target.repository)

    def _is_definition_deleted(self, gvr: GVR) -> bool:
        return self._type_informers[0].is_terminating(Key("", f"{gvr.resource}.{gvr.group}"))

    def _requeue_rules_of(self, destination: Key) -> None:
        for kind, rule in self.objects.rules_for(destination):
            self._queues[kind].add(rule)

    def _requeue_all_rules(self) -> None:
        for kind, informer in (
            ("WatchRule", self.objects.watch_rules),
            ("ClusterWatchRule", self.objects.cluster_watch_rules),
        ):
            for key in tuple(informer.keys()):
                self._queues[kind].add(key)

    def _catalog_changed(self) -> None:
        assert self.catalog.current is not None, (
            "CatalogRefresher sets it before it calls on_change"
        )
        self.mirror.set_catalog(self.catalog.current)
        self._requeue_all_rules()

    def _spawn_worker(self, worker: BranchWorker, name: str) -> asyncio.Task[None]:
        # A worker serves many destinations: it must not log with the context of one reconcile.
        task = asyncio.create_task(worker.run(), name=name, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._worker_ended)
        return task

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("worker crashed", worker=task.get_name(), exc_info=task.exception())

    # ---- running

    async def run(self) -> None:
        """Mirror until cancelled, then push pending changes and stop."""
        try:
            async with asyncio.TaskGroup() as group:
                for informer in (*self.objects.informers(), *self._type_informers):
                    group.create_task(informer.run(), name=f"informer {informer.scope}")
                group.create_task(self.catalog.run(), name="catalogue")
                # Reconciling from a partial cache would treat objects as deleted.
                for informer in self.objects.informers():
                    await informer.synced.wait()
                group.create_task(self.mirror.run(), name="mirror")
                group.create_task(self._folder_reviews.run(), name="reviews")
                group.create_task(self._gauges.run(), name="gauges")
                group.create_task(self._event_queue.run(), name="announcer")
                for controller in self._controllers:
                    group.create_task(controller.run(), name=controller.name)
                _log.info("reverser started", instance=self._settings.instance)
        finally:
            await self._drain()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self.mirror.workers.drain()
        except TimeoutError:
            _log.warning("shutdown timed out with unpushed changes; the next start finds them")
        await self._calls.close()
