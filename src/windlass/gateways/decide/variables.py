"""The names that a template may speak of, and what they mean for one gateway.

A name has a value, or None where this gateway has none (no ordinal, no service path):
asking for such a one is an error, because text that silently lost a part may still be a
valid path. An empty value is a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """What the templates of one gateway at one commit are rendered with."""

    namespace: str | None = None
    cr_name: str | None = None
    gateway_name: str | None = None
    pod_name: str | None = None
    pod_ordinal: int | None = None
    site_number: str | None = None
    cluster_name: str | None = None
    service_path: str | None = None
    deployment_mode: str | None = None
    tag_provider: str | None = None
    profile: str | None = None
    ref: str | None = None
    commit: str | None = None
    timestamp: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    vars: Mapping[str, str] = field(default_factory=dict)

    def value(self, name: str) -> str:
        """What `.name` stands for; LookupError, with words for the user, where nothing does."""
        attribute = NAMES.get(name)
        if attribute is None:
            hint = f"`.{name}` needs a key, as in `.{name}.x`" if name in MAPS else _KNOWN
            raise LookupError(f"there is no `.{name}`: {hint}")
        value = getattr(self, attribute)
        if value is None:
            raise LookupError(f"`.{name}` has no value for this gateway")
        return str(value)

    def entry(self, name: str, key: str) -> str:
        """The value of `key` in the map `.name`; LookupError where there is none."""
        attribute = MAPS.get(name)
        if attribute is None:
            raise LookupError(f"`.{name}` has no keys: only .Labels and .Vars do")
        entries: Mapping[str, str] = getattr(self, attribute)
        if key not in entries:
            raise LookupError(f"`.{name}` has no key {key[:_SHOWN]!r}{_others(entries)}")
        return entries[key]


NAMES = {
    "Namespace": "namespace",
    "CRName": "cr_name",
    "GatewayName": "gateway_name",
    "PodName": "pod_name",
    "PodOrdinal": "pod_ordinal",
    "SiteNumber": "site_number",
    "ClusterName": "cluster_name",
    "ServicePath": "service_path",
    "DeploymentMode": "deployment_mode",
    "TagProvider": "tag_provider",
    "Profile": "profile",
    "Ref": "ref",
    "Commit": "commit",
    "Timestamp": "timestamp",
}
"""Names with one value, as a template spells them."""

MAPS = {"Labels": "labels", "Vars": "vars"}
"""Names that need a key."""

_SHOWN = 63
_KNOWN = "known are " + ", ".join((*NAMES, "Labels.x", "Vars.x"))


def _others(entries: Mapping[str, str]) -> str:
    keys = sorted(entries)[:8]
    return f" (it has {', '.join(keys)})" if keys else " (it is empty)"
