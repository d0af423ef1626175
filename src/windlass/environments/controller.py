"""The environments capability as one thing to run: two kinds in, running copies out.

`EnvironmentsController.run` is what the leader runs. Everything is level-triggered: a
change of an object adds the key of the Environment or Project it concerns, and the pass
looks at what is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from windlass.api import environment as environment_kind
from windlass.api import project as project_kind
from windlass.base.clock import Clock
from windlass.environments import applying, fencing, rollout, spaces
from windlass.environments.cache import Cache
from windlass.environments.decide.fences import Surroundings
from windlass.environments.decide.names import Naming
from windlass.environments.decide.owned_objects import Subject
from windlass.environments.departures import Departures
from windlass.environments.environments import Environments, Hands
from windlass.environments.holdings import Holdings
from windlass.environments.projects import Projects
from windlass.environments.source import Sources
from windlass.environments.sweep import Sweep
from windlass.git.child import Git
from windlass.git.listing import Listings
from windlass.git.settings import GitSettings
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.follow import FollowSettings, Scope
from windlass.objects.gvr import GVR
from windlass.objects.json import Object
from windlass.objects.key import Key
from windlass.runtime.controller import Controller, Passed, Reconcile
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.informer import Informer
from windlass.runtime.owned import Owned
from windlass.runtime.queue import KeyedQueue
from windlass.runtime.reporter import Reporter
from windlass.sources.resolver import Resolver

FIELD_MANAGER = "windlass-environments"
STATUS_MANAGER = "windlass-environments-status"

_WORKERS = 16
_QUIET_SECONDS = 60.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EnvironmentsSettings:
    """What can be set about environments."""

    work_directory: Path
    git: GitSettings
    operator: Subject
    follow: FollowSettings = field(default_factory=FollowSettings)
    naming: Naming = field(default_factory=Naming)
    surroundings: Surroundings = field(default_factory=Surroundings)
    poll_seconds: float = 60.0
    rollout_seconds: float = rollout.DEADLINE_SECONDS
    sweep_seconds: float = 600.0


class EnvironmentsController:
    """All parts of the capability, wired."""

    def __init__(
        self,
        connection: Connection,
        settings: EnvironmentsSettings,
        *,
        clock: Clock,
        on_pass: Callable[[Passed], None] | None = None,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._on_pass = on_pass
        self._drift: dict[tuple[str, str], float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        api = Api(connection)
        self._queues: dict[str, KeyedQueue[Key]] = {
            "Environment": KeyedQueue(),
            "Project": KeyedQueue(),
        }
        self.cache = Cache(
            projects=self._informer(project_kind.KIND.gvr, self._project_changed),
            environments=self._informer(environment_kind.KIND.gvr, self._environment_changed),
        )
        self.holdings = Holdings(
            connection, self._queues["Environment"].add, settings=settings.follow, clock=clock
        )
        git = Git(settings.git)
        self._listings = Listings(git, clock)
        self._resolver = Resolver(git, self._listings, settings.work_directory / "proofs", clock)
        sources = Sources(api, git, self._listings, self._resolver, settings.work_directory)
        hands = self._hands(api, sources)
        self._recorder = EventRecorder(api, "windlass.dev/environments", clock=clock)
        self._sweep = Sweep(
            api, self.holdings, hands.spaces, interval_seconds=settings.sweep_seconds
        )
        environments = Environments(
            api,
            self.cache,
            hands,
            clock,
            surroundings=settings.surroundings,
            poll_seconds=settings.poll_seconds,
            field_manager=FIELD_MANAGER,
            corrected=self._drift_corrected,
        )
        projects = Projects(self.cache, sources, poll_seconds=settings.poll_seconds)
        self._controllers = (
            self._controller(api, environment_kind.KIND.gvr, "Environment", environments.reconcile),
            self._controller(api, project_kind.KIND.gvr, "Project", projects.reconcile),
        )

    # ---- wiring

    def _informer(self, gvr: GVR, on_change: Callable[[Key], None]) -> Informer:
        return Informer(
            self._connection,
            Scope(gvr),
            on_change=on_change,
            settings=self._settings.follow,
            clock=self._clock,
        )

    def _hands(self, api: Api, sources: Sources) -> Hands:
        owned = Owned(api, FIELD_MANAGER)
        applier = applying.Applying(self._connection, self.holdings, owned, self._clock)
        made = spaces.Spaces(
            api, self.holdings, owned, self._settings.naming, field_manager=FIELD_MANAGER
        )
        return Hands(
            spaces=made,
            fencing=fencing.Fencing(api, self.holdings, owned, self._settings.operator),
            sources=sources,
            applying=applier,
            rollouts=rollout.Rollouts(
                self.holdings, applier, deadline_seconds=self._settings.rollout_seconds
            ),
            departures=Departures(api, made, self._clock, field_manager=FIELD_MANAGER),
        )

    def _controller(
        self, api: Api, gvr: GVR, kind: str, reconcile: Reconcile[Key]
    ) -> Controller[Key]:
        informer = self.cache.environments if kind == "Environment" else self.cache.projects
        return Controller(
            kind.lower(),
            self._queues[kind],
            reconcile,
            reporter=Reporter(
                api,
                gvr,
                informer.get,
                field_manager=STATUS_MANAGER,
                recorder=self._recorder,
                clock=self._clock,
            ),
            workers=_WORKERS,
            on_pass=self._on_pass,
        )

    # ---- who must look again when something changed

    def _environment_changed(self, key: Key) -> None:
        self._queues["Environment"].add(key)
        project = self.cache.project_of(key)
        if project is not None:
            self._queues["Project"].add(project)

    def _project_changed(self, key: Key) -> None:
        self._queues["Project"].add(key)
        for environment in self.cache.environments_of(key):
            self._queues["Environment"].add(environment)

    def _drift_corrected(self, obj: Object, name: str) -> None:
        """One event per object and minute: somebody may be fighting with us."""
        metadata = obj["metadata"]
        key, now = (metadata["uid"], name), self._clock.monotonic()
        if now - self._drift.get(key, float("-inf")) < _QUIET_SECONDS:
            return
        self._drift[key] = now
        ref = ObjectRef(
            obj["apiVersion"],
            obj["kind"],
            metadata.get("namespace") or "",
            metadata["name"],
            metadata["uid"],
        )
        text = f"{name} was not as wished; it was put right"
        task = asyncio.ensure_future(
            self._recorder.record(ref, "Normal", "DriftCorrected", text, transition=str(now))
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- running

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                informers = (
                    self.cache.projects,
                    self.cache.environments,
                    *self.holdings.informers.values(),
                )
                for informer in informers:
                    group.create_task(informer.run(), name=f"informer {informer.scope}")
                for informer in informers:
                    await informer.synced.wait()
                group.create_task(self._sweep.run(), name="sweep")
                for controller in self._controllers:
                    group.create_task(controller.run(), name=controller.name)
                _log.info("environments started")
        finally:
            await self._listings.close()
            await self._resolver.close()
