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

# One-time requests and traces of the sidecar injection; none of them shapes the tree.
_IGNORED_ANNOTATIONS = frozenset(
    ANNOTATION_PREFIX + name
    for name in ("inject", "injected", "injection-hash", "allow-mass-delete")
)


class _RoutingStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of all parts of a routing; defaults are omitted so that new fields keep old hashes."""


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

    source: str  # path in the repository; may contain templates
    destination: str  # path in the data directory; may contain templates
    type: Literal["dir", "file", ""] = ""  # expected kind of the source; empty accepts both
    required: bool = False  # a missing source fails the sync
    template: bool = False  # contents are rendered
    patches: tuple[PatchSet, ...] = ()  # applied in this order


class RoutingProfile(_RoutingStruct, frozen=True):
    """`spec.profiles.<name>`."""

    mappings: tuple[RoutingMapping, ...]  # in the order of the spec
    exclude_patterns: tuple[str, ...] = ()  # globs, beside those of the routing
    vars: dict[str, str] = {}  # template variables `.Vars.<name>`
    sync_period: int | None = None  # seconds until agents check by themselves; None: default
    dry_run: bool = False  # agents report what a sync would do
    paused: bool = False  # agents leave the files unchanged


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
    """The part of a CR that shapes the trees of its gateways."""

    profiles: dict[str, RoutingProfile] | None = None  # by name; None where the CR has none
    additional_files: tuple[RoutingFile, ...] = ()  # beside the convention
    exclude_patterns: tuple[str, ...] = DEFAULT_EXCLUDES  # globs on source paths
    normalize: NormalizeRules = NormalizeRules()  # edits of JSON files
    deployment_mode_layout: Literal["overlay", "native"] = "overlay"
    """Whether files of a deployment mode go over those of core, or into its own collection."""
    signature_policy: Literal["drop", "keep"] = "drop"
    """What happens to the signature in resource.json when a file beside it was changed."""
    site_number: str = ""  # template variable `.SiteNumber`
    cluster_name: str = ""  # template variable `.ClusterName`
    protected_paths: tuple[str, ...] = ()
    """Paths on gateways that the operator protects beside the constant ones (PRO-1)."""


_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(Routing)


def encode(routing: Routing) -> bytes:
    """Canonical JSON; raises SyncRefused if it is too large to publish."""
    data = _encoder.encode(routing)
    if len(data) > MAX_ROUTING_BYTES:
        raise SyncRefused(
            "ProfilesInvalid",
            "",
            f"profiles, excludes and normalize rules take {len(data)} bytes, the limit is "
            f"{MAX_ROUTING_BYTES}; shorten them or split the IgnitionSync",
        )
    return data


def decode(data: bytes | str) -> Routing:
    """The routing in `data`; raises ValueError if it is none."""
    return _decoder.decode(data)


def hash_routing(routing: Routing) -> str:
    """The sha256 of a routing's canonical JSON."""
    return hashlib.sha256(_encoder.encode(routing)).hexdigest()


def hash_profile(
    routing_hash: str,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
) -> str:
    """The sha256 of one pod's routing: that of the CR, the pod's annotations and its labels.

    Labels count because templates may use them; the cluster's name is in the routing.
    """
    shaping = {
        name: value
        for name, value in annotations.items()
        if name.startswith(ANNOTATION_PREFIX) and name not in _IGNORED_ANNOTATIONS
    }
    return hashlib.sha256(_encoder.encode([routing_hash, shaping, dict(labels)])).hexdigest()
