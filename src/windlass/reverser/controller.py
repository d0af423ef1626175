"""The reverser controller: mirrors Kubernetes objects of four custom resources into Git.

`app` builds one `Reverser` per process; the leader runs `Reverser.run`. Cancelling it stops the
watches first, then pushes what is pending. Everything is level-triggered: a change of one object
adds the keys of its dependents to their queues, and their reconciles read the current state.
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
from windlass.git.ls_remote import RefListings
from windlass.git.runner import Git
from windlass.git.settings import GitSettings
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
from windlass.runtime.queue import KeyedQueue
from windlass.runtime.reporter import Reporter

_log = structlog.get_logger(__name__)

_STATUS_MANAGER = "windlass-reverser-status"
_DRAIN_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class ReverserSettings:
    """What can be set about the reverser."""

    install: Installation
    instance: str
    work_directory: Path
    git: GitSettings
    follow: ReflectorSettings = field(default_factory=ReflectorSettings)
    limits: cadence.WindowLimits = field(default_factory=cadence.WindowLimits)
    discovery_refresh_seconds: float = 300.0
    excluded: frozenset[str] = frozenset()
    removal_grace_seconds: float = 60.0
    sensitive: frozenset[str] = frozenset()
    readable_annotations: tuple[str, ...] = ()
    watch_all: bool = False
    noise_filter: bool = True
    ingests: bool = True
    remote_check_seconds: float = 60.0
    pending_max_bytes: int = 512 << 20
    workers_at_once: int = 24
    workers_per_repository: int = 5
    cluster_uid: str = ""
    cluster_destination_namespaces: frozenset[str] = frozenset()
    attribution_ttl_seconds: float = 60.0
    attribution_max_entries: int = 10_000
    attribution_depth: int = 10


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """What must be known before anything can be decided."""

    cluster_uid: str
    mirror_salt: bytes

    @property
    def digest_key(self) -> bytes:
        return secret_redaction.derive_digest_key(self.mirror_salt)


async def load_cluster_identity(api: Api, settings: ReverserSettings) -> ClusterIdentity:
    """Look up who this cluster is, and with which salt it is mirrored."""
    uid = settings.cluster_uid
    if not uid:
        namespace = await api.get(GVR("", "v1", "namespaces"), "kube-system")
        uid = namespace["metadata"]["uid"]
    return ClusterIdentity(uid, await mirror_salt.ensure_salt(api, settings.install))


class Reverser:
    """All parts of the reverser, wired."""

    def __init__(
        self,
        connection: Connection,
        settings: ReverserSettings,
        ground: ClusterIdentity,
        *,
        clock: Clock,
        tally: MirrorMetrics,
        may_push: Callable[[], bool],
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._metrics = tally
        self._may_push = may_push
        self._tasks: set[asyncio.Task[None]] = set()
        api = Api(connection)
        self._queues: dict[str, KeyedQueue[Key]] = {
            kind.name: KeyedQueue() for kind in registry.REVERSER_KINDS
        }
        self.objects = ReverserCache(
            repositories=self._informer(registry.GIT_REPO_CONFIGS, self._repository_changed),
            destinations=self._informer(registry.GIT_DESTINATIONS, self._destination_changed),
            watch_rules=self._informer(registry.WATCH_RULES, self._queues["WatchRule"].add),
            cluster_watch_rules=self._informer(
                registry.CLUSTER_WATCH_RULES, self._queues["ClusterWatchRule"].add
            ),
        )
        self._types = tuple(
            self._informer(gvr, lambda _: self.catalog.refresh_soon(), keep_bytes=False)
            for gvr in (CUSTOM_RESOURCE_DEFINITIONS, API_SERVICES)
        )
        self.attributor = Attributor(
            AdmissionRecords(
                settings.attribution_ttl_seconds,
                settings.attribution_max_entries,
                settings.attribution_depth,
            ),
            tally,
            clock,
            coverage=WebhookCoverage(
                frozenset({*webhook.SYSTEM_NAMESPACES, settings.install.namespace})
            ),
            on_state_change=self._requeue_all_destinations,
            definition_deleted=self._is_definition_deleted,
        )
        self._recorder = EventRecorder(api, "windlass.dev/reverser", clock=clock)
        self._event_queue = EventQueue(self._recorder, self.objects.destinations.get)
        self._git = Git(settings.git, on_end=tally.count_git_operation)
        self._listings = RefListings(self._git, clock)
        self.catalog = CatalogRefresher(
            api,
            refresh_seconds=settings.discovery_refresh_seconds,
            on_change=self._catalog_changed,
            clock=clock,
        )
        self.mirror = Mirror(
            connection,
            object_reader=self._object_reader(ground),
            follow_settings=settings.follow,
            clock=clock,
            tally=tally,
            workers=lambda mirror: self._make_workers(mirror, ground),
            on_destination=self._destination_updated,
            on_rules=self._requeue_all_rules,
            on_write=self.attributor.record_write,
            tell=self._event_queue.add,
        )
        self.repositories = RepositoryReconciler(
            api,
            self.objects,
            self._git,
            self._listings,
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
            mirror_salt=ground.mirror_salt,
            tally=tally,
            attribution=lambda key: (self.attributor.state, self.attributor.is_settling(key)),
        )
        self._gauges = MirrorGauges(tally.metrics, self.mirror, self._queues, clock)
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
            settings=self._settings.follow,
            clock=self._clock,
        )

    def _object_reader(self, ground: ClusterIdentity) -> ObjectReader:
        install = self._settings.install
        own: noise.OwnObjects = frozenset(
            {
                ("Secret", install.namespace, install.salt_secret),
                ("Secret", install.namespace, install.webhook_secret),
                # Its path and caBundle are ours and change with no wish of anybody.
                ("ValidatingWebhookConfiguration", "", install.webhook_configuration),
                ("Lease", install.namespace, install.lease),
            }
        )
        return ObjectReader(
            digest_key=ground.digest_key,
            sensitive=self._settings.sensitive,
            own_objects=own,
            noise_filter=self._settings.noise_filter,
            readable_annotations=self._settings.readable_annotations,
        )

    def _make_workers(self, mirror: Mirror, ground: ClusterIdentity) -> WorkerPool:
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
            listings=self._listings,
            controller_identity=ControllerIdentity(
                cluster_uid=ground.cluster_uid,
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
            max_workers=settings.workers_at_once,
            max_workers_per_repository=settings.workers_per_repository,
            pending_max_bytes=settings.pending_max_bytes,
            spawn=self._spawn_worker,
        )

    def _make_controllers(self, api: Api) -> tuple[Controller[Key], ...]:
        passes = {
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
                passes[kind.name][1],
                reporter=Reporter(
                    api,
                    kind.gvr,
                    passes[kind.name][0].get,
                    field_manager=_STATUS_MANAGER,
                    recorder=self._recorder,
                    clock=self._clock,
                ),
                on_pass=self._metrics.observe_reconcile,
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

    # ---- who must look again when something changed

    def _repository_changed(self, key: Key) -> None:
        self._queues["GitRepoConfig"].add(key)
        self._requeue_destinations(key)

    def _requeue_destinations(self, key: Key) -> None:
        for destination in self.objects.destinations_for(key):
            self._queues["GitDestination"].add(destination)

    def _destination_changed(self, key: Key) -> None:
        self._queues["GitDestination"].add(key)
        found = self.objects.destination(key)
        if found is not None and found.spec.create_branch:
            ref = found.spec.repo_ref
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
            # Its GitRepoConfig would call the repository empty until the next check.
            target = delivery.written.folder.target
            self._listings.forget(target.remote)
            self._queues["GitRepoConfig"].add(target.repository)

    def _is_definition_deleted(self, gvr: GVR) -> bool:
        return self._types[0].is_leaving(Key("", f"{gvr.resource}.{gvr.group}"))

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
        assert self.catalog.current is not None, "a change brought a catalogue"
        self.mirror.set_catalog(self.catalog.current)
        self._requeue_all_rules()

    def _spawn_worker(self, worker: BranchWorker, name: str) -> asyncio.Task[None]:
        # A worker serves many destinations; it must not log under the pass that hired it.
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
        """Mirror until cancelled, then write what waits and stop."""
        try:
            async with asyncio.TaskGroup() as group:
                for informer in (*self.objects.informers(), *self._types):
                    group.create_task(informer.run(), name=f"informer {informer.scope}")
                group.create_task(self.catalog.run(), name="catalogue")
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
            _log.warning("not everything was pushed before the end; the next start derives it")
        await self._listings.close()
