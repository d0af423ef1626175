"""What the annotations of a gateway's pod say about its tree (2.6).

Annotations are free text that no schema checked. A value that would change where files
go is refused when it is wrong; a timer falls back to its default with a warning.
"""

from __future__ import annotations

import re

from windlass.gateways.decide import template
from windlass.gateways.decide.gateway import Pod
from windlass.gateways.decide.mapping import RESERVED_COLLECTIONS
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.routing import PREFIX

SYNC_PERIOD_SECONDS = 30
SHORTEST_PERIOD_SECONDS = 5
LONGEST_PERIOD_SECONDS = 3600
DEFAULT_TAG_PROVIDER = "default"
DEFAULT_LEFT_OUT = "MQTT Engine,MQTT Transmission,MQTT Distributor,System"

KNOWN = frozenset(
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

_LITERALS = ("service-path", "deployment-mode", "tag-provider", "system-name")
_SECONDS = re.compile(r"[0-9]{1,6}")


def check_literals(pod: Pod) -> None:
    """`Refused` for a template in an annotation that is taken as it is."""
    for name in _LITERALS:
        try:
            template.refuse(pod.said(name) or "")
        except ValueError as error:
            hint = "; use system-name-template" if name == "system-name" else ""
            raise Refused("NoRouting", "", f"{PREFIX}{name}: {error}{hint}") from error


def deployment_mode(pod: Pod) -> str:
    """The name of the mode, empty where none is set."""
    mode = pod.said("deployment-mode") or ""
    if mode:
        _check_component("deployment-mode", mode)
    if mode in RESERVED_COLLECTIONS:
        raise _refused("deployment-mode", mode, "is a collection of its own, not a deployment mode")
    return mode


def tag_provider(pod: Pod) -> str:
    """The tag provider that templates speak of."""
    provider = pod.said("tag-provider") or DEFAULT_TAG_PROVIDER
    _check_component("tag-provider", provider)
    return provider


def exclude_patterns(pod: Pod) -> tuple[str, ...]:
    """The pod's own excludes."""
    return listed(pod.said("exclude-patterns") or "")


def tag_provider_patterns(pod: Pod) -> tuple[str, ...]:
    """Excludes for the tags of providers that change at run time; an empty value is none."""
    text = pod.said("exclude-tag-providers")
    names = listed(DEFAULT_LEFT_OUT if text is None else text)
    for name in names:
        _check_component("exclude-tag-providers", name)
    return tuple(f"**/tag-*/{name}/" for name in names)


def sync_period(pod: Pod, profile_seconds: int | None) -> tuple[int, tuple[str, ...]]:
    """The period of the safety-net timer, the profile's first, and what was wrong with it."""
    text = pod.said("sync-period")
    if profile_seconds is not None:
        text = str(profile_seconds)
    if text is None:
        return SYNC_PERIOD_SECONDS, ()
    seconds = int(text) if _SECONDS.fullmatch(text) else 0
    if SHORTEST_PERIOD_SECONDS <= seconds <= LONGEST_PERIOD_SECONDS:
        return seconds, ()
    return SYNC_PERIOD_SECONDS, (
        f"sync period {text[:32]!r} is not a number of seconds from {SHORTEST_PERIOD_SECONDS} "
        f"to {LONGEST_PERIOD_SECONDS}; {SYNC_PERIOD_SECONDS} is used",
    )


def listed(text: str) -> tuple[str, ...]:
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
        raise _refused(name, value, "is not the name of one directory")


def _refused(name: str, value: str, what: str) -> Refused:
    return Refused("NoRouting", "", f"{PREFIX}{name}: {value[:63]!r} {what}")
