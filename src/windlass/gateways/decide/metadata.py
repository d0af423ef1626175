"""What the controller tells the agents of one IgnitionSync, as keys of a ConfigMap (2.8).

Both sides use this one module, so neither can spell a key differently. Nothing in it moves
by itself: equal wishes give equal keys, whoever computes them and whenever. It never holds
a secret. `source` is one unit: a commit is only ever told together with the repository it
was found in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from windlass.gateways.decide import routing as routings
from windlass.gateways.decide.routing import Routing

SCHEMA = "1"
MOST_JITTER_MS = 30_000

AuthType = Literal["none", "ssh", "token"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Source:
    """A commit, the ref that led to it, and where it is to be had."""

    commit: str
    ref: str
    git_url: str
    auth_type: AuthType = "none"


class Access(Struct, frozen=True, rename="camel"):
    """Where the gateway answers, on loopback."""

    port: int = 8043
    tls: bool = True


class Policy(Struct, frozen=True, kw_only=True, rename="camel"):
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
class Metadata:
    """All of it; without a source nothing was resolved yet.

    An agent starts its gateway without data only where `paused` or `terminating` is said.
    Agents begin a sync at a random moment within `jitter_ms`, for the sake of the Git server.
    """

    routing: Routing
    routing_hash: str
    source: Source | None = None
    policy: Policy = field(default_factory=Policy)
    access: Access = field(default_factory=Access)
    overrides: Overrides = field(default_factory=Overrides)
    status_objects: Mapping[str, StatusObject] = field(default_factory=dict)
    trigger: str = ""
    paused: bool = False
    pause_reason: str = ""
    terminating: bool = False
    jitter_ms: int = 0
    operator_version: str = ""


class NotMetadata(ValueError):
    """Keys that are no metadata of a schema we know; the text says which."""


_encoder = msgspec.json.Encoder(order="sorted")


def encode(metadata: Metadata) -> dict[str, str]:
    """The keys of the ConfigMap."""
    told = {
        "schema": SCHEMA,
        "source": "fetch",
        "paused": _word(metadata.paused),
        "gateway": _json(metadata.access),
        "routing": routings.encode(metadata.routing).decode(),
        "routingHash": metadata.routing_hash,
        "policy": _json(metadata.policy),
        "overrides": _json(metadata.overrides),
        "statusObjects": _json(metadata.status_objects),
        "operatorVersion": metadata.operator_version,
    }
    return told | _source(metadata.source) | _sometimes(metadata)


def decode(data: Mapping[str, str]) -> Metadata:
    """The metadata in a ConfigMap's data; NotMetadata where it is none."""
    if data.get("schema") != SCHEMA:
        raise NotMetadata(f"schema is {data.get('schema', '')[:16]!r}, this version reads {SCHEMA}")
    return Metadata(
        routing=_parsed(data, "routing", Routing),
        routing_hash=data.get("routingHash", ""),
        source=source_of(data),
        policy=_parsed(data, "policy", Policy),
        access=_parsed(data, "gateway", Access),
        overrides=_parsed(data, "overrides", Overrides),
        status_objects=_parsed(data, "statusObjects", dict[str, StatusObject]),
        trigger=data.get("trigger", ""),
        paused=data.get("paused") == "true",
        pause_reason=data.get("pauseReason", ""),
        terminating=data.get("terminating") == "true",
        jitter_ms=_number(data.get("jitterMs", "")),
        operator_version=data.get("operatorVersion", ""),
    )


def source_of(data: Mapping[str, str]) -> Source | None:
    """The source alone; None where the keys tell none."""
    if not data.get("commit") or not data.get("gitURL"):
        return None
    auth = data.get("authType", "none")
    return Source(
        commit=data["commit"],
        ref=data.get("ref", ""),
        git_url=data["gitURL"],
        auth_type="ssh" if auth == "ssh" else "token" if auth == "token" else "none",
    )


def _source(source: Source | None) -> dict[str, str]:
    if source is None:
        return {}
    return {
        "commit": source.commit,
        "ref": source.ref,
        "gitURL": source.git_url,
        "authType": source.auth_type,
    }


def _sometimes(metadata: Metadata) -> dict[str, str]:
    said = {
        "trigger": metadata.trigger,
        "pauseReason": metadata.pause_reason,
        "terminating": _word(metadata.terminating) if metadata.terminating else "",
        "jitterMs": str(metadata.jitter_ms) if metadata.jitter_ms else "",
    }
    return {name: text for name, text in said.items() if text}


def _parsed(data: Mapping[str, str], key: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data.get(key, ""), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotMetadata(f"key {key} cannot be read: {error}") from error


def _json(value: object) -> str:
    return _encoder.encode(value).decode()


def _number(text: str) -> int:
    """A number of milliseconds; nonsense is none, and nobody waits longer than the bound."""
    return min(int(text), MOST_JITTER_MS) if text.isascii() and text.isdecimal() else 0


def _word(truth: bool) -> str:
    return "true" if truth else "false"
