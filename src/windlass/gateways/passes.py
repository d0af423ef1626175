"""One pass over one IgnitionSync (REC-1).

    gone? end? pause? -> spec -> Git Secret -> commit -> API key
      -> status objects -> rights -> standing of the gateways
      -> metadata -> ConfigMap for people -> events -> Outcome

Steps are isolated: what fails is found, the rest goes on. While no new commit is to be
had, the one that agents were told stays; while the pods are not known, rights, status
objects and counts stay. A pass that finds everything as wanted writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from structlog.contextvars import bound_contextvars

from windlass.api.kinds.ignitionsync import FINALIZER, IgnitionSync
from windlass.api.kinds.registry import IGNITION_SYNCS
from windlass.base.clock import Clock
from windlass.gateways import observe
from windlass.gateways.act import Hands
from windlass.gateways.asking import Asking
from windlass.gateways.cache import CONFIG_MAPS, Cache
from windlass.gateways.decide import (
    discovery,
    gateway_rows,
    metadata,
    notices,
    owned,
    reached,
    report,
    routing,
    spec_check,
    standing,
    targets,
)
from windlass.gateways.decide.discovery import Claim, Discovery
from windlass.gateways.decide.metadata import Metadata, StatusObject
from windlass.gateways.decide.notices import Moment
from windlass.gateways.decide.owned import MANAGER
from windlass.gateways.decide.reached import Reached
from windlass.gateways.decide.report import Findings, Trust
from windlass.gateways.decide.routing import Routing
from windlass.gateways.decide.standing import Goal, Tally
from windlass.gateways.farewell import Farewells
from windlass.gateways.faults import Faults
from windlass.gateways.measures import Measures
from windlass.gateways.observe import Snapshot
from windlass.gateways.pace import Pace
from windlass.gateways.seeking import Seeking, Sought
from windlass.git.format.remote import Remote
from windlass.git.settings import GitSettings
from windlass.kube.api import Api
from windlass.kube.errors import Invalid
from windlass.objects.names import Key
from windlass.runtime import finalizer
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.outcome import Outcome

_FINALIZER_SECONDS = 1.0

_log: Any = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What passes work with."""

    api: Api
    cache: Cache
    hands: Hands
    asking: Asking
    seeking: Seeking
    farewells: Farewells
    pace: Pace
    measures: Measures
    recorder: EventRecorder
    clock: Clock


@dataclass(frozen=True, slots=True)
class Compiled:
    """A spec as a routing, and what is wrong with it; made once per generation."""

    uid: str
    generation: int
    routing: Routing
    problems: tuple[str, ...]


class Passes:
    """Every IgnitionSync, one key at a time."""

    def __init__(
        self,
        parts: Parts,
        *,
        git: GitSettings,
        cluster_name: str,
        protected_paths: tuple[str, ...],
        operator_version: str,
    ) -> None:
        self._parts = parts
        self._git = git
        self._cluster_name = cluster_name
        self._protected_paths = protected_paths
        self._operator_version = operator_version
        self._compiled: dict[Key, Compiled] = {}
        self._asked: dict[Key, tuple[str, str]] = {}
        """Request and generation of the last reconcile of each IgnitionSync."""
        self._failures: dict[Key, str] = {}
        """What is wrong with each IgnitionSync, as it was logged last."""

    async def reconcile(self, key: Key) -> Outcome:
        """One pass."""
        with bound_contextvars(namespace=key.namespace, cr=key.name):
            return await self._reconciled(key)

    async def _reconciled(self, key: Key) -> Outcome:
        seen = observe.snapshot(self._parts.cache, key)
        if seen is None:
            self._forget(key)
            return Outcome.gone()
        if seen.is_terminating:
            self._parts.measures.gone(key)
            return await self._parts.farewells.say(seen)
        rest = self._parts.pace.rest_seconds(key)
        if rest > 0 and not self._is_asked(seen):
            return Outcome.postponed(rest)
        if await self._finalizer_added(seen):
            return Outcome.postponed(_FINALIZER_SECONDS)
        outcome = await self._look(seen, IgnitionSync.decode(seen.raw))
        # Agents hear of a new commit at once; only the status waits for its turn.
        return Outcome.postponed(rest) if rest > 0 else outcome

    def _is_asked(self, seen: Snapshot) -> bool:
        """Whether somebody asks for a check, or changed the spec, since the last reconcile."""
        asked = (seen.request, str(seen.object["metadata"].get("generation")))
        return self._asked.get(seen.key) not in (None, asked)

    async def _look(self, seen: Snapshot, sync: IgnitionSync) -> Outcome:
        self._asked[seen.key] = (seen.request, str(sync.metadata.generation))
        faults = Faults()
        remote = self._remote(sync)
        compiled = self._compile(seen.key, sync)
        sought = await self._parts.seeking.commit(seen, sync, remote, faults)
        api_key = await self._parts.seeking.api_key(sync, faults)
        found = self._discover(seen, sync)
        if found is not None:
            await self._serve(seen, found, faults)
        goal = await self._publish(seen, sync, compiled, sought, found, remote, faults)
        tally, noted = await self._conclude(seen, found, goal, faults)
        outcome = report.outcome(
            Findings(
                canonical_url=remote.identity,
                source=sought.source,
                tally=tally,
                trust=_trust(remote, sync),
                failure=sought.failure,
                problems=compiled.problems,
                api_key=api_key,
                reached=noted,
                faults=tuple(faults.texts),
                is_paused=sync.spec.paused,
                due_seconds=sought.due_seconds,
            )
        )
        self._log_failure(seen.key, outcome)
        await self._announce(seen, sync, sought, tally)
        self._parts.measures.concluded(seen.key, tally, is_paused=sync.spec.paused)
        return outcome

    def _remote(self, sync: IgnitionSync) -> Remote:
        """Where the files are; while paused nobody is asked, so how does not matter."""
        if sync.spec.paused:
            return spec_check.address(sync.spec.git.repo)
        return spec_check.remote(sync.spec.git.repo, self._git)

    def _discover(self, seen: Snapshot, sync: IgnitionSync) -> Discovery | None:
        if seen.pods is None:
            return None
        claim = Claim(sync.metadata.name, sync.spec.pod_selector)
        return discovery.discover(claim, seen.claims, seen.pods)

    async def _serve(self, seen: Snapshot, found: Discovery, faults: Faults) -> None:
        """What agents need before they can say or hear anything."""
        hands = self._parts.hands
        with faults.about("status ConfigMaps"):
            await hands.open_status(seen.owner, found)
            await hands.close_status(seen.owner, found, seen.config_maps)
        with faults.about("rights of the agents"):
            await hands.grant(seen.owner, found)

    async def _publish(
        self,
        seen: Snapshot,
        sync: IgnitionSync,
        compiled: Compiled,
        sought: Sought,
        found: Discovery | None,
        remote: Remote,
        faults: Faults,
    ) -> Goal:
        """Tell the agents; profiles that cannot be used leave them the routing they have."""
        in_force = targets.routing_told(seen.told) if compiled.problems else compiled.routing
        if in_force is not None:
            wish = targets.Wish(
                routing=in_force,
                source=sought.source,
                status_objects=self._status_objects(seen, found),
                request=seen.request,
                jitter_ms=self._jitter_ms(seen, found, remote),
                operator_version=self._operator_version,
            )
            data = metadata.encode(targets.published(sync, wish))
            with faults.about("metadata ConfigMap"):
                await self._parts.hands.tell(seen.owner, owned.metadata_name(seen.key.name), data)
        shape = compiled.routing if in_force is None else in_force
        commit = sought.source.commit if sought.source is not None else ""
        return Goal(commit, shape, routing.routing_hash(shape))

    async def _conclude(
        self, seen: Snapshot, found: Discovery | None, goal: Goal, faults: Faults
    ) -> tuple[Tally | None, Reached | None]:
        """How far the gateways are; written down for people, too."""
        before = reached.told(seen.summary)
        if found is None:
            return None, before
        tally = _stand(seen, found, goal)
        noted = reached.next_reached(
            before,
            goal.commit,
            goal.routing_hash,
            all_synced=tally.all_synced,
            now=self._parts.clock.now(),
        )
        with faults.about("status ConfigMap"):
            lines = {**gateway_rows.summary(tally), **reached.noted(noted)}
            await self._parts.hands.tell(seen.owner, owned.summary_name(seen.key.name), lines)
        return tally, noted

    def _status_objects(
        self, seen: Snapshot, found: Discovery | None
    ) -> Mapping[str, StatusObject]:
        if found is None:
            told = _told(seen)
            return told.status_objects if told is not None else {}
        names = (owned.status_name(pod.uid) for pod in found.reporters)
        live = self._parts.hands.live(CONFIG_MAPS, names, seen.key.namespace)
        return targets.status_objects(found.reporters, live)

    def _jitter_ms(self, seen: Snapshot, found: Discovery | None, remote: Remote) -> int:
        if found is None:
            told = _told(seen)
            return told.jitter_ms if told is not None else 0
        return targets.jitter_ms(self._parts.cache.crowd(remote.identity))

    def _log_failure(self, key: Key, outcome: Outcome) -> None:
        """Log what is wrong once per change, and once that it is over."""
        failure = outcome.failure
        if failure == self._failures.get(key, ""):
            return
        if failure:
            self._failures[key] = failure
            _log.warning("not ready", cause=failure)
        else:
            del self._failures[key]
            _log.info("recovered")

    async def _announce(
        self, seen: Snapshot, sync: IgnitionSync, sought: Sought, tally: Tally | None
    ) -> None:
        moment = Moment(
            version=seen.version,
            generation=sync.metadata.generation,
            status=sync.status,
            before=metadata.source_of(seen.told),
            source=sought.source,
            resolution=sought.resolution,
            tally=tally,
            is_paused=sync.spec.paused,
        )
        for telling in notices.tellings(moment):
            await self._parts.recorder.record(
                ObjectRef.of(seen.object),
                telling.weight,
                telling.reason,
                telling.message,
                transition=telling.transition,
            )

    async def _finalizer_added(self, seen: Snapshot) -> bool:
        """Put our finalizer on; True if the object changes by that and is looked at again."""
        if finalizer.has_finalizer(seen.object, FINALIZER):
            return False
        try:
            await finalizer.add_finalizer(
                self._parts.api, IGNITION_SYNCS, seen.object, FINALIZER, field_manager=MANAGER
            )
        except Invalid:
            # A stored object that later rules refuse: that is reported, not repaired.
            return False
        return True

    def _compile(self, key: Key, sync: IgnitionSync) -> Compiled:
        meta = sync.metadata
        known = self._compiled.get(key)
        if known is not None and (known.uid, known.generation) == (meta.uid, meta.generation):
            return known
        wanted = targets.routing_of(sync.spec, self._cluster_name, self._protected_paths)
        made = Compiled(meta.uid, meta.generation, wanted, spec_check.problems(wanted))
        self._compiled[key] = made
        return made

    def _forget(self, key: Key) -> None:
        self._compiled.pop(key, None)
        self._failures.pop(key, None)
        self._asked.pop(key, None)
        self._parts.asking.forget(key)
        self._parts.pace.forget(key)
        self._parts.measures.gone(key)


def _stand(seen: Snapshot, found: Discovery, goal: Goal) -> Tally:
    read = ((one.live.uid, seen.report(one.live)) for one in found.gateways)
    reports = {uid: said for uid, (is_there, said) in read if is_there}
    return standing.tally(found.gateways, reports, goal)


def _told(seen: Snapshot) -> Metadata | None:
    try:
        return metadata.decode(seen.told)
    except metadata.NotMetadata:
        return None


def _trust(remote: Remote, sync: IgnitionSync) -> Trust:
    if remote.scheme not in ("https", "ssh"):
        return "InsecureTransport"
    auth = sync.spec.git.auth
    key = auth.ssh_key if auth is not None else None
    skips = key is not None and key.insecure_skip_host_key_check
    return "HostKeyCheckDisabled" if skips else "HostVerified"
