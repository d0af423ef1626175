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
    """A commit, the ref that led to it, and where it is to be had."""

    commit: str
    ref: str
    git_url: str
    auth_type: AuthType = "none"


class GatewayEndpoint(Struct, frozen=True, rename="camel"):
    """Where the gateway answers, on loopback."""

    port: int = 8043
    tls: bool = True


class SyncPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How careful an agent is: times in seconds, sizes in bytes."""

    scan_mode: Literal["Required", "BestEffort", "Off"] = "Required"
    scan_order: Literal["projects-config", "config-projects"] = "projects-config"
    scan_request_seconds: float = 10.0
    scan_completion_seconds: float = 60.0
    delete_policy: Literal["Mirror", "Manifest", "Never"] = "Mirror"
    max_deletes: int = 1000
    max_delete_percent: int = 25
    max_files: int = 50_000
    max_file_bytes: int = 100 * 1024**2
    max_total_bytes: int = 2 * 1024**3
    drift_mode: Literal["Off", "Report", "Remediate"] = "Report"
    drift_seconds: float = 600.0
    full_hash_seconds: float = 86_400.0
    initial_sync: Literal["Wait", "StartAnyway"] = "Wait"
    fetch_seconds: float = 120.0
    verify_host_keys: bool = True


class Overrides(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a person asked for once.

    `mass_delete` is the commit that may delete much; `rollback` names a gateway, or `*` for
    all, and acts once for each of its values (DRF-6).
    """

    mass_delete: str = ""
    rollback: str = ""


class StatusObject(Struct, frozen=True):
    """The ConfigMap a pod reports through; a new uid means that it has to report again."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class AgentMetadata:
    """All of it; without a source nothing was resolved yet.

    An agent starts its gateway without data only where `paused` or `terminating` is said.
    Agents begin a sync at a random moment within `jitter_ms`, for the sake of the Git server.
    """

    routing: Routing
    routing_hash: str
    source: CommitSource | None = None
    policy: SyncPolicy = field(default_factory=SyncPolicy)
    access: GatewayEndpoint = field(default_factory=GatewayEndpoint)
    overrides: Overrides = field(default_factory=Overrides)
    status_objects: Mapping[str, StatusObject] = field(default_factory=dict)
    trigger: str = ""
    paused: bool = False
    pause_reason: str = ""
    terminating: bool = False
    jitter_ms: int = 0
    operator_version: str = ""


class InvalidMetadata(ValueError):
    """Keys that are no metadata of a schema we know; the text says which."""


_encoder = msgspec.json.Encoder(order="sorted")


def encode(metadata: AgentMetadata) -> dict[str, str]:
    """The keys of the ConfigMap."""
    told = {
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
    return told | _encode_source(metadata.source) | _optional_keys(metadata)


def decode(data: Mapping[str, str]) -> AgentMetadata:
    """The metadata in a ConfigMap's data; NotMetadata where it is none."""
    if data.get("schema") != SCHEMA:
        raise InvalidMetadata(
            f"schema is {data.get('schema', '')[:16]!r}, this version reads {SCHEMA}"
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
    """The source alone; None where the keys tell none."""
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
    said = {
        "trigger": metadata.trigger,
        "pauseReason": metadata.pause_reason,
        "terminating": _bool_text(metadata.terminating) if metadata.terminating else "",
        "jitterMs": str(metadata.jitter_ms) if metadata.jitter_ms else "",
    }
    return {name: text for name, text in said.items() if text}


def _decode_key(data: Mapping[str, str], key: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data.get(key, ""), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMetadata(f"key {key} cannot be read: {error}") from error


def _encode_json(value: object) -> str:
    return _encoder.encode(value).decode()


def _parse_jitter_ms(text: str) -> int:
    """A number of milliseconds; nonsense is none, and nobody waits longer than the bound."""
    return min(int(text), MAX_JITTER_MS) if text.isascii() and text.isdecimal() else 0


def _bool_text(truth: bool) -> str:
    return "true" if truth else "false"
