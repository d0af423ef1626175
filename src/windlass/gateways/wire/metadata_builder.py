"""Builds the metadata ConfigMap's content from an IgnitionSync (2.8); used by the controller.

It translates the spec into the agents' values: seconds instead of `2m`, bytes instead of
`1Gi`, and the routing with its hash. The result depends on the spec, the resolved commit
and the status objects alone, never on a clock.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windlass.api.kinds.ignitionsync import IgnitionSync, IgnitionSyncSpec
from windlass.api.kinds.ignitionsync_profile import (
    AdditionalFileSpec,
    Normalize,
    ProfileMappingSpec,
    ProfileSpec,
)
from windlass.base import clock
from windlass.gateways.status.pod_discovery import ObservedPod
from windlass.gateways.tree import path_rules
from windlass.gateways.wire import agent_objects, metadata, routing
from windlass.gateways.wire.metadata import (
    AgentMetadata,
    AuthType,
    CommitSource,
    GatewayEndpoint,
    Overrides,
    StatusObject,
    SyncPolicy,
)
from windlass.gateways.wire.routing import ANNOTATION_PREFIX, Routing
from windlass.git.format import refs
from windlass.objects import quantity
from windlass.objects.names import Object

PAUSED_BY_SPEC = "spec.paused is true"

_MASS_DELETE_ANNOTATION = f"{ANNOTATION_PREFIX}allow-mass-delete"
_ROLLBACK_ANNOTATION = f"{ANNOTATION_PREFIX}rollback"
_ROLLBACK_CHARS = 128
_TRIGGER_CHARS = 16
_JITTER_MS_PER_POD = 50


@dataclass(frozen=True, slots=True)
class MetadataInputs:
    """What the metadata has beside the spec."""

    routing: Routing  # in force; older than the spec while the profiles are invalid
    source: CommitSource | None  # None until a commit was resolved
    status_objects: Mapping[str, StatusObject]  # by pod name
    request: str = ""  # newest sync request of a user; empty if there is none
    jitter_ms: int = 0  # see `jitter_ms`
    operator_version: str = ""  # version of the controller


def build_metadata(cr: IgnitionSync, inputs: MetadataInputs) -> AgentMetadata:
    """The metadata of a CR."""
    spec = cr.spec
    return AgentMetadata(
        routing=inputs.routing,
        routing_hash=routing.hash_routing(inputs.routing),
        source=inputs.source,
        policy=build_policy(spec),
        access=GatewayEndpoint(spec.gateway.port, spec.gateway.tls),
        overrides=_overrides(cr.metadata.annotations),
        status_objects=inputs.status_objects,
        trigger=_trigger(inputs.request),
        paused=spec.paused,
        pause_reason=PAUSED_BY_SPEC if spec.paused else "",
        jitter_ms=inputs.jitter_ms,
        operator_version=inputs.operator_version,
    )


def jitter_ms(pods: int) -> int:
    """Within how long the agents of one repository spread their fetches (SIG-3).

    By the next power of two: a value that moved with every pod would be published to all agents.
    """
    rounded = 1 << (pods - 1).bit_length() if pods > 0 else 0
    return min(metadata.MAX_JITTER_MS, _JITTER_MS_PER_POD * rounded)


def terminating_data(data: Mapping[str, str]) -> dict[str, str]:
    """The published data, marked as terminating (DEL-1)."""
    return {**data, "terminating": "true"}


def status_objects(
    reporters: Iterable[ObservedPod], live: Mapping[str, Object]
) -> dict[str, StatusObject]:
    """The status ConfigMaps that exist among `live`, by pod name."""
    objects = ((pod.name, live.get(agent_objects.status_name(pod.uid))) for pod in reporters)
    return {
        name: StatusObject(obj["metadata"]["name"], obj["metadata"].get("uid", ""))
        for name, obj in objects
        if obj is not None
    }


def build_source(spec: IgnitionSyncSpec, git_url: str, ref: str, commit: str) -> CommitSource:
    """A resolved commit with the repository to fetch it from."""
    return CommitSource(commit=commit, ref=ref, git_url=git_url, auth_type=_auth_type(spec))


def build_policy(spec: IgnitionSyncSpec) -> SyncPolicy:
    """The policies of a spec, in numbers."""
    scan, safety, drift = spec.ignition.scan, spec.safety, spec.drift
    ssh = spec.git.auth.ssh_key if spec.git.auth is not None else None
    return SyncPolicy(
        scan_mode=scan.mode,
        scan_order=scan.order,
        scan_request_seconds=clock.parse_duration(scan.request_timeout),
        scan_completion_seconds=clock.parse_duration(scan.completion_timeout),
        delete_policy=safety.delete_policy,
        max_deletes=safety.max_deletes,
        max_delete_percent=safety.max_delete_percent,
        max_files=safety.max_files,
        max_file_bytes=_parse_bytes(safety.max_file_size),
        max_total_bytes=_parse_bytes(safety.max_total_size),
        drift_mode=drift.mode,
        drift_seconds=clock.parse_duration(drift.interval),
        full_hash_seconds=clock.parse_duration(drift.full_hash_interval),
        initial_sync=spec.agent.initial_sync_policy,
        fetch_seconds=clock.parse_duration(spec.git.timeout),
        verify_host_keys=ssh is None or not ssh.insecure_skip_host_key_check,
    )


def build_routing(
    spec: IgnitionSyncSpec, cluster_name: str, protected_paths: Iterable[str] = ()
) -> Routing:
    """The part of a spec that shapes the trees of gateways, with the operator's settings."""
    profiles = None
    if spec.profiles is not None:
        profiles = {name: _build_profile(profile) for name, profile in spec.profiles.items()}
    return Routing(
        profiles=profiles,
        additional_files=tuple(map(_build_file, spec.additional_files)),
        exclude_patterns=spec.exclude_patterns,
        normalize=_build_normalize(spec.normalize),
        deployment_mode_layout=spec.ignition.deployment_mode_layout,
        signature_policy=spec.ignition.signature_policy,
        site_number=spec.site_number,
        cluster_name=cluster_name,
        protected_paths=tuple(map(path_rules.normalize, protected_paths)),
    )


def decode_routing(data: Mapping[str, str]) -> Routing | None:
    """The routing in published data; None if the data is missing or invalid."""
    try:
        return metadata.decode(data).routing
    except metadata.InvalidMetadata:
        return None


def _build_profile(profile: ProfileSpec) -> routing.RoutingProfile:
    return routing.RoutingProfile(
        mappings=tuple(map(_build_mapping, profile.mappings)),
        exclude_patterns=profile.exclude_patterns,
        vars=dict(profile.vars or {}),
        sync_period=profile.sync_period,
        dry_run=profile.dry_run,
        paused=profile.paused,
    )


def _build_mapping(mapping: ProfileMappingSpec) -> routing.RoutingMapping:
    return routing.RoutingMapping(
        source=mapping.source,
        destination=mapping.destination,
        type=mapping.type or "",
        required=mapping.required,
        template=mapping.template,
        patches=tuple(routing.PatchSet(dict(patch.set), patch.file) for patch in mapping.patches),
    )


def _build_file(file: AdditionalFileSpec) -> routing.RoutingFile:
    return routing.RoutingFile(file.source, file.dest, file.type)


def _build_normalize(normalize: Normalize) -> routing.NormalizeRules:
    return routing.NormalizeRules(
        system_name=normalize.system_name,
        system_name_scope=normalize.system_name_scope,
        fields=tuple(
            routing.FieldRule(row.json_path, row.value_template) for row in normalize.fields
        ),
    )


def _auth_type(spec: IgnitionSyncSpec) -> AuthType:
    auth = spec.git.auth
    if auth is None:
        return "none"
    if auth.ssh_key is not None:
        return "ssh"
    return "token" if auth.token is not None else "none"


def _overrides(annotations: Mapping[str, str]) -> Overrides:
    commit = annotations.get(_MASS_DELETE_ANNOTATION, "").strip()
    return Overrides(
        mass_delete=commit if refs.is_object_id(commit) else "",
        rollback=annotations.get(_ROLLBACK_ANNOTATION, "").strip()[:_ROLLBACK_CHARS],
    )


def _trigger(request: str) -> str:
    """A short hash of a request: only changes matter, and users may write any text into it."""
    if not request:
        return ""
    return hashlib.sha256(request.encode("utf-8", "replace")).hexdigest()[:_TRIGGER_CHARS]


def _parse_bytes(text: str) -> int:
    return int(quantity.parse(text))
