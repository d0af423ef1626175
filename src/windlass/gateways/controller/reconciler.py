"""Reconciles one IgnitionSync (REC-1).

    deleted? terminating? paused? -> spec -> Git Secret -> commit -> API key
      -> status ConfigMaps -> Role and RoleBinding -> sync status of the gateways
      -> metadata ConfigMap -> summary ConfigMap -> Events -> Outcome

Steps are isolated: an error in one is collected in `StepErrors`, the others go on. While no
new commit can be resolved, the published one stays; while the pods are not known, rights,
status objects and counts stay. A reconcile that finds the desired state writes nothing.
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
from windlass.gateways.controller import snapshot
from windlass.gateways.controller.deletion import IgnitionSyncDeletion
from windlass.gateways.controller.gateway_cache import CONFIG_MAPS, GatewayCache
from windlass.gateways.controller.metrics import GatewayMetricsRecorder
from windlass.gateways.controller.owned_writer import OwnedWriter
from windlass.gateways.controller.ref_poller import RefPoller
from windlass.gateways.controller.snapshot import Snapshot
from windlass.gateways.controller.source import SourceReader, SourceResult
from windlass.gateways.controller.status_reporting import StatusRateLimit
from windlass.gateways.controller.step_errors import StepErrors
from windlass.gateways.status import (
    conditions,
    events,
    gateway_status,
    pod_discovery,
    spec_check,
    summary,
)
from windlass.gateways.status.conditions import Findings, SourceTrust
from windlass.gateways.status.events import StatusChange
from windlass.gateways.status.gateway_status import FleetStatus, SyncTarget
from windlass.gateways.status.pod_discovery import Discovery, PodClaim
from windlass.gateways.status.summary import FirstSynced
from windlass.gateways.wire import agent_objects, metadata, metadata_builder, routing
from windlass.gateways.wire.agent_objects import FIELD_MANAGER
from windlass.gateways.wire.metadata import AgentMetadata, StatusObject
from windlass.gateways.wire.routing import Routing
from windlass.git.format.remote import Remote
from windlass.git.settings import GitSettings
from windlass.kube.api import Api
from windlass.kube.errors import Invalid
from windlass.objects.names import Key
from windlass.runtime import finalizer
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.outcome import Outcome

_FINALIZER_REQUEUE_SECONDS = 1.0

_log: Any = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What passes work with."""

    api: Api
    cache: GatewayCache
    writer: OwnedWriter
    ref_poller: RefPoller
    sources: SourceReader
    deletion: IgnitionSyncDeletion
    status_rate_limit: StatusRateLimit
    metrics: GatewayMetricsRecorder
    recorder: EventRecorder
    clock: Clock


@dataclass(frozen=True, slots=True)
class CompiledRouting:
    """A spec as a routing, and what is wrong with it; made once per generation."""

    uid: str
    generation: int
    routing: Routing
    problems: tuple[str, ...]


class IgnitionSyncReconciler:
    """Every IgnitionSync, one key at a time."""

    def __init__(
        self,
        parts: Dependencies,
        *,
        git: GitSettings,
        cluster_name: str,
        protected_paths: tuple[str, ...],
        operator_version: str,
    ) -> None:
        self._dependencies = parts
        self._git = git
        self._cluster_name = cluster_name
        self._protected_paths = protected_paths
        self._operator_version = operator_version
        self._compiled: dict[Key, CompiledRouting] = {}
        self._last_requests: dict[Key, tuple[str, str]] = {}
        """Request and generation of the last reconcile of each IgnitionSync."""
        self._logged_failures: dict[Key, str] = {}
        """What is wrong with each IgnitionSync, as it was logged last."""

    async def reconcile(self, key: Key) -> Outcome:
        """One pass."""
        with bound_contextvars(namespace=key.namespace, cr=key.name):
            return await self._reconcile(key)

    async def _reconcile(self, key: Key) -> Outcome:
        seen = snapshot.take_snapshot(self._dependencies.cache, key)
        if seen is None:
            self._forget(key)
            return Outcome.gone()
        if seen.is_terminating:
            self._dependencies.metrics.forget(key)
            return await self._dependencies.deletion.reconcile(seen)
        rest = self._dependencies.status_rate_limit.wait_seconds(key)
        if rest > 0 and not self._is_requested(seen):
            return Outcome.postponed(rest)
        if await self._add_finalizer(seen):
            return Outcome.postponed(_FINALIZER_REQUEUE_SECONDS)
        outcome = await self._run_steps(seen, IgnitionSync.decode(seen.raw))
        # Agents hear of a new commit at once; only the status waits for its turn.
        return Outcome.postponed(rest) if rest > 0 else outcome

    def _is_requested(self, seen: Snapshot) -> bool:
        """Whether somebody asks for a check, or changed the spec, since the last reconcile."""
        asked = (seen.request, str(seen.object["metadata"].get("generation")))
        return self._last_requests.get(seen.key) not in (None, asked)

    async def _run_steps(self, seen: Snapshot, sync: IgnitionSync) -> Outcome:
        self._last_requests[seen.key] = (seen.request, str(sync.metadata.generation))
        faults = StepErrors()
        remote = self._remote(sync)
        compiled = self._compile(seen.key, sync)
        sought = await self._dependencies.sources.resolve_commit(seen, sync, remote, faults)
        api_key = await self._dependencies.sources.check_api_key(sync, faults)
        found = self._discover(seen, sync)
        if found is not None:
            await self._prepare_agents(seen, found, faults)
        goal = await self._publish(seen, sync, compiled, sought, found, remote, faults)
        tally, noted = await self._summarize(seen, found, goal, faults)
        outcome = conditions.build_outcome(
            Findings(
                canonical_url=remote.identity,
                source=sought.source,
                fleet=tally,
                trust=_source_trust(remote, sync),
                failure=sought.failure,
                problems=compiled.problems,
                api_key_problem=api_key,
                first_synced=noted,
                step_errors=tuple(faults.messages),
                is_paused=sync.spec.paused,
                due_seconds=sought.due_seconds,
            )
        )
        self._log_failure(seen.key, outcome)
        await self._record_events(seen, sync, sought, tally)
        self._dependencies.metrics.record_fleet(seen.key, tally, is_paused=sync.spec.paused)
        return outcome

    def _remote(self, sync: IgnitionSync) -> Remote:
        """Where the files are; while paused nobody is asked, so how does not matter."""
        if sync.spec.paused:
            return spec_check.parse_remote(sync.spec.git.repo)
        return spec_check.check_remote(sync.spec.git.repo, self._git)

    def _discover(self, seen: Snapshot, sync: IgnitionSync) -> Discovery | None:
        if seen.pods is None:
            return None
        claim = PodClaim(sync.metadata.name, sync.spec.pod_selector)
        return pod_discovery.discover_gateways(claim, seen.claims, seen.pods)

    async def _prepare_agents(self, seen: Snapshot, found: Discovery, faults: StepErrors) -> None:
        """What agents need before they can say or hear anything."""
        hands = self._dependencies.writer
        with faults.collect("status ConfigMaps"):
            await hands.ensure_status_objects(seen.owner, found)
            await hands.delete_stale_status_objects(seen.owner, found, seen.config_maps)
        with faults.collect("rights of the agents"):
            await hands.ensure_agent_role(seen.owner, found)

    async def _publish(
        self,
        seen: Snapshot,
        sync: IgnitionSync,
        compiled: CompiledRouting,
        sought: SourceResult,
        found: Discovery | None,
        remote: Remote,
        faults: StepErrors,
    ) -> SyncTarget:
        """Tell the agents; profiles that cannot be used leave them the routing they have."""
        in_force = (
            metadata_builder.decode_routing(seen.published_data)
            if compiled.problems
            else compiled.routing
        )
        if in_force is not None:
            wish = metadata_builder.MetadataInputs(
                routing=in_force,
                source=sought.source,
                status_objects=self._status_objects(seen, found),
                request=seen.request,
                jitter_ms=self._jitter_ms(seen, found, remote),
                operator_version=self._operator_version,
            )
            data = metadata.encode(metadata_builder.build_metadata(sync, wish))
            with faults.collect("metadata ConfigMap"):
                await self._dependencies.writer.publish_config_map(
                    seen.owner, agent_objects.metadata_name(seen.key.name), data
                )
        shape = compiled.routing if in_force is None else in_force
        commit = sought.source.commit if sought.source is not None else ""
        return SyncTarget(commit, shape, routing.hash_routing(shape))

    async def _summarize(
        self, seen: Snapshot, found: Discovery | None, goal: SyncTarget, faults: StepErrors
    ) -> tuple[FleetStatus | None, FirstSynced | None]:
        """How far the gateways are; written down for people, too."""
        before = summary.decode_first_synced(seen.summary_data)
        if found is None:
            return None, before
        tally = _fleet_status(seen, found, goal)
        noted = summary.next_first_synced(
            before,
            goal.commit,
            goal.routing_hash,
            all_synced=tally.all_synced,
            now=self._dependencies.clock.now(),
        )
        with faults.collect("status ConfigMap"):
            lines = {**summary.summary_lines(tally), **summary.encode_first_synced(noted)}
            await self._dependencies.writer.publish_config_map(
                seen.owner, agent_objects.summary_name(seen.key.name), lines
            )
        return tally, noted

    def _status_objects(
        self, seen: Snapshot, found: Discovery | None
    ) -> Mapping[str, StatusObject]:
        if found is None:
            told = _published_metadata(seen)
            return told.status_objects if told is not None else {}
        names = (agent_objects.status_name(pod.uid) for pod in found.reporters)
        live = self._dependencies.writer.current_objects(CONFIG_MAPS, names, seen.key.namespace)
        return metadata_builder.status_objects(found.reporters, live)

    def _jitter_ms(self, seen: Snapshot, found: Discovery | None, remote: Remote) -> int:
        if found is None:
            told = _published_metadata(seen)
            return told.jitter_ms if told is not None else 0
        return metadata_builder.jitter_ms(
            self._dependencies.cache.count_pods_sharing(remote.identity)
        )

    def _log_failure(self, key: Key, outcome: Outcome) -> None:
        """Log what is wrong once per change, and once that it is over."""
        failure = outcome.failure
        if failure == self._logged_failures.get(key, ""):
            return
        if failure:
            self._logged_failures[key] = failure
            _log.warning("not ready", cause=failure)
        else:
            del self._logged_failures[key]
            _log.info("recovered")

    async def _record_events(
        self, seen: Snapshot, sync: IgnitionSync, sought: SourceResult, tally: FleetStatus | None
    ) -> None:
        moment = StatusChange(
            resource_version=seen.resource_version,
            generation=sync.metadata.generation,
            status=sync.status,
            previous_source=metadata.decode_source(seen.published_data),
            source=sought.source,
            resolution=sought.resolution,
            fleet=tally,
            is_paused=sync.spec.paused,
        )
        for telling in events.derive_events(moment):
            await self._dependencies.recorder.record(
                ObjectRef.of(seen.object),
                telling.weight,
                telling.reason,
                telling.message,
                transition=telling.transition,
            )

    async def _add_finalizer(self, seen: Snapshot) -> bool:
        """Put our finalizer on; True if the object changes by that and is looked at again."""
        if finalizer.has_finalizer(seen.object, FINALIZER):
            return False
        try:
            await finalizer.add_finalizer(
                self._dependencies.api,
                IGNITION_SYNCS,
                seen.object,
                FINALIZER,
                field_manager=FIELD_MANAGER,
            )
        except Invalid:
            # A stored object that later rules refuse: that is reported, not repaired.
            return False
        return True

    def _compile(self, key: Key, sync: IgnitionSync) -> CompiledRouting:
        meta = sync.metadata
        known = self._compiled.get(key)
        if known is not None and (known.uid, known.generation) == (meta.uid, meta.generation):
            return known
        wanted = metadata_builder.build_routing(
            sync.spec, self._cluster_name, self._protected_paths
        )
        made = CompiledRouting(meta.uid, meta.generation, wanted, spec_check.find_problems(wanted))
        self._compiled[key] = made
        return made

    def _forget(self, key: Key) -> None:
        self._compiled.pop(key, None)
        self._logged_failures.pop(key, None)
        self._last_requests.pop(key, None)
        self._dependencies.ref_poller.forget(key)
        self._dependencies.status_rate_limit.forget(key)
        self._dependencies.metrics.forget(key)


def _fleet_status(seen: Snapshot, found: Discovery, goal: SyncTarget) -> FleetStatus:
    read = ((one.observed_pod.uid, seen.read_report(one.observed_pod)) for one in found.gateways)
    reports = {uid: said for uid, (is_there, said) in read if is_there}
    return gateway_status.fleet_status(found.gateways, reports, goal)


def _published_metadata(seen: Snapshot) -> AgentMetadata | None:
    try:
        return metadata.decode(seen.published_data)
    except metadata.InvalidMetadata:
        return None


def _source_trust(remote: Remote, sync: IgnitionSync) -> SourceTrust:
    if remote.scheme not in ("https", "ssh"):
        return "InsecureTransport"
    auth = sync.spec.git.auth
    key = auth.ssh_key if auth is not None else None
    skips = key is not None and key.insecure_skip_host_key_check
    return "HostKeyCheckDisabled" if skips else "HostVerified"
