"""Drift of the objects that isolate an Environment: network policies, quota, limits, bindings.

They are the operator's as a whole. Equality of managedFields does not cover a field that
another manager adds, and one added field opens a NetworkPolicy; so everything of such an
object but its metadata is compared, and any difference is drift.

| Observed | Decision |
|---|---|
| content equal, amounts by value | nothing to do |
| content differs | restore it at once |
| restored five times in a row | Contested; restore at most every five seconds |
| a foreign NetworkPolicy | name it; where code is untrusted, remove it if it allows traffic |

Restorations are in a row as long as less than a minute lies between them.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from windlass.objects import quantity
from windlass.objects.names import JSON, Object

CONTESTED_AFTER = 5
QUIET_SECONDS = 60.0
"""An object that stays as restored for so long is no longer contested."""

SLOWEST_SECONDS = 5.0
"""However long somebody keeps on, drift lasts no longer than this."""

_SHARED_FIELDS = frozenset({"apiVersion", "kind", "metadata", "status"})
_QUANTITY_KINDS = frozenset({"ResourceQuota", "LimitRange"})
"""Kinds whose values are amounts; in a selector `1` and `1.0` are two labels."""

_REMEDIES = {
    "NetworkPolicy": "to allow traffic set spec.network of the Project",
    "ResourceQuota": "to allow more set spec.resources of the Project or spec.quota",
    "LimitRange": "to allow more set spec.resources of the Project",
}


@dataclass(frozen=True, slots=True)
class Contest:
    """Restorations of one object in a row.

    count:  how many there were
    last:   monotonic time of the last one
    writer: who made the last one necessary; empty where nobody signs a change
    """

    count: int = 0
    last: float = 0.0
    writer: str = ""

    def after_restoration(self, now: float, writer: str) -> Contest:
        """The contest after one more restoration."""
        count = 1 if now - self.last >= QUIET_SECONDS else self.count + 1
        return replace(self, count=count, last=now, writer=writer)

    def is_open(self, now: float) -> bool:
        """Whether somebody keeps changing the object."""
        return self.count >= CONTESTED_AFTER and now - self.last < QUIET_SECONDS

    def wait(self, now: float) -> float:
        """Seconds until the next restoration; the first ones come at once."""
        if not self.is_open(now):
            return 0.0
        pause = min(SLOWEST_SECONDS, 2.0 ** (self.count - CONTESTED_AFTER))
        return max(0.0, pause - (now - self.last))


def exclusive_content(obj: Object) -> Object:
    """What an object says beside its metadata and status, as the API server stores it."""
    found = {name: value for name, value in obj.items() if name not in _SHARED_FIELDS}
    stored: Object = _as_stored(found)
    return stored


def has_exact_content(desired: Object, live: Object) -> bool:
    """Whether `live` says what `desired` says, and nothing more."""
    amounts = desired["kind"] in _QUANTITY_KINDS
    return _is_equal(exclusive_content(desired), exclusive_content(live), amounts=amounts)


def needs_replacement(desired: Object, live: Object) -> bool:
    """Whether no update turns `live` into `desired`, because what differs is immutable."""
    if desired["kind"] == "RoleBinding":
        return bool(desired["roleRef"] != live.get("roleRef"))
    if desired["kind"] != "ResourceQuota":
        return False
    spec, there = desired["spec"], live.get("spec") or {}
    return any(spec.get(name) != there.get(name) for name in ("scopes", "scopeSelector"))


def other_writers(live: Object | None, us: str) -> tuple[str, ...]:
    """Managers beside `us` that own content of `live`, the latest first."""
    rows = ((live or {}).get("metadata") or {}).get("managedFields") or []
    ours = [row for row in rows if row.get("manager") != us and _owns_content(row)]
    ours.sort(key=lambda row: str(row.get("time") or ""), reverse=True)
    return tuple(dict.fromkeys(str(row.get("manager")) for row in ours))


def allows_traffic(policy: Object) -> bool:
    """Whether a NetworkPolicy opens anything; those without rules only deny."""
    spec = policy.get("spec") or {}
    return bool(spec.get("ingress") or spec.get("egress"))


def contest_message(kind: str, name: str, contest: Contest) -> str:
    """What a condition says about a contested object."""
    writer = f"field manager {contest.writer}" if contest.writer else "somebody who deletes it"
    remedy = _REMEDIES.get(kind)
    return (
        f"{kind} {name} was restored {contest.count} times in a row, against {writer}; "
        f"stop that writer{f', or {remedy}' if remedy else ''}"
    )


def unmanaged_policies_message(policies: Sequence[Object], us: str) -> str:
    """Names the NetworkPolicies of somebody else that hold beside ours; empty if none do."""
    if not policies:
        return ""
    noun = "NetworkPolicy" if len(policies) == 1 else "NetworkPolicies"
    return f"{noun} not managed by windlass: {', '.join(_policy_names(policies, us))}"


def _policy_names(policies: Sequence[Object], us: str) -> Iterator[str]:
    for policy in policies:
        names = other_writers(policy, us)
        by = f" (by {names[0]})" if names else ""
        yield f"{policy['metadata']['name']}{by}"


def _owns_content(row: Object) -> bool:
    if row.get("subresource"):
        return False
    return any(name.removeprefix("f:") not in _SHARED_FIELDS for name in row.get("fieldsV1") or {})


def _as_stored(value: JSON) -> JSON:
    """Without nulls, empty lists and labels, which the API server leaves out of what it stores."""
    if isinstance(value, dict):
        pairs = ((name, _as_stored(below)) for name, below in value.items())
        return {name: below for name, below in pairs if not _is_omitted(name, below)}
    if isinstance(value, list):
        return [_as_stored(item) for item in value]
    return value


def _is_omitted(name: str, value: JSON) -> bool:
    # Other empty maps stay: a namespaceSelector without terms selects every namespace.
    return value is None or value == [] or (name == "matchLabels" and value == {})


def _is_equal(one: JSON, other: JSON, *, amounts: bool) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _is_equal(one[name], other[name], amounts=amounts) for name in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _is_equal(mine, theirs, amounts=amounts)
            for mine, theirs in zip(one, other, strict=True)
        )
    if one == other:
        return isinstance(one, bool) is isinstance(other, bool)
    return amounts and isinstance(one, str) and isinstance(other, str) and quantity.same(one, other)
