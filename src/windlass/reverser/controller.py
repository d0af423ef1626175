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
        self._tally = tally
        self._may_push = may_push
        self._tasks: set[asyncio.Task[None]] = set()
        api = Api(connection)
        self._queues: dict[str, KeyedQueue[Key]] = {
            kind.name: KeyedQueue() for kind in registry.REVERSER_KINDS
        }
        self.cache = ReverserCache(
            repositories=self._informer(registry.GIT_REPO_CONFIGS, self._repository_changed),
            destinations=self._informer(registry.GIT_DESTINATIONS, self._destination_changed),
            watch_rules=self._informer(registry.WATCH_RULES, self._queues["WatchRule"].add),
            cluster_watch_rules=self._informer(
                registry.CLUSTER_WATCH_RULES, self._queues["ClusterWatchRule"].add
            ),
        )
        self._types = tuple(
            self._informer(gvr, lambda _: self.catalogue.poke(), keep_bytes=False)
            for gvr in (CUSTOM_RESOURCE_DEFINITIONS, API_SERVICES)
        )
        self.witnesses = Attributor(
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
            on_hearing=self._every_destination,
            definition_deleted=self._definition_deleted,
        )
        self._recorder = EventRecorder(api, "windlass.dev/reverser", clock=clock)
        self._announcer = EventQueue(self._recorder, self.cache.destinations.get)
        self._git = Git(settings.git, on_end=tally.git_ended)
        self._listings = RefListings(self._git, clock)
        self.catalogue = CatalogRefresher(
            api,
            refresh_seconds=settings.discovery_refresh_seconds,
            on_change=self._catalogue_changed,
            clock=clock,
        )
        self.mirror = Mirror(
            connection,
            lens=self._lens(ground),
            follow_settings=settings.follow,
            clock=clock,
            tally=tally,
            workers=lambda mirror: self._workers(mirror, ground),
            on_destination=self._news,
            on_rules=self._rules_again,
            on_write=self.witnesses.wrote,
            tell=self._announcer.tell,
        )
        self.repositories = RepositoryReconciler(
            api,
            self.cache,
            self._git,
            self._listings,
            clock,
            check_seconds=settings.remote_check_seconds,
            on_change=self._repository_known,
        )
        self.destinations = DestinationReconciler(
            self.cache,
            self.repositories,
            self.mirror,
            self._queues["GitDestination"],
            clock,
            mirror_salt=ground.mirror_salt,
            tally=tally,
            attribution=lambda key: (self.witnesses.standing, self.witnesses.is_settling(key)),
        )
        self._gauges = MirrorGauges(tally.metrics, self.mirror, self._queues, clock)
        self._controllers = self._wire(api)

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

    def _lens(self, ground: ClusterIdentity) -> ObjectReader:
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
            own=own,
            noise_filter=self._settings.noise_filter,
            readable=self._settings.readable_annotations,
        )

    def _workers(self, mirror: Mirror, ground: ClusterIdentity) -> WorkerPool:
        settings = self._settings
        self._reviews = FolderReviews(
            Api(self._connection),
            self.cache,
            mirror,
            lambda: self.catalogue.current,
            self._clock,
            watch_all=settings.watch_all,
            excluded=settings.excluded,
            grace_seconds=settings.removal_grace_seconds,
        )
        return WorkerPool(
            work_directory=settings.work_directory,
            git=self._git,
            listings=self._listings,
            signature=ControllerIdentity(
                cluster_uid=ground.cluster_uid,
                controller_namespace=settings.install.namespace,
                controller_name=settings.install.release,
                instance_id=settings.instance,
            ),
            judge=self.witnesses.judge,
            limits=settings.limits,
            around=WorkerHooks(
                may_push=self._may_push,
                seeding=mirror.seeding,
                gone=mirror.gone,
                selected=self._reviews.selected,
                reread=mirror.reread,
                destinations=lambda: frozenset(map(str, self.cache.destinations.keys())),
                changed=mirror.destination_changed,
                seen_again=mirror.see_again,
                pushed=self._pushed,
                judged=self._tally.judged,
                skipped=mirror.skipped,
                raced=self._tally.raced,
                took=self._tally.took,
                told=self._announcer.tell,
            ),
            clock=self._clock,
            at_once=settings.workers_at_once,
            per_repository=settings.workers_per_repository,
            pending_max_bytes=settings.pending_max_bytes,
            spawn=self._spawn_worker,
        )

    def _wire(self, api: Api) -> tuple[Controller[Key], ...]:
        passes = {
            "GitRepoConfig": (self.cache.repositories, self.repositories.reconcile),
            "GitDestination": (self.cache.destinations, self.destinations.reconcile),
            "WatchRule": (self.cache.watch_rules, self._rules("WatchRule").reconcile),
            "ClusterWatchRule": (
                self.cache.cluster_watch_rules,
                self._rules("ClusterWatchRule").reconcile,
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
                on_pass=self._tally.passed,
            )
            for kind in registry.REVERSER_KINDS
        )

    def _rules(self, kind: RuleKind) -> RuleReconciler:
        settings = self._settings
        return RuleReconciler(
            kind,
            self.cache,
            self.destinations,
            self.mirror,
            lambda: self.catalogue.current,
            watch_all=settings.watch_all,
            excluded=settings.excluded,
            install_namespace=settings.install.namespace,
            cluster_namespaces=settings.cluster_destination_namespaces,
            ingests=settings.ingests,
            reviews=self._reviews,
        )

    # ---- who must look again when something changed

    def _repository_changed(self, key: Key) -> None:
        self._queues["GitRepoConfig"].add(key)
        self._repository_known(key)

    def _repository_known(self, key: Key) -> None:
        for destination in self.cache.destinations_of(key):
            self._queues["GitDestination"].add(destination)

    def _destination_changed(self, key: Key) -> None:
        self._queues["GitDestination"].add(key)
        found = self.cache.destination(key)
        if found is not None and found.spec.create_branch:
            ref = found.spec.repo_ref
            self._queues["GitRepoConfig"].add(Key(ref.namespace_from(key.namespace), ref.name))
        self._rules_of(key)

    def _news(self, key: Key) -> None:
        self.destinations.news(key)
        self._reviews.news(key)

    def _every_destination(self) -> None:
        for key in tuple(self.cache.destinations.keys()):
            self.destinations.news(key)

    def _pushed(self, delivery: Delivery) -> None:
        self._tally.pushed(delivery)
        if delivery.creates:
            # Its GitRepoConfig would call the repository empty until the next check.
            target = delivery.written.folder.target
            self._listings.forget(target.remote)
            self._queues["GitRepoConfig"].add(target.repository)

    def _definition_deleted(self, gvr: GVR) -> bool:
        return self._types[0].is_leaving(Key("", f"{gvr.resource}.{gvr.group}"))

    def _rules_of(self, destination: Key) -> None:
        for kind, rule in self.cache.rules_of(destination):
            self._queues[kind].add(rule)

    def _rules_again(self) -> None:
        for kind, informer in (
            ("WatchRule", self.cache.watch_rules),
            ("ClusterWatchRule", self.cache.cluster_watch_rules),
        ):
            for key in tuple(informer.keys()):
                self._queues[kind].add(key)

    def _catalogue_changed(self) -> None:
        assert self.catalogue.current is not None, "a change brought a catalogue"
        self.mirror.know(self.catalogue.current)
        self._rules_again()

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
                for informer in (*self.cache.informers(), *self._types):
                    group.create_task(informer.run(), name=f"informer {informer.scope}")
                group.create_task(self.catalogue.run(), name="catalogue")
                for informer in self.cache.informers():
                    await informer.synced.wait()
                group.create_task(self.mirror.run(), name="mirror")
                group.create_task(self._reviews.run(), name="reviews")
                group.create_task(self._gauges.keep(), name="gauges")
                group.create_task(self._announcer.run(), name="announcer")
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
