"""Reconciles one IgnitionSync (REC-1).

    deleted? terminating? rate limit? finalizer
      -> spec -> Git Secret -> commit -> API key -> status ConfigMaps -> Role and RoleBinding
      -> metadata ConfigMap -> sync status of the gateways -> summary ConfigMap
      -> conditions -> Events -> metrics -> Outcome

The runtime controller calls `IgnitionSyncReconciler.reconcile` with one key at a time and
writes the returned Outcome to the status. `_reconcile` decides whether there is work to do,
`_run_steps` is the table of contents of that work.

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
from windlass.gateways.controller.deletion import IgnitionSyncDeletion
from windlass.gateways.controller.gateway_cache import GatewayCache
from windlass.gateways.controller.metrics import GatewayMetricsRecorder
from windlass.gateways.controller.owned_writer import OwnedWriter
from windlass.gateways.controller.ref_poller import RefPoller
from windlass.gateways.controller.snapshot import Snapshot, take_snapshot
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
from windlass.objects.resources import CONFIG_MAPS
from windlass.runtime import finalizer
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.outcome import Outcome

_FINALIZER_REQUEUE_SECONDS = 1.0

_log: Any = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The collaborators of the reconciler; the controller builds one set per process."""

    api: Api  # only to add the finalizer; all other writes go through `writer`
    cache: GatewayCache  # IgnitionSyncs, pods and owned objects, without requests
    writer: OwnedWriter  # ConfigMaps, Role and RoleBinding
    ref_poller: RefPoller  # only to forget deleted keys; `sources` polls with it
    sources: SourceReader  # the commit, and the Secrets that the spec names
    deletion: IgnitionSyncDeletion  # takes over once deletionTimestamp is set
    status_rate_limit: StatusRateLimit  # how long the status must not be written yet
    metrics: GatewayMetricsRecorder  # gauges of the fleet, per IgnitionSync
    recorder: EventRecorder  # Events about the IgnitionSync
    clock: Clock  # wall clock of `lastSyncTime`


@dataclass(frozen=True, slots=True)
class CompiledRouting:
    """The routing of a spec and its problems, compiled once per uid and generation."""

    uid: str
    generation: int
    routing: Routing
    problems: tuple[str, ...]


class IgnitionSyncReconciler:
    """Brings IgnitionSyncs to their desired state; the queue never runs one key twice at once."""

    def __init__(
        self,
        dependencies: Dependencies,
        *,
        git: GitSettings,
        cluster_name: str,
        protected_paths: tuple[str, ...],
        operator_version: str,
    ) -> None:
        self._dependencies = dependencies
        self._git = git
        self._cluster_name = cluster_name
        self._protected_paths = protected_paths
        self._operator_version = operator_version
        # Four memories per IgnitionSync, all dropped by `_forget`.
        # The newest compiled routing; replaced when uid or generation differ.
        self._compiled: dict[Key, CompiledRouting] = {}
        # Request annotation and generation that the last reconcile worked with.
        self._last_requests: dict[Key, tuple[str, str]] = {}
        # The failure that was logged last; no entry while there is none.
        self._logged_failures: dict[Key, str] = {}
        # Step errors of the last reconcile; the same ones are not logged again.
        self._step_errors: dict[Key, tuple[str, ...]] = {}

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one IgnitionSync to its desired state and return what to report about it."""
        with bound_contextvars(namespace=key.namespace, cr=key.name):
            return await self._reconcile(key)

    async def _reconcile(self, key: Key) -> Outcome:
        snapshot = take_snapshot(self._dependencies.cache, key)
        if snapshot is None:
            self._forget(key)
            return Outcome.gone()
        if snapshot.is_terminating:
            self._dependencies.metrics.forget(key)
            return await self._dependencies.deletion.reconcile(snapshot)
        wait_seconds = self._dependencies.status_rate_limit.wait_seconds(key)
        if wait_seconds > 0 and not self._is_requested(snapshot):
            return Outcome.postponed(wait_seconds)
        if await self._add_finalizer(snapshot):
            return Outcome.postponed(_FINALIZER_REQUEUE_SECONDS)
        outcome = await self._run_steps(snapshot, IgnitionSync.decode(snapshot.raw))
        # A requested reconcile publishes to agents at once; only the status write is postponed.
        return Outcome.postponed(wait_seconds) if wait_seconds > 0 else outcome

    def _is_requested(self, snapshot: Snapshot) -> bool:
        """Whether the request annotation or the spec changed since the last reconcile.

        False for the first reconcile of a process: there is no earlier one to compare with.
        """
        request = (snapshot.request, str(snapshot.object["metadata"].get("generation")))
        return self._last_requests.get(snapshot.key) not in (None, request)

    async def _run_steps(self, snapshot: Snapshot, sync: IgnitionSync) -> Outcome:
        """Run all steps in order; only an invalid repository address ends it early."""
        errors = StepErrors(known=self._step_errors.get(snapshot.key, ()))
        remote = self._remote(sync)
        compiled = self._compile(snapshot.key, sync)
        result = await self._dependencies.sources.resolve_commit(snapshot, sync, remote, errors)
        # Only now: a reconcile that waits for the remote has not handled the request.
        self._last_requests[snapshot.key] = (snapshot.request, str(sync.metadata.generation))
        api_key_problem = await self._dependencies.sources.check_api_key(sync, errors)
        discovery = self._discover(snapshot, sync)
        if discovery is not None:
            await self._prepare_agents(snapshot, discovery, errors)
        target = await self._publish(snapshot, sync, compiled, result, discovery, remote, errors)
        fleet, first_synced = await self._summarize(snapshot, discovery, target, errors)
        outcome = conditions.build_outcome(
            Findings(
                canonical_url=remote.identity,
                source=result.source,
                fleet=fleet,
                trust=_source_trust(remote, sync),
                failure=result.failure,
                problems=compiled.problems,
                api_key_problem=api_key_problem,
                first_synced=first_synced,
                step_errors=tuple(errors.messages),
                is_paused=sync.spec.paused,
                due_seconds=result.due_seconds,
            )
        )
        self._step_errors[snapshot.key] = tuple(errors.messages)
        self._log_failure(snapshot.key, outcome)
        await self._record_events(snapshot, sync, result, fleet)
        self._dependencies.metrics.record_fleet(snapshot.key, fleet, is_paused=sync.spec.paused)
        return outcome

    def _remote(self, sync: IgnitionSync) -> Remote:
        """The repository; while paused it is only named, so its scheme need not be allowed."""
        if sync.spec.paused:
            return spec_check.parse_remote(sync.spec.git.repo)
        return spec_check.check_remote(sync.spec.git.repo, self._git)

    def _discover(self, snapshot: Snapshot, sync: IgnitionSync) -> Discovery | None:
        if snapshot.pods is None:
            return None
        claim = PodClaim(sync.metadata.name, sync.spec.pod_selector)
        return pod_discovery.discover_gateways(claim, snapshot.claims, snapshot.pods)

    async def _prepare_agents(
        self, snapshot: Snapshot, discovery: Discovery, errors: StepErrors
    ) -> None:
        """Write what agents need before they can report or read: status objects and rights."""
        writer = self._dependencies.writer
        with errors.collect("status ConfigMaps"):
            await writer.ensure_status_objects(snapshot.owner, discovery)
            await writer.delete_stale_status_objects(
                snapshot.owner, discovery, snapshot.config_maps
            )
        with errors.collect("agent Role and RoleBinding"):
            await writer.ensure_agent_role(snapshot.owner, discovery)

    async def _publish(
        self,
        snapshot: Snapshot,
        sync: IgnitionSync,
        compiled: CompiledRouting,
        result: SourceResult,
        discovery: Discovery | None,
        remote: Remote,
        errors: StepErrors,
    ) -> SyncTarget:
        """Publish the metadata ConfigMap; return what every gateway should have.

        Invalid profiles leave agents the routing that is published already, if there is one.
        """
        active = (
            metadata_builder.decode_routing(snapshot.published_data)
            if compiled.problems
            else compiled.routing
        )
        if active is not None:
            inputs = metadata_builder.MetadataInputs(
                routing=active,
                source=result.source,
                status_objects=self._status_objects(snapshot, discovery),
                request=snapshot.request,
                jitter_ms=self._jitter_ms(snapshot, discovery, remote),
                operator_version=self._operator_version,
            )
            data = metadata.encode(metadata_builder.build_metadata(sync, inputs))
            with errors.collect("metadata ConfigMap"):
                await self._dependencies.writer.publish_config_map(
                    snapshot.owner, agent_objects.metadata_name(snapshot.key.name), data
                )
        target_routing = compiled.routing if active is None else active
        commit = result.source.commit if result.source is not None else ""
        return SyncTarget(commit, target_routing, routing.hash_routing(target_routing))

    async def _summarize(
        self,
        snapshot: Snapshot,
        discovery: Discovery | None,
        target: SyncTarget,
        errors: StepErrors,
    ) -> tuple[FleetStatus | None, FirstSynced | None]:
        """The sync status of all gateways, also written to the summary ConfigMap."""
        before = summary.decode_first_synced(snapshot.summary_data)
        if discovery is None:
            return None, before
        fleet = _fleet_status(snapshot, discovery, target)
        first_synced = summary.next_first_synced(
            before,
            target.commit,
            target.routing_hash,
            all_synced=fleet.all_synced,
            now=self._dependencies.clock.now(),
        )
        with errors.collect("summary ConfigMap"):
            lines = {**summary.summary_lines(fleet), **summary.encode_first_synced(first_synced)}
            await self._dependencies.writer.publish_config_map(
                snapshot.owner, agent_objects.summary_name(snapshot.key.name), lines
            )
        return fleet, first_synced

    def _status_objects(
        self, snapshot: Snapshot, discovery: Discovery | None
    ) -> Mapping[str, StatusObject]:
        if discovery is None:
            published = _published_metadata(snapshot)
            return published.status_objects if published is not None else {}
        names = (agent_objects.status_name(pod.uid) for pod in discovery.reporters)
        live = self._dependencies.writer.current_objects(CONFIG_MAPS, names, snapshot.key.namespace)
        return metadata_builder.status_objects(discovery.reporters, live)

    def _jitter_ms(self, snapshot: Snapshot, discovery: Discovery | None, remote: Remote) -> int:
        if discovery is None:
            published = _published_metadata(snapshot)
            return published.jitter_ms if published is not None else 0
        return metadata_builder.jitter_ms(
            self._dependencies.cache.count_pods_sharing(remote.identity)
        )

    def _log_failure(self, key: Key, outcome: Outcome) -> None:
        """Log a failure once per change of its text, and its end once."""
        failure = outcome.failure
        # Progress is no end: the failure may be back when the retry of an agent is over.
        if failure == self._logged_failures.get(key, "") or (not failure and outcome.reconciling):
            return
        if failure:
            self._logged_failures[key] = failure
            _log.warning("not ready", cause=failure)
        else:
            del self._logged_failures[key]
            _log.info("recovered")

    async def _record_events(
        self,
        snapshot: Snapshot,
        sync: IgnitionSync,
        result: SourceResult,
        fleet: FleetStatus | None,
    ) -> None:
        change = StatusChange(
            resource_version=snapshot.resource_version,
            generation=sync.metadata.generation,
            status=sync.status,
            previous_source=metadata.decode_source(snapshot.published_data),
            source=result.source,
            resolution=result.resolution,
            fleet=fleet,
            is_paused=sync.spec.paused,
        )
        for event in events.derive_events(change):
            await self._dependencies.recorder.record(
                ObjectRef.of(snapshot.object),
                event.weight,
                event.reason,
                event.message,
                transition=event.transition,
            )

    async def _add_finalizer(self, snapshot: Snapshot) -> bool:
        """Add the finalizer; True if that changed the object, which then is reconciled again."""
        if finalizer.has_finalizer(snapshot.object, FINALIZER):
            return False
        try:
            await finalizer.add_finalizer(
                self._dependencies.api,
                IGNITION_SYNCS,
                snapshot.object,
                FINALIZER,
                field_manager=FIELD_MANAGER,
            )
        except Invalid:
            # A stored object that newer CRD rules reject: reported by the steps, not repaired.
            return False
        return True

    def _compile(self, key: Key, sync: IgnitionSync) -> CompiledRouting:
        meta = sync.metadata
        cached = self._compiled.get(key)
        if cached is not None and (cached.uid, cached.generation) == (meta.uid, meta.generation):
            return cached
        desired = metadata_builder.build_routing(
            sync.spec, self._cluster_name, self._protected_paths
        )
        compiled = CompiledRouting(
            meta.uid, meta.generation, desired, spec_check.find_problems(desired)
        )
        self._compiled[key] = compiled
        return compiled

    def _forget(self, key: Key) -> None:
        self._compiled.pop(key, None)
        self._logged_failures.pop(key, None)
        self._step_errors.pop(key, None)
        self._last_requests.pop(key, None)
        self._dependencies.ref_poller.forget(key)
        self._dependencies.status_rate_limit.forget(key)
        self._dependencies.deletion.forget(key)
        self._dependencies.metrics.forget(key)


def _fleet_status(snapshot: Snapshot, discovery: Discovery, target: SyncTarget) -> FleetStatus:
    read_reports = (
        (gateway.observed_pod.uid, snapshot.read_report(gateway.observed_pod))
        for gateway in discovery.gateways
    )
    reports = {uid: report for uid, (has_report, report) in read_reports if has_report}
    return gateway_status.fleet_status(discovery.gateways, reports, target)


def _published_metadata(snapshot: Snapshot) -> AgentMetadata | None:
    try:
        return metadata.decode(snapshot.published_data)
    except metadata.InvalidMetadata:
        return None


def _source_trust(remote: Remote, sync: IgnitionSync) -> SourceTrust:
    if remote.scheme not in ("https", "ssh"):
        return "InsecureTransport"
    auth = sync.spec.git.auth
    key = auth.ssh_key if auth is not None else None
    skips = key is not None and key.insecure_skip_host_key_check
    return "HostKeyCheckDisabled" if skips else "HostVerified"
