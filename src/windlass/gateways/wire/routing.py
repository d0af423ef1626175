"""The routing: where files go, as the controller publishes it, and the hashes of it (2.8).

`Routing` is everything of a CR that shapes the tree of its gateways: the same routing,
annotations, labels and commit give the same tree. So a gateway is synced only for a
commit and a profile hash. Controller and agents hash what they have themselves; the
agent takes `routing_hash` from the metadata as it is, so versions cannot disagree on it.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec

from windlass.gateways.tree.path_rules import SyncRefused

MAX_ROUTING_BYTES = 256 * 1024
ANNOTATION_PREFIX = "ignition-sync.io/"
DEFAULT_EXCLUDES = ("**/.git/", "**/.gitkeep", "**/.resources/**")
ALWAYS_EXCLUDED = "**/.resources/**"

# They ask for something once, or say how the sidecar came in; none of them shapes the tree.
_IGNORED_ANNOTATIONS = frozenset(
    ANNOTATION_PREFIX + name
    for name in ("inject", "injected", "injection-hash", "allow-mass-delete")
)


class _RoutingStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class RoutingFile(_RoutingStruct, frozen=True):
    """`spec.additionalFiles[]`."""

    source: str
    dest: str
    type: Literal["file", "dir"] = "file"


class PatchSet(_RoutingStruct, frozen=True):
    """`patches[]`: JSON paths with their values, for the files that `file` matches."""

    set: dict[str, str]
    file: str = ""


class RoutingMapping(_RoutingStruct, frozen=True):
    """`spec.profiles.<name>.mappings[]`."""

    source: str
    destination: str
    type: Literal["dir", "file", ""] = ""
    required: bool = False
    template: bool = False
    patches: tuple[PatchSet, ...] = ()


class RoutingProfile(_RoutingStruct, frozen=True):
    """`spec.profiles.<name>`."""

    mappings: tuple[RoutingMapping, ...]
    exclude_patterns: tuple[str, ...] = ()
    vars: dict[str, str] = {}
    sync_period: int | None = None
    dry_run: bool = False
    paused: bool = False


class FieldRule(_RoutingStruct, frozen=True):
    """`spec.normalize.fields[]`."""

    json_path: str
    value_template: str


class NormalizeRules(_RoutingStruct, frozen=True):
    """`spec.normalize`."""

    system_name: bool = False
    system_name_scope: Literal["AnyDepth", "TopLevel"] = "AnyDepth"
    fields: tuple[FieldRule, ...] = ()


class Routing(_RoutingStruct, frozen=True):
    """All of a CR that shapes trees; `profiles` is None where the CR has none."""

    profiles: dict[str, RoutingProfile] | None = None
    additional_files: tuple[RoutingFile, ...] = ()
    exclude_patterns: tuple[str, ...] = DEFAULT_EXCLUDES
    normalize: NormalizeRules = NormalizeRules()
    deployment_mode_layout: Literal["overlay", "native"] = "overlay"
    signature_policy: Literal["drop", "keep"] = "drop"
    site_number: str = ""
    cluster_name: str = ""
    protected_paths: tuple[str, ...] = ()
    """Paths on gateways that the operator protects beside the constant ones (PRO-1)."""


_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(Routing)


def encode(routing: Routing) -> bytes:
    """Canonical JSON; `Refused` where it is too large to publish."""
    data = _encoder.encode(routing)
    if len(data) > MAX_ROUTING_BYTES:
        raise SyncRefused(
            "ProfilesInvalid",
            "",
            f"profiles, excludes and normalize rules take {len(data)} bytes, "
            f"{MAX_ROUTING_BYTES} can be published; split the CR or shorten them",
        )
    return data


def decode(data: bytes | str) -> Routing:
    """The routing in the metadata; ValueError where it is none."""
    return _decoder.decode(data)


def hash_routing(routing: Routing) -> str:
    """The name of a routing."""
    return hashlib.sha256(_encoder.encode(routing)).hexdigest()


def hash_profile(
    routing_hash: str,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
) -> str:
    """The name of one pod's routing: the CR's, with all that the pod adds to it.

    Labels count because templates may use them; the cluster's name is in the routing.
    """
    own = {
        name: value
        for name, value in annotations.items()
        if name.startswith(ANNOTATION_PREFIX) and name not in _IGNORED_ANNOTATIONS
    }
    return hashlib.sha256(_encoder.encode([routing_hash, own, dict(labels)])).hexdigest()
