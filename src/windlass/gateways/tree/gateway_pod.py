"""The pod of a gateway: its name (DSC-4), its annotations (2.6) and its downward API files.

Replicas of one StatefulSet share labels and annotations, so their names get the ordinal. The first
replica keeps the plain name: scaling up renames no gateway.

Annotations are free text that no schema checked. An invalid value is refused if it determines where
files go; a timer falls back to its default with a warning.

The kubelet writes labels and annotations into files, one `name="value"` per line, the value quoted
like a Go string. Parsing never fails: a malformed line is skipped, because half a file is better
than no gateway.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.gateways.render import template
from windlass.gateways.tree.mapping import RESERVED_COLLECTIONS
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire.routing import ANNOTATION_PREFIX

_DOWNWARD_LINE = re.compile(r'([^="\s]+)="((?:[^"\\]|\\.)*)"')
_GO_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)")
_NAMED_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LAST_CODE_POINT = 0x10FFFF


def parse_downward_file(text: str) -> dict[str, str]:
    """The pairs in a file of the downward API."""
    lines = (_DOWNWARD_LINE.fullmatch(line) for line in text.split("\n"))
    return {line[1]: _unquote(line[2]) for line in lines if line is not None}


def _unquote(quoted: str) -> str:
    return _GO_ESCAPE.sub(_unescape, quoted) if "\\" in quoted else quoted


def _unescape(escape: re.Match[str]) -> str:
    body = escape[1]
    if body[0] in "xuU" and len(body) > 1:
        code = int(body[1:], 16)
        return chr(code) if code <= _LAST_CODE_POINT else "\ufffd"
    if len(body) > 1:
        return chr(int(body, 8) & 0xFF)
    return _NAMED_ESCAPES.get(body, body)


NAME_ANNOTATION = f"{ANNOTATION_PREFIX}gateway-name"
NAME_LABEL = "app.kubernetes.io/name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"
# Only the StatefulSet controller sets it, to the pod's own name.
STATEFUL_LABEL = "statefulset.kubernetes.io/pod-name"

_GATEWAY_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,61}[A-Za-z0-9])?")
_ORDINAL = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class GatewayPod:
    """The fields of a gateway's pod that its tree depends on."""

    name: str
    namespace: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def annotation(self, name: str) -> str | None:
        """The value of one of our annotations without blanks around it, None if absent."""
        value = self.annotations.get(ANNOTATION_PREFIX + name)
        return None if value is None else value.strip()


def pod_ordinal(pod: GatewayPod) -> int | None:
    """The index of the replica in its StatefulSet; None for other pods."""
    text = pod.labels.get(INDEX_LABEL, "")
    if not text and pod.labels.get(STATEFUL_LABEL) == pod.name:
        text = pod.name.rpartition("-")[2]
    return int(text) if _ORDINAL.fullmatch(text) else None


def name(pod: GatewayPod) -> str:
    """The gateway's name; raises `SyncRefused` for an invalid annotation."""
    annotated = pod.annotation("gateway-name")
    if annotated and not _GATEWAY_NAME.fullmatch(annotated):
        raise SyncRefused(
            "NoRouting",
            "",
            f"{NAME_ANNOTATION}: {annotated[:63]!r} must consist of letters, digits, spaces, "
            "'.', '_' or '-', be at most 63 characters long, and start and end with a letter "
            "or digit",
        )
    base_name = annotated or pod.labels.get(NAME_LABEL, "")
    ordinal = pod_ordinal(pod)
    if not base_name:
        return pod.name
    # Ordinal 0 as well as none: the first replica keeps the plain name.
    return f"{base_name}-{ordinal}" if ordinal else base_name


SYNC_PERIOD_SECONDS = 30
SHORTEST_PERIOD_SECONDS = 5
LONGEST_PERIOD_SECONDS = 3600
DEFAULT_TAG_PROVIDER = "default"
DEFAULT_EXCLUDED_TAG_PROVIDERS = "MQTT Engine,MQTT Transmission,MQTT Distributor,System"

KNOWN_ANNOTATIONS = frozenset(
    (
        "allow-mass-delete",
        "cr-name",
        "deployment-mode",
        "exclude-patterns",
        "exclude-tag-providers",
        "gateway-name",
        "inject",
        "profile",
        "service-path",
        "sync-period",
        "system-name",
        "system-name-template",
        "tag-provider",
    )
)
"""Every annotation of a pod that is read, without its prefix."""

_LITERAL_ANNOTATIONS = ("service-path", "deployment-mode", "tag-provider", "system-name")
_SECONDS = re.compile(r"[0-9]{1,6}")


def check_literals(pod: GatewayPod) -> None:
    """Raise `SyncRefused` for a template in an annotation that is not rendered."""
    for name in _LITERAL_ANNOTATIONS:
        try:
            template.reject_template(pod.annotation(name) or "")
        except ValueError as error:
            hint = "; use system-name-template" if name == "system-name" else ""
            raise SyncRefused(
                "NoRouting", "", f"{ANNOTATION_PREFIX}{name}: {error}{hint}"
            ) from error


def deployment_mode(pod: GatewayPod) -> str:
    """The deployment mode; empty if none is annotated."""
    mode = pod.annotation("deployment-mode") or ""
    if mode:
        _check_component("deployment-mode", mode)
    if mode in RESERVED_COLLECTIONS:
        raise _annotation_refused(
            "deployment-mode", mode, "is a reserved collection, not a deployment mode"
        )
    return mode


def tag_provider(pod: GatewayPod) -> str:
    """The tag provider, a variable of templates."""
    provider = pod.annotation("tag-provider") or DEFAULT_TAG_PROVIDER
    _check_component("tag-provider", provider)
    return provider


def exclude_patterns(pod: GatewayPod) -> tuple[str, ...]:
    """The exclude patterns that are annotated on the pod."""
    return split_list(pod.annotation("exclude-patterns") or "")


def tag_provider_patterns(pod: GatewayPod) -> tuple[str, ...]:
    """Excludes for tags of providers that change at run time; an empty annotation means none."""
    text = pod.annotation("exclude-tag-providers")
    names = split_list(DEFAULT_EXCLUDED_TAG_PROVIDERS if text is None else text)
    for name in names:
        _check_component("exclude-tag-providers", name)
    return tuple(f"**/tag-*/{name}/" for name in names)


def sync_period(pod: GatewayPod, profile_seconds: int | None) -> tuple[int, tuple[str, ...]]:
    """The sync period in seconds, from the profile or the pod, and warnings about its value."""
    text = pod.annotation("sync-period")
    if profile_seconds is not None:
        text = str(profile_seconds)
    if text is None:
        return SYNC_PERIOD_SECONDS, ()
    seconds = int(text) if _SECONDS.fullmatch(text) else 0
    if SHORTEST_PERIOD_SECONDS <= seconds <= LONGEST_PERIOD_SECONDS:
        return seconds, ()
    return SYNC_PERIOD_SECONDS, (
        f"sync period {text[:32]!r} must be a number of seconds from "
        f"{SHORTEST_PERIOD_SECONDS} to {LONGEST_PERIOD_SECONDS}; using {SYNC_PERIOD_SECONDS}",
    )


def split_list(text: str) -> tuple[str, ...]:
    r"""The parts of a comma list without blanks around them; `\,` is a comma in a part."""
    parts = [""]
    escaped = False
    for char in text:
        if escaped:
            parts[-1] += char if char == "," else f"\\{char}"
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            parts.append("")
        else:
            parts[-1] += char
    parts[-1] += "\\" if escaped else ""
    return tuple(part.strip() for part in parts if part.strip())


def _check_component(name: str, value: str) -> None:
    if "/" in value or "\\" in value or value in (".", "..") or not value.isprintable():
        raise _annotation_refused(name, value, "must be the name of a single directory")


def _annotation_refused(name: str, value: str, what: str) -> SyncRefused:
    return SyncRefused("NoRouting", "", f"{ANNOTATION_PREFIX}{name}: {value[:63]!r} {what}")
