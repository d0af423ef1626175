"""The metadata ConfigMap: what the controller publishes to the agents of an IgnitionSync (2.8).

Both sides use this one module, so neither can spell a key differently. Nothing in it changes
by itself: equal specs give equal keys, whoever computes them and whenever. It never holds a
secret. `source` is one unit: a commit is only ever published together with the repository
it was found in.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from windlass.gateways.wire import routing as routings
from windlass.gateways.wire.routing import Routing

SCHEMA = "1"
MAX_JITTER_MS = 30_000

AuthType = Literal["none", "ssh", "token"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CommitSource:
    """A commit, the ref that led to it, and the repository to fetch it from."""

    commit: str
    ref: str
    git_url: str
    auth_type: AuthType = "none"


class GatewayEndpoint(Struct, frozen=True, rename="camel"):
    """The gateway's web server on loopback, as the agent reaches it."""

    port: int = 8043
    tls: bool = True


class SyncPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """The policies of a spec in plain numbers: times in seconds, sizes in bytes."""

    scan_mode: Literal["Required", "BestEffort", "Off"] = "Required"  # does a failed scan fail?
    scan_order: Literal["projects-config", "config-projects"] = "projects-config"
    """Which of the two scans of the gateway comes first."""
    scan_request_seconds: float = 10.0  # timeout of one request to the gateway
    scan_completion_seconds: float = 60.0  # timeout for the gateway to finish a scan
    delete_policy: Literal["Mirror", "Manifest", "Never"] = "Mirror"  # which files may be deleted
    max_deletes: int = 1000  # of one sync, without an override
    max_delete_percent: int = 25  # of the managed files, without an override
    max_files: int = 50_000  # of one plan
    max_file_bytes: int = 100 * 1024**2  # of one file of a plan
    max_total_bytes: int = 2 * 1024**3  # of all files of a plan
    drift_mode: Literal["Off", "Report", "Remediate"] = "Report"  # what happens about drift
    drift_seconds: float = 600.0  # between two comparisons of stats
    full_hash_seconds: float = 86_400.0  # between two comparisons of all contents
    initial_sync: Literal["Wait", "StartAnyway"] = "Wait"  # may a gateway start without files?
    fetch_seconds: float = 120.0  # timeout of a fetch
    verify_host_keys: bool = True  # of SSH


class Overrides(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One-time permissions and requests from the annotations of the CR.

    `mass_delete` is the commit that may exceed the delete limits; `rollback` names a gateway,
    or `*` for all, and acts once for each of its values (DRF-6). Empty for none.
    """

    mass_delete: str = ""
    rollback: str = ""


class StatusObject(Struct, frozen=True):
    """The ConfigMap a pod reports through; a new uid means that the agent must report again."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class AgentMetadata:
    """The decoded metadata ConfigMap.

    An agent starts its gateway without data only if `paused` or `terminating` is set.
    """

    routing: Routing  # in force; older than the spec while the profiles are invalid
    routing_hash: str  # as computed by the controller
    source: CommitSource | None = None  # None until a commit was resolved
    policy: SyncPolicy = field(default_factory=SyncPolicy)  # limits and modes of the spec
    access: GatewayEndpoint = field(default_factory=GatewayEndpoint)  # of the gateway's API
    overrides: Overrides = field(default_factory=Overrides)  # one-time requests
    status_objects: Mapping[str, StatusObject] = field(default_factory=dict)  # by pod name
    trigger: str = ""  # changes with every sync request of a user; opaque
    paused: bool = False  # spec.paused
    pause_reason: str = ""  # shown by agents; empty while not paused
    terminating: bool = False  # the CR is being deleted; files stay in place
    jitter_ms: int = 0  # agents start a sync at a random time within it, to spare the Git server
    operator_version: str = ""  # version of the controller, for information only


class InvalidMetadata(ValueError):
    """The data is not metadata of a supported schema; the message names the key."""


_encoder = msgspec.json.Encoder(order="sorted")


def encode(metadata: AgentMetadata) -> dict[str, str]:
    """The data of the metadata ConfigMap."""
    data = {
        "schema": SCHEMA,
        "source": "fetch",
        "paused": _bool_text(metadata.paused),
        "gateway": _encode_json(metadata.access),
        "routing": routings.encode(metadata.routing).decode(),
        "routingHash": metadata.routing_hash,
        "policy": _encode_json(metadata.policy),
        "overrides": _encode_json(metadata.overrides),
        "statusObjects": _encode_json(metadata.status_objects),
        "operatorVersion": metadata.operator_version,
    }
    return data | _encode_source(metadata.source) | _optional_keys(metadata)


def decode(data: Mapping[str, str]) -> AgentMetadata:
    """The metadata in a ConfigMap's data; raises InvalidMetadata if it is none."""
    if data.get("schema") != SCHEMA:
        raise InvalidMetadata(
            f"unsupported metadata schema {data.get('schema', '')[:16]!r}; supported: {SCHEMA}"
        )
    return AgentMetadata(
        routing=_decode_key(data, "routing", Routing),
        routing_hash=data.get("routingHash", ""),
        source=decode_source(data),
        policy=_decode_key(data, "policy", SyncPolicy),
        access=_decode_key(data, "gateway", GatewayEndpoint),
        overrides=_decode_key(data, "overrides", Overrides),
        status_objects=_decode_key(data, "statusObjects", dict[str, StatusObject]),
        trigger=data.get("trigger", ""),
        paused=data.get("paused") == "true",
        pause_reason=data.get("pauseReason", ""),
        terminating=data.get("terminating") == "true",
        jitter_ms=_parse_jitter_ms(data.get("jitterMs", "")),
        operator_version=data.get("operatorVersion", ""),
    )


def decode_source(data: Mapping[str, str]) -> CommitSource | None:
    """The source alone; None if none is published."""
    if not data.get("commit") or not data.get("gitURL"):
        return None
    auth = data.get("authType", "none")
    return CommitSource(
        commit=data["commit"],
        ref=data.get("ref", ""),
        git_url=data["gitURL"],
        auth_type="ssh" if auth == "ssh" else "token" if auth == "token" else "none",
    )


def _encode_source(source: CommitSource | None) -> dict[str, str]:
    if source is None:
        return {}
    return {
        "commit": source.commit,
        "ref": source.ref,
        "gitURL": source.git_url,
        "authType": source.auth_type,
    }


def _optional_keys(metadata: AgentMetadata) -> dict[str, str]:
    optional = {
        "trigger": metadata.trigger,
        "pauseReason": metadata.pause_reason,
        "terminating": _bool_text(metadata.terminating) if metadata.terminating else "",
        "jitterMs": str(metadata.jitter_ms) if metadata.jitter_ms else "",
    }
    return {name: text for name, text in optional.items() if text}


def _decode_key(data: Mapping[str, str], key: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data.get(key, ""), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMetadata(f"invalid key {key}: {error}") from error


def _encode_json(value: object) -> str:
    return _encoder.encode(value).decode()


def _parse_jitter_ms(text: str) -> int:
    """A number of milliseconds, at most MAX_JITTER_MS; 0 for an invalid text."""
    return min(int(text), MAX_JITTER_MS) if text.isascii() and text.isdecimal() else 0


def _bool_text(value: bool) -> str:
    return "true" if value else "false"
