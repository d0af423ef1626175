"""The inputs of one agent turn: metadata, pod, mounted Secrets, and the resulting sync request.

Called by the loop once per turn. Pod metadata and Secrets are mounted files that may change or be
missing at any moment, so they are read again for every use. Values of Secrets are in no error and
in no log.

A `SyncRequest` is one commit for one gateway under one routing. It holds everything that a plan
depends on apart from the disk, so equal requests over equal disks give equal plans, whether an
agent or the command line made them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from windlass.base.errors import Waiting
from windlass.base.redaction import process as redactor
from windlass.gateways.tree import gateway_pod, selection
from windlass.gateways.tree.deletes import DeleteAllowance, DeleteSafety
from windlass.gateways.tree.file_policy import Caps
from windlass.gateways.tree.gateway_pod import GatewayPod
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.tree.plan import PlanTarget
from windlass.gateways.tree.selection import GatewaySelection, SourceRevision
from windlass.gateways.wire import metadata as metadatas
from windlass.gateways.wire import routing as routings
from windlass.gateways.wire.metadata import (
    AgentMetadata,
    AuthType,
    CommitSource,
    GatewayEndpoint,
    InvalidMetadata,
    SyncPolicy,
)
from windlass.gateways.wire.routing import Routing
from windlass.git import credentials
from windlass.git.commit_store import RemoteSource
from windlass.git.credentials import ANONYMOUS, SSH_KEYS, Credentials
from windlass.git.errors import GitError, SecretMalformed
from windlass.git.format.remote import Remote, RemoteRefused

_MAX_FILE_BYTES = 1024 * 1024
_RETRY_SECONDS = 15.0
_TOKEN_KEYS = ("token", "bearerToken", "password")
_TRUST_KEYS = ("known_hosts", "ca.crt")

_log: Any = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """The pod of this agent and the IgnitionSync it belongs to."""

    pod_name: str
    pod_uid: str
    namespace: str
    cr_name: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class AgentPaths:
    """The mounted paths of an agent; those of optional Secrets may not exist."""

    data: Path  # data directory of the gateway
    store: Path  # directory of the Git object store
    pod_info: Path  # downward API: files `labels` and `annotations`
    api_key: Path  # file with the gateway's API token, `name:secret`
    git_auth: Path  # directory of the Git Secret
    git_ca: Path  # directory of the Secret with the Git server's CA
    gateway_ca: Path  # file with the CA of the gateway's certificate


def read_pod(identity: AgentIdentity, paths: AgentPaths) -> GatewayPod:
    """The pod with its current labels and annotations, from the downward API."""
    return GatewayPod(
        identity.pod_name,
        identity.namespace,
        gateway_pod.parse_downward_file(_read_text(paths.pod_info / "annotations")),
        gateway_pod.parse_downward_file(_read_text(paths.pod_info / "labels")),
    )


def read_api_token_name(paths: AgentPaths) -> str:
    """The name in the API token; empty while there is none."""
    name, colon, _ = _read_text(paths.api_key).strip().partition(":")
    return name if colon else ""


def gateway_ca(paths: AgentPaths) -> Path | None:
    """The CA file of the gateway's certificate; None if none is mounted."""
    return paths.gateway_ca if paths.gateway_ca.is_file() else None


def read_git_credentials(
    paths: AgentPaths, source: CommitSource, *, verifies_host_keys: bool
) -> Credentials:
    """The credentials for the repository; raises `Waiting` while the Secret is missing."""
    result = ANONYMOUS
    if source.auth_type != "none":
        result = _parse_credentials(_read_secret(paths.git_auth), source.auth_type)
    ca = _read_secret(paths.git_ca).get("ca.crt", b"")
    if ca.strip():
        result = replace(result, ca=ca)
    return replace(result, host_key_verification=verifies_host_keys)


def _parse_credentials(data: dict[str, bytes], auth_type: AuthType) -> Credentials:
    accepted = SSH_KEYS if auth_type == "ssh" else _TOKEN_KEYS
    key = next((name for name in accepted if data.get(name, b"").strip()), None)
    if key is None:
        shown = ", ".join(sorted(data)) or "nothing"
        raise Waiting(
            "WaitingForCredential",
            f"the Git Secret has none of the keys {', '.join(accepted)} (found: {shown}); "
            "create the Secret named by spec.git.auth, or map its key to one of these names in the "
            "volume of the agent",
            after=_RETRY_SECONDS,
        )
    if auth_type == "ssh":
        secret = {
            SSH_KEYS[0]: data[key],
            **_pick_keys(data, "ssh-password", "password", *_TRUST_KEYS),
        }
    elif key == "bearerToken":
        secret = {key: data[key], **_pick_keys(data, *_TRUST_KEYS)}
    else:
        secret = {"token": data[key], **_pick_keys(data, "username", *_TRUST_KEYS)}
    try:
        return credentials.from_secret(secret)
    except SecretMalformed as error:
        raise Waiting("WaitingForCredential", error.message, after=_RETRY_SECONDS) from error


def _pick_keys(data: dict[str, bytes], *names: str) -> dict[str, bytes]:
    return {name: data[name] for name in names if name in data}


def _read_secret(folder: Path) -> dict[str, bytes]:
    """The keys of a mounted Secret; the kubelet's own files begin with two dots."""
    try:
        names = [path for path in folder.iterdir() if not path.name.startswith("..")]
    except OSError:
        return {}
    return {path.name: _read_bytes(path) for path in names if path.is_file()}


def _read_text(path: Path) -> str:
    return _read_bytes(path).decode("utf-8", "replace")


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_FILE_BYTES)
    except OSError:
        return b""


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """One commit for one gateway under one routing."""

    source: RemoteSource  # repository and credentials
    commit: str  # full id
    ref: str  # branch or tag that led to the commit
    routing: Routing  # profiles and mappings of the IgnitionSync
    routing_hash: str  # of `routing`
    pod: GatewayPod  # selects profile and variables
    cr_name: str  # name of the IgnitionSync
    safety: DeleteSafety = field(default_factory=DeleteSafety)  # what may be deleted
    caps: Caps = field(default_factory=Caps)  # how large the plan may be

    @property
    def profile_hash(self) -> str:
        return pod_profile_hash(self.routing_hash, self.pod)

    def target(self, gateway: str) -> PlanTarget:
        """The target that a plan for this request names."""
        return PlanTarget(gateway, self.commit, self.profile_hash, self.routing_hash)


def pod_profile_hash(routing_hash: str, pod: GatewayPod) -> str:
    """The hash of everything that determines a pod's routing (2.8)."""
    return routings.hash_profile(routing_hash, pod.annotations, pod.labels)


def caps_from_policy(policy: SyncPolicy) -> Caps:
    """The limits of a plan from `spec.safety`."""
    return Caps(policy.max_files, policy.max_file_bytes, policy.max_total_bytes)


def delete_safety(
    policy: SyncPolicy, api_token: str, allowed: DeleteAllowance | None
) -> DeleteSafety:
    """The delete rules of `spec.safety`; `api_token` is the name of the token used for scans."""
    return DeleteSafety(
        delete_policy=policy.delete_policy,
        max_deletes=policy.max_deletes,
        max_delete_percent=policy.max_delete_percent,
        api_token=api_token,
        allowed=allowed,
    )


_DEFAULT_PERIOD_SECONDS = 30.0


class NewestMetadata:
    """The metadata of the last ConfigMap that could be decoded, and whether it still exists."""

    def __init__(self) -> None:
        # Keys of that ConfigMap, as the durable state stores them; None before any.
        self.keys: dict[str, str] | None = None
        # The same, decoded.
        self._decoded: AgentMetadata | None = None
        # The ConfigMap does not exist now; what it had is kept but not used.
        self._is_missing = False

    @property
    def current(self) -> AgentMetadata | None:
        """The metadata in force; None before any and while the ConfigMap does not exist."""
        return None if self._is_missing else self._decoded

    def update(self, keys: dict[str, str] | None) -> bool:
        """Take the keys of the ConfigMap, None if it does not exist.

        Keys that cannot be decoded are logged and ignored: the last valid ones stay in force, and
        the result is False.
        """
        if keys is None:
            if not self._is_missing:
                _log.info("metadata ConfigMap not found; keeping current files")
            self._is_missing = True
            return True
        try:
            self._decoded = metadatas.decode(keys)
        except InvalidMetadata as error:
            _log.warning("invalid metadata", error=redactor.clean(str(error)))
            return False
        self.keys, self._is_missing = keys, False
        return True


@dataclass(frozen=True, slots=True)
class AgentInputs:
    """The inputs of one turn."""

    metadata: AgentMetadata | None  # None before any, and while the ConfigMap does not exist
    pod: GatewayPod  # labels and annotations as mounted now
    gateway: str  # name
    selection: GatewaySelection | None = None  # None if the routing does not match the pod
    profile_hash: str = ""  # desired routing of this gateway; empty without metadata
    api_token: str = ""  # name of the token to scan with; empty while there is none

    @property
    def retry_key(self) -> tuple[object, ...]:
        """A key that is equal for equal inputs of a step, so that its failure would repeat."""
        return sync_relevant(self.metadata), dict(self.pod.annotations), dict(self.pod.labels)

    @property
    def excludes(self) -> GlobSet:
        return GlobSet(self.selection.excludes if self.selection is not None else ())

    @property
    def period_seconds(self) -> float:
        """Seconds between two turns without any event."""
        if self.selection is None:
            return _DEFAULT_PERIOD_SECONDS
        return float(self.selection.sync_period_seconds)

    @property
    def is_profile_paused(self) -> bool:
        return self.selection is not None and self.selection.paused

    @property
    def is_paused(self) -> bool:
        """Whether CR or profile is paused, or the CR is being deleted."""
        metadata = self.metadata
        return metadata is not None and (
            metadata.paused or metadata.terminating or self.is_profile_paused
        )

    @property
    def is_dry_run(self) -> bool:
        return self.selection is not None and self.selection.dry_run

    @property
    def access(self) -> GatewayEndpoint:
        """Where the gateway listens; the default before any metadata."""
        return self.metadata.access if self.metadata is not None else GatewayEndpoint()

    @property
    def approved_commits(self) -> frozenset[str]:
        """The commits whose deletions are approved, on the CR or on the gateway's pod."""
        on_cr = self.metadata.overrides.mass_delete if self.metadata is not None else ""
        on_pod = self.pod.annotation("allow-mass-delete") or ""
        return frozenset(commit for commit in (on_cr, on_pod) if commit)

    @property
    def system_name(self) -> str:
        return (self.selection.system_name or "") if self.selection is not None else ""


def sync_relevant(metadata: AgentMetadata | None) -> AgentMetadata | None:
    """The metadata without the fields that no sync depends on."""
    if metadata is None:
        return None
    return dataclasses.replace(metadata, status_objects={}, operator_version="", jitter_ms=0)


def read_inputs(
    metadata: AgentMetadata | None, identity: AgentIdentity, paths: AgentPaths
) -> AgentInputs:
    """The current inputs of a turn; reads files."""
    pod = read_pod(identity, paths)
    name = _gateway_name(pod)
    if metadata is None:
        return AgentInputs(None, pod, name)
    return AgentInputs(
        metadata,
        pod,
        name,
        selection=_select_or_none(metadata, pod, identity.cr_name),
        profile_hash=pod_profile_hash(metadata.routing_hash, pod),
        api_token=read_api_token_name(paths),
    )


def build_request(
    inputs: AgentInputs,
    identity: AgentIdentity,
    paths: AgentPaths,
    allowed: DeleteAllowance | None = None,
) -> SyncRequest:
    """The request for the commit that the metadata names; reads files."""
    metadata = inputs.metadata
    assert metadata is not None
    assert metadata.source is not None
    source = metadata.source
    try:
        remote = Remote.parse(source.git_url)
    except RemoteRefused as error:
        raise GitError("NotFound", f"invalid repository URL: {error}") from error
    credentials = read_git_credentials(
        paths, source, verifies_host_keys=metadata.policy.verify_host_keys
    )
    return SyncRequest(
        source=RemoteSource(remote, credentials),
        commit=source.commit,
        ref=source.ref,
        routing=metadata.routing,
        routing_hash=metadata.routing_hash,
        pod=inputs.pod,
        cr_name=identity.cr_name,
        safety=delete_safety(metadata.policy, inputs.api_token, allowed),
        caps=caps_from_policy(metadata.policy),
    )


def _gateway_name(pod: GatewayPod) -> str:
    try:
        return gateway_pod.name(pod)
    except SyncRefused:
        return pod.name


def _select_or_none(
    metadata: AgentMetadata, pod: GatewayPod, cr_name: str
) -> GatewaySelection | None:
    """The selection, or None if there is none; the sync that follows reports why."""
    source = metadata.source
    revision = (
        SourceRevision(source.commit, source.ref, 0)
        if source is not None
        else SourceRevision("", "", 0)
    )
    try:
        return selection.select(metadata.routing, pod, revision, cr_name=cr_name)
    except SyncRefused:
        return None
