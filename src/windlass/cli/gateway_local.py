"""The agent's engine on a local directory: the same store, plan and journal, without a cluster.

Behind every command of `windlass gateway`; imported when one runs, because it loads the agent.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from msgspec import structs

from windlass.api.kinds.ignitionsync import IgnitionSync, IgnitionSyncSpec
from windlass.api.kinds.registry import IGNITION_SYNCS
from windlass.api.schema import validation
from windlass.base.clock import SystemClock
from windlass.base.errors import WindlassError
from windlass.cli import gateway_output
from windlass.cli.gateway_options import GatewayOptions
from windlass.gateways.agent import inputs as orders
from windlass.gateways.agent.inputs import SyncRequest
from windlass.gateways.agent.sync import SyncEngine
from windlass.gateways.status import spec_check
from windlass.gateways.tree import gateway_pod, globs, selection
from windlass.gateways.tree.deletes import DeleteAllowance
from windlass.gateways.tree.gateway_pod import GatewayPod
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.manifest import Manifest
from windlass.gateways.tree.selection import SourceRevision
from windlass.gateways.volume.data_volume import DataVolume
from windlass.gateways.volume.lock import LockOwner
from windlass.gateways.wire import metadata, metadata_builder, routing
from windlass.gateways.wire.metadata import GatewayEndpoint, SyncPolicy
from windlass.gateways.wire.routing import ANNOTATION_PREFIX, Routing
from windlass.git import credentials, ls_remote, store_limits
from windlass.git.commit_store import CommitStore, RemoteSource
from windlass.git.credentials import ANONYMOUS, Credentials
from windlass.git.errors import SecretMalformed
from windlass.git.format import refs
from windlass.git.format.remote import Remote, RemoteRefused
from windlass.git.runner import Git
from windlass.git.settings import GitSettings
from windlass.objects import yaml_reader
from windlass.objects.names import Object
from windlass.objects.yaml_reader import NotReadable

if TYPE_CHECKING:
    from windlass.gateways.agent.operations import GatewayOperations
    from windlass.gateways.agent.scanner import GatewayScanner

_STORE_BYTES = 8 * 1024**3
_KIND = "IgnitionSync"
_TOP_LEVEL = frozenset(("apiVersion", "kind", "metadata", "spec", "status"))
# The fields of metadata that users write, and those that `kubectl get -o yaml` adds.
_METADATA = frozenset(
    (
        *("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"),
        *("uid", "generation", "resourceVersion", "creationTimestamp", "managedFields"),
        *("generateName", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"),
    )
)
# Annotations that only a cluster reads, and what to do instead.
_CLUSTER_ANNOTATIONS = {
    "allow-mass-delete": "use --allow-mass-delete of apply",
    "cr-name": "use --cr",
    "inject": "remove it",
}
_LOOPBACK = "http://127.0.0.1:8088"


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    """The inputs, parsed and checked, before the ref is resolved."""

    repo: str  # URL or local directory
    ref: str  # branch, tag, full ref name or SHA
    routing: Routing  # which files go where
    policy: SyncPolicy  # deletes and limits
    pod: GatewayPod  # the gateway, as an agent would read it from its pod
    cr_name: str  # of the IgnitionSync
    api_token: str  # name of the API token to scan with; its resource is never deleted


def read_request(inputs: GatewayOptions) -> GatewayRequest:
    """Merge the options with the IgnitionSync, if one is given; options win."""
    _check_directory(inputs.to)
    check_excludes(inputs.exclude or ())
    cr = _read_cr(inputs.cr) if inputs.cr is not None else None
    repo = inputs.repo or (cr.spec.git.repo if cr else "")
    ref = inputs.ref or (cr.spec.git.ref if cr else "")
    if not repo or not ref:
        raise _usage_error("specify --repo and --ref, or --cr with a file that has both")
    routed = metadata_builder.build_routing(cr.spec, inputs.cluster_name) if cr else Routing()
    problems = spec_check.find_problems(routed) if cr else ()
    if problems:
        raise _usage_error(f"--cr: {inputs.cr}: {spec_check.join_problems(problems)}")
    pod = _pod(inputs, cr.metadata.namespace if cr else "default")
    return GatewayRequest(
        repo=repo,
        ref=ref,
        routing=_with_options(routed, inputs),
        policy=metadata_builder.build_policy(cr.spec) if cr else metadata.SyncPolicy(),
        pod=pod,
        cr_name=cr.metadata.name if cr else "local",
        api_token=read_token_name(inputs.token_file),
    )


async def build_order(
    inputs: GatewayOptions, request: GatewayRequest, git: Git, allowed: str = ""
) -> SyncRequest:
    """The request for a sync, with the commit that the ref resolves to now."""
    if allowed and not refs.is_sha(allowed):
        raise _usage_error("--allow-mass-delete: specify the full commit id")
    source = RemoteSource(_parse_remote(request.repo), _read_credentials(inputs.git_auth))
    commit = await _resolve_commit(git, source, request.ref)
    if allowed and allowed.lower() != commit:
        raise _usage_error(
            f"--allow-mass-delete: {request.ref} resolves to commit {commit}, not {allowed}"
        )
    # Profile, names and patterns that cannot be used are refused before anything is written.
    selection.select(
        request.routing,
        request.pod,
        SourceRevision(commit, request.ref, 0),
        cr_name=request.cr_name,
    )
    hashed = routing.hash_routing(request.routing)
    policy = request.policy
    allowance = DeleteAllowance(commit, hashed, None) if allowed else None
    return SyncRequest(
        source=source,
        commit=commit,
        ref=request.ref,
        routing=request.routing,
        routing_hash=hashed,
        pod=request.pod,
        cr_name=request.cr_name,
        safety=orders.delete_safety(policy, request.api_token, allowance),
        caps=orders.caps_from_policy(policy),
    )


def local_git(inputs: GatewayOptions) -> Git:
    """Git for local use: also with directories of this machine."""
    hosts = frozenset(inputs.insecure_host or ())
    return Git(GitSettings(insecure_hosts=hosts, local_hosts=hosts, allow_file=True))


def check_excludes(patterns: Iterable[str]) -> None:
    """Raise a usage error for an invalid pattern."""
    for pattern in patterns:
        try:
            globs.check_pattern(pattern)
        except ValueError as error:
            raise _usage_error(f"--exclude: {error}") from error


def effective_excludes(manifest: Manifest, more: Iterable[str]) -> GlobSet:
    """The excludes of the last sync, or the defaults where it recorded none, and `more`."""
    known = default_excludes() if manifest.excludes is None else manifest.excludes
    return GlobSet((*known, *more))


def default_excludes() -> tuple[str, ...]:
    """The excludes of a gateway without configured ones."""
    return (*routing.DEFAULT_EXCLUDES, *gateway_pod.tag_provider_patterns(GatewayPod("", "")))


def check_scan(scan: str, token: Path | None) -> None:
    """Raise a usage error for an address or a token that cannot be used for a scan."""
    if scan and token is None:
        raise _usage_error("--scan requires --token-file")
    read_token_name(token)
    if not scan:
        return
    from windlass.gateways.agent.gateway_client import GatewayAddress

    try:
        GatewayAddress(scan)
    except WindlassError as error:
        raise _usage_error(f"--scan: {error.message}") from error


@dataclass(frozen=True, slots=True)
class LocalScan:
    """The result of a scan; `failure` is why the gateway has not read its files."""

    text: str
    failure: WindlassError | None = None

    def raise_failure(self) -> None:
        """Raise the failure, if there is one."""
        if self.failure is not None:
            raise self.failure


async def run_scan(work: GatewayOperations, policy: SyncPolicy, scan: str) -> LocalScan:
    """Run the pending scans of the gateway, if an address is given."""
    if not scan:
        return LocalScan("skipped")
    try:
        result = await work.scan(GatewayEndpoint(), policy, is_booting=False)
    except WindlassError as error:
        message = gateway_output.with_flags(error.message)
        return LocalScan(f"failed ({error.reason})", WindlassError(error.reason, message))
    return LocalScan(result.text or "not needed")


@dataclass(frozen=True, slots=True)
class LocalGateway:
    """A data directory with an engine over it."""

    applier: DataVolume
    store: CommitStore
    engine: SyncEngine


@contextlib.contextmanager
def open_gateway(data: Path, git: Git, repo: str = "") -> Iterator[LocalGateway]:
    """The directory and the store for `repo`, for as long as the block runs."""
    _check_directory(data)
    store_limits.limit_pack_windows()
    with _open_store(git, repo) as store, DataVolume(data, _lock_owner()) as applier:
        yield LocalGateway(applier, store, SyncEngine(applier, store))


def agent_operations(
    gateway: LocalGateway, scan: str, token_file: Path | None
) -> GatewayOperations:
    """The agent's operations on the directory; `scan` is the gateway's address, if one runs."""
    # A plan needs neither an HTTP client nor metrics, and they take half a second to load.
    from prometheus_client import CollectorRegistry

    from windlass.gateways.agent.operations import GatewayOperations
    from windlass.gateways.agent.scanner import GatewayScanner
    from windlass.telemetry import logs
    from windlass.telemetry.gateways import AgentMetrics

    def scanner(_: GatewayEndpoint) -> GatewayScanner:
        return GatewayScanner(scan or _LOOPBACK, token_file or Path("/nonexistent"))

    # What an agent logs, a command prints as its result.
    logs.configure(format="auto", level="warning")
    metrics = AgentMetrics(CollectorRegistry())
    return GatewayOperations(gateway.applier, gateway.store, scanner, SystemClock(), metrics)


@contextlib.contextmanager
def _open_store(git: Git, repo: str) -> Iterator[CommitStore]:
    """A store of this user, by repository; one command at a time uses it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "windlass" / "gateways"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = hashlib.sha256(repo.encode()).hexdigest()[:16]
    with (folder / f"{name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        store = CommitStore.open(git, folder / name, cap_bytes=_STORE_BYTES)
        try:
            yield store
        finally:
            store.close()


def _lock_owner() -> LockOwner:
    host = socket.gethostname()
    return LockOwner(f"local-{host}-{os.getpid()}", "windlass-gateway", host)


async def _resolve_commit(git: Git, source: RemoteSource, ref: str) -> str:
    if refs.is_sha(ref):
        return ref.lower()
    try:
        wants = refs.ref_patterns(ref)
        listing = await ls_remote.list_refs(git, source.remote, source.credentials, wants)
        return refs.resolve_ref(listing, ref).commit
    except refs.RefUnknown as error:
        raise WindlassError("RefNotFound", str(error)) from error


def _parse_remote(repo: str) -> Remote:
    text = repo
    if "://" not in repo and Path(repo).is_dir():
        text = f"file://{Path(repo).resolve()}"
    elif repo.startswith(("/", ".", "~")):
        raise _usage_error(f"--repo: {repo} is not a directory; specify a URL or a bare repository")
    try:
        return Remote.parse(text)
    except RemoteRefused as error:
        raise _usage_error(f"--repo: {error}") from error


def _read_credentials(folder: Path | None) -> Credentials:
    if folder is None:
        return ANONYMOUS
    try:
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    except OSError as error:
        raise _usage_error(f"--git-auth: {folder}: {error.strerror}") from error
    try:
        return credentials.from_secret(files)
    except SecretMalformed as error:
        raise _usage_error(f"--git-auth: {folder}: {error.message}") from error


def read_token_name(path: Path | None) -> str:
    """The name in an API token file; empty without a file."""
    if path is None:
        return ""
    # Its HTTP library takes longer to load than a plan to make.
    from windlass.gateways.agent import gateway_client

    try:
        token = gateway_client.parse_token(path.read_bytes())
    except OSError as error:
        raise _usage_error(f"--token-file: {path}: {error.strerror}") from error
    if token is None:
        raise _usage_error(f"--token-file: {path} must contain one line `name:secret`")
    return token.partition(":")[0]


def _read_cr(path: Path) -> IgnitionSync:
    try:
        documents = yaml_reader.read_all(path.read_bytes())
    except OSError as error:
        raise _usage_error(f"--cr: {path}: {error.strerror}") from error
    except NotReadable as error:
        raise _usage_error(f"--cr: {path}: {error}") from error
    resources = [
        document
        for document in documents
        if isinstance(document, dict) and document.get("kind") == _KIND
    ]
    if len(resources) != 1:
        raise _usage_error(f"--cr: {path} must contain exactly one {_KIND}, found {len(resources)}")
    resource = resources[0]
    _check_api_version(path, resource)
    unknown = [name for name in resource if name not in _TOP_LEVEL]
    meta = resource.get("metadata")
    names = meta if isinstance(meta, dict) else ()
    unknown += [f"metadata.{name}" for name in names if name not in _METADATA]
    unknown += validation.unknown_fields(IgnitionSyncSpec, resource.get("spec"))
    if unknown:
        # The API server would drop them with a warning; here they would go unnoticed.
        noun = "field" if len(unknown) == 1 else "fields"
        raise _usage_error(f"--cr: {path}: unknown {noun} {', '.join(unknown)}")
    return IgnitionSync.decode(orjson.dumps(resource))


def _check_api_version(path: Path, resource: Object) -> None:
    expected = IGNITION_SYNCS.api_version
    # A file for this command alone may omit it.
    if resource.get("apiVersion", expected) != expected:
        raise _usage_error(
            f"--cr: {path}: unsupported apiVersion {resource['apiVersion']!r}; use {expected}"
        )


def _check_directory(data: Path) -> None:
    if not data.is_dir():
        raise _usage_error(f"--to: {data} is not a directory; specify the gateway's data directory")


def _with_options(routed: Routing, inputs: GatewayOptions) -> Routing:
    return structs.replace(
        routed,
        site_number=inputs.site_number or routed.site_number,
        cluster_name=inputs.cluster_name,
    )


def _annotations(inputs: GatewayOptions) -> dict[str, str]:
    given = _parse_pairs(inputs.annotation, "--annotation")
    for name in sorted(given.keys() & _CLUSTER_ANNOTATIONS.keys()):
        raise _usage_error(f"--annotation: {name} has no effect here; {_CLUSTER_ANNOTATIONS[name]}")
    known = gateway_pod.KNOWN_ANNOTATIONS - _CLUSTER_ANNOTATIONS.keys()
    for name in sorted(given.keys() - known):
        raise _usage_error(
            f"--annotation: unknown key {name!r}; supported: {', '.join(sorted(known))}"
        )
    return given


def _pod(inputs: GatewayOptions, namespace: str) -> GatewayPod:
    flags = {
        "service-path": inputs.service_path,
        "profile": inputs.profile,
        "gateway-name": inputs.gateway_name,
        "deployment-mode": inputs.deployment_mode,
        "tag-provider": inputs.tag_provider,
        "exclude-patterns": ",".join(
            pattern.replace(",", "\\,") for pattern in inputs.exclude or ()
        ),
    }
    # An empty flag is one that was not given; an empty annotation is a value.
    given = {name: text for name, text in flags.items() if text} | _annotations(inputs)
    annotations = {ANNOTATION_PREFIX + name: text for name, text in given.items()}
    name = inputs.pod_name or inputs.gateway_name or "gateway"
    return GatewayPod(name, namespace, annotations, _parse_pairs(inputs.label, "--label"))


def _parse_pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts or ()]
    wrong = [name for name, equals, _ in pairs if not name or not equals]
    if wrong:
        raise _usage_error(f"{option}: expected KEY=VALUE")
    return {name: value for name, _, value in pairs}


def _usage_error(text: str) -> WindlassError:
    return WindlassError("Usage", text)
