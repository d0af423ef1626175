"""The reverser controller: mirrors Kubernetes objects into Git. The story file of the capability.

How one change of one object becomes a commit, in the order in which it happens:

| Step | What happens | Where |
|---|---|---|
| 1 | a watch line of the object's scope arrives | `watch/stream.py` `Stream.run` |
| 2 | it is decoded, sanitized, classified and hashed; an equal digest ends here | \
`content/clean_object.py` `ObjectReader.read`, `watch/tracker.py` |
| 3 | its routes are looked up, each with the open folder and its worker | \
`selection/routes.py` `RoutePlan`, `publish/worker_pool.py` `open_folder` |
| 4 | the bytes of its file are made, redacted for each destination | \
`content/clean_object.py` `file_content` |
| 5 | a `FileUpdate` is queued in the window of the folder, unless Git will have it anyway | \
`publish/folder.py` `Folder.add_update` |
| 6 | meanwhile the admission request of the change is recorded | `attribution/attributor.py` |
| 7 | the window closes; snapshots in it prove removals, foreign paths are refused | \
`publish/branch_worker.py` `_publish`, `publish/batch_builder.py` |
| 8 | records are joined with the changes: who did it | `attribution/record_join.py` |
| 9 | commits are planned: as few as keep the order of every object | `publish/commit_plan.py` |
| 10 | trees and commits are built on the tip that the server has | `publish/publisher.py` |
| 11 | they are pushed, compare-and-swap | `publish/pusher.py` `push` |
| 12 | the server acknowledged: index and tip move, status, metrics and audit log follow | \
`publish/pusher.py` `acknowledge` |

Which scopes are watched and which folders are open follows from four custom resources: the
reconcilers in `repository`, `destination` and `rule` check them, `watch/mirror.py` starts streams
and workers. `wiring.py` builds the parts. Everything is level-triggered: a change of one object
adds the keys of its dependents to their queues, and their reconciles read the current state:

| Changed | Reconciled again |
|---|---|
| GitRepoConfig, or what is known of its remote | its GitDestinations |
| GitDestination | itself, its rules; its GitRepoConfig if the branch is to be created |
| mirror progress of a GitDestination | itself, its folder review |
| served types | all rules, all folder reviews |
| the route plan | all rules |
| admission webhook health | all GitDestinations |

`app` builds one `Reverser` per process; the leader runs `Reverser.run`. Cancelling it stops the
watches first, then pushes what is pending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from windlass.api.kinds import registry
from windlass.base.clock import Clock
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.reflector import Scope
from windlass.objects.names import GVR, Key
from windlass.objects.resources import API_SERVICES, CUSTOM_RESOURCE_DEFINITIONS
from windlass.reverser import destination_status, wiring
from windlass.reverser.destination import DestinationReconciler
from windlass.reverser.event_queue import EventQueue
from windlass.reverser.folder_reviews import FolderReviews
from windlass.reverser.gauges import MirrorGauges
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.object_cache import ReverserCache
from windlass.reverser.publish.publisher import Delivery
from windlass.reverser.publish.worker_hooks import WorkerHooks
from windlass.reverser.repository import RepositoryReconciler
from windlass.reverser.rule import RuleReconciler
from windlass.reverser.selection.rules import RuleKind
from windlass.reverser.settings import ClusterIdentity, ReverserSettings
from windlass.reverser.watch.catalog_refresher import CatalogRefresher
from windlass.reverser.watch.mirror import Mirror
from windlass.reverser.watch.stream_registry import StreamRegistry
from windlass.runtime.controller import Controller, Reconcile
from windlass.runtime.events import EventRecorder
from windlass.runtime.informer import Informer
from windlass.runtime.informer_registry import InformerRegistry
from windlass.runtime.pending_calls import PendingCalls
from windlass.runtime.queue import KeyedQueue
from windlass.runtime.reporter import Reporter
from windlass.sources.git_service import GitService

_log = structlog.get_logger(__name__)

_STATUS_MANAGER = "windlass-reverser-status"
_DRAIN_SECONDS = 20.0
"""How long a shutdown may push pending changes."""


class Reverser:
    """The parts of the reverser, what is requeued after a change, and the order of the run."""

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
        self._settings = settings
        self._clock = clock
        self._git = git
        self._metrics = metrics
        api = Api(connection)
        # One work queue per custom resource kind.
        self._queues: dict[str, KeyedQueue[Key]] = {
            kind.name: KeyedQueue() for kind in registry.REVERSER_KINDS
        }
        # Listings of remotes, which no worker waits for.
        self._calls = PendingCalls(self._queues["GitRepoConfig"].add)

        self._informers = InformerRegistry(connection, settings.reflector, clock)
        add = self._informers.add
        self.objects = ReverserCache(
            repositories=add(Scope(registry.GIT_REPO_CONFIGS), self._repository_changed),
            destinations=add(Scope(registry.GIT_DESTINATIONS), self._destination_changed),
            watch_rules=add(Scope(registry.WATCH_RULES), self._queues["WatchRule"].add),
            cluster_watch_rules=add(
                Scope(registry.CLUSTER_WATCH_RULES), self._queues["ClusterWatchRule"].add
            ),
        )
        self._definitions, self._api_services = (
            add(Scope(gvr), self._type_changed, keep="digest")
            for gvr in (CUSTOM_RESOURCE_DEFINITIONS, API_SERVICES)
        )
        recorder = EventRecorder(api, "windlass.dev/reverser", clock=clock)
        self._reporters = self._make_reporters(api, recorder, clock)
        self._event_queue = EventQueue(recorder, self.objects.destinations.get)
        self.catalog = CatalogRefresher(
            api,
            refresh_seconds=settings.discovery_refresh_seconds,
            on_change=self._catalog_changed,
            clock=clock,
        )
        self.attributor = wiring.make_attributor(
            settings,
            metrics,
            clock,
            on_state_change=self._requeue_all_destinations,
            definition_deleted=self._is_definition_deleted,
        )
        self._streams = StreamRegistry()
        self._folder_reviews = FolderReviews(
            api,
            self.objects,
            self._streams,
            lambda: self.catalog.current,
            clock,
            watch_all=settings.watch_all,
            excluded=settings.excluded,
            grace_seconds=settings.removal_grace_seconds,
        )
        self.workers = wiring.make_worker_pool(
            settings,
            identity,
            git,
            clock,
            judge=self.attributor.judge,
            hooks=WorkerHooks(
                api=api,
                metrics=metrics,
                event_queue=self._event_queue,
                may_push=may_push,
                destinations=lambda: frozenset(map(str, self.objects.destinations.keys())),
                await_records=self.attributor.await_records,
                is_seeding=self._streams.is_seeding,
                current_coverage=self._folder_reviews.current_coverage,
                folder_changed=self._folder_changed,
                resnapshot=self._streams.resnapshot,
                push_acknowledged=self._push_acknowledged,
            ),
        )
        self.mirror = Mirror(
            connection,
            self._streams,
            self.workers,
            object_reader=wiring.make_object_reader(settings, identity),
            reflector_settings=settings.reflector,
            clock=clock,
            attributor=self.attributor,
            metrics=metrics,
            event_queue=self._event_queue,
            on_destination=self._mirror_progressed,
            on_rules=self._requeue_all_rules,
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
            self._streams,
            self._queues["GitDestination"],
            clock,
            mirror_salt=identity.mirror_salt,
            metrics=metrics,
            newest=self._reporters["GitDestination"].newest,
            attribution=lambda key: (self.attributor.state, self.attributor.is_settling(key)),
        )
        self._gauges = MirrorGauges(
            metrics.metrics, self._streams, self.workers, self._queues, clock
        )
        self._controllers = self._make_controllers(api)

    def _make_reporters(
        self, api: Api, recorder: EventRecorder, clock: Clock
    ) -> dict[str, Reporter]:
        informers: dict[str, Informer] = {
            "GitRepoConfig": self.objects.repositories,
            "GitDestination": self.objects.destinations,
            **dict(self.objects.rules.items()),
        }
        return {
            kind.name: Reporter(
                api,
                kind.gvr,
                informers[kind.name].get,
                field_manager=_STATUS_MANAGER,
                recorder=recorder,
                clock=clock,
                complete=destination_status.complete_outcome,
            )
            for kind in registry.REVERSER_KINDS
        }

    def _make_controllers(self, api: Api) -> tuple[Controller[Key], ...]:
        reconcilers: dict[str, Reconcile[Key]] = {
            "GitRepoConfig": self.repositories.reconcile,
            "GitDestination": self.destinations.reconcile,
            **{kind: self._rule_reconciler(kind, api).reconcile for kind in self.objects.rules},
        }
        return tuple(
            Controller(
                kind.name.lower(),
                self._queues[kind.name],
                reconcilers[kind.name],
                reporter=self._reporters[kind.name],
                on_result=self._metrics.observe_reconcile,
            )
            for kind in registry.REVERSER_KINDS
        )

    def _rule_reconciler(self, kind: RuleKind, api: Api) -> RuleReconciler:
        settings = self._settings
        return RuleReconciler(
            kind,
            self.objects,
            self.destinations,
            self.mirror,
            self._streams,
            api,
            lambda: self.catalog.current,
            self._clock,
            watch_all=settings.watch_all,
            excluded=settings.excluded,
            install_namespace=settings.install.namespace,
            cluster_namespaces=settings.cluster_destination_namespaces,
            ingests=settings.ingests,
            reviews=self._folder_reviews,
        )

    # ---- running

    async def run(self) -> None:
        """Mirror until cancelled, then push pending changes and stop."""
        try:
            async with asyncio.TaskGroup() as group:
                self._informers.start(group)
                group.create_task(self.catalog.run(), name="catalog")
                # Reconciling from a partial cache would treat objects as deleted.
                await self._informers.wait_synced(*self.objects.informers())
                self.attributor.limit_settling()
                group.create_task(self.mirror.run(), name="mirror")
                group.create_task(self._folder_reviews.run(self.workers), name="reviews")
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
                await self.workers.drain()
        except TimeoutError:
            _log.warning("shutdown timed out with unpushed changes; the next start finds them")
        await self._calls.close()

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

    def _folder_changed(self, key: Key) -> None:
        """A branch worker opened, closed or wrote a folder, or has the first update for it."""
        self.mirror.folder_changed(key)
        self._mirror_progressed(key)

    def _mirror_progressed(self, key: Key) -> None:
        self.destinations.mirror_progressed(key)
        if opened := self.workers.open_folder(key):
            self._folder_reviews.folder_changed(opened[1])

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
        return self._definitions.is_terminating(Key("", f"{gvr.resource}.{gvr.group}"))

    def _requeue_rules_of(self, destination: Key) -> None:
        for kind, rule in self.objects.rules_for(destination):
            self._queues[kind].add(rule)

    def _requeue_all_rules(self) -> None:
        for kind, informer in self.objects.rules.items():
            for key in informer.keys():  # noqa: SIM118 - it is no mapping
                self._queues[kind].add(key)

    def _type_changed(self, key: Key) -> None:
        del key
        self.catalog.refresh_soon()

    def _catalog_changed(self) -> None:
        assert self.catalog.current is not None, (
            "CatalogRefresher sets it before it calls on_change"
        )
        self.mirror.set_catalog(self.catalog.current)
        self._folder_reviews.catalog_changed()
        self._requeue_all_rules()
