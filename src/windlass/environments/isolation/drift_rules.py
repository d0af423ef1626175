"""Drift of the objects that isolate an Environment: network policies, quota, limits, bindings.

They are the operator's as a whole. Equality of managedFields does not cover a field that
another manager adds, and one added field opens a NetworkPolicy; so the whole content of such an
object except its metadata is compared, and any difference is drift.

| Observed | Decision |
|---|---|
| content equal, amounts by value | nothing to do |
| content differs | restore it at once |
| restored five times in a row | Contested; restore at most every five seconds |
| a foreign NetworkPolicy | report it; if untrusted, delete it if it allows traffic |
| a finalizer keeps it | report its finalizer; it still allows traffic |

Restorations are in a row as long as less than a minute lies between them.

Called by `isolation_writer`.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass.objects import quantity
from windlass.objects.names import JSON, Object

CONTESTED_AFTER = 5
"""Restorations in a row after which an object is contested."""

QUIET_SECONDS = 60.0
"""An object that stays as restored for so long is no longer contested."""

SLOWEST_SECONDS = 5.0
"""The longest pause between restorations, and so the longest that drift lasts."""

_SHARED_FIELDS = frozenset({"apiVersion", "kind", "metadata", "status"})
_QUANTITY_KINDS = frozenset({"ResourceQuota", "LimitRange"})
"""Kinds whose values are amounts; in a selector `1` and `1.0` are two labels."""

_SETTINGS = {
    "NetworkPolicy": "spec.network of the Project",
    "ResourceQuota": "spec.resources of the Project or spec.quota",
    "LimitRange": "spec.resources of the Project",
}
"""The fields by which users change what an object of ours has; none for other kinds."""


@dataclass(frozen=True, slots=True)
class Contest:
    """Restorations of one object in a row.

    count:      number of restorations
    last:       monotonic time of the last one
    writer:     field manager that made the last one necessary; empty if unknown
    is_removed: it is a foreign NetworkPolicy, and is deleted instead of restored
    """

    count: int = 0
    last: float = 0.0
    writer: str = ""
    is_removed: bool = False

    def after_restoration(self, now: float, writer: str, *, is_removed: bool = False) -> Contest:
        """The contest after one more restoration."""
        count = 1 if now - self.last >= QUIET_SECONDS else self.count + 1
        return Contest(count, now, writer, is_removed)

    def is_open(self, now: float) -> bool:
        """Whether others keep changing the object."""
        return self.count >= CONTESTED_AFTER and now - self.last < QUIET_SECONDS

    def wait(self, now: float) -> float:
        """Seconds until the next restoration is due; 0 unless the object is contested."""
        if not self.is_open(now):
            return 0.0
        pause = min(SLOWEST_SECONDS, 2.0 ** (self.count - CONTESTED_AFTER))
        return max(0.0, pause - (now - self.last))


def exclusive_content(obj: Object) -> Object:
    """The content of an object without metadata and status, as the API server stores it."""
    content = {name: value for name, value in obj.items() if name not in _SHARED_FIELDS}
    stored: Object = _as_stored(content)
    return stored


def has_exact_content(desired: Object, live: Object) -> bool:
    """Whether `live` has exactly the content of `desired`, nothing added."""
    amounts = desired["kind"] in _QUANTITY_KINDS
    return _is_equal(exclusive_content(desired), exclusive_content(live), amounts=amounts)


def needs_replacement(desired: Object, live: Object) -> bool:
    """Whether no update turns `live` into `desired`, because what differs is immutable."""
    if desired["kind"] == "RoleBinding":
        return bool(desired["roleRef"] != live.get("roleRef"))
    if desired["kind"] != "ResourceQuota":
        return False
    spec, live_spec = desired["spec"], live.get("spec") or {}
    return any(spec.get(name) != live_spec.get(name) for name in ("scopes", "scopeSelector"))


def other_writers(live: Object | None, field_manager: str) -> tuple[str, ...]:
    """Field managers other than `field_manager` that own content of `live`, latest first."""
    rows = ((live or {}).get("metadata") or {}).get("managedFields") or []
    foreign = [row for row in rows if row.get("manager") != field_manager and _owns_content(row)]
    foreign.sort(key=lambda row: str(row.get("time") or ""), reverse=True)
    return tuple(dict.fromkeys(str(row.get("manager")) for row in foreign))


def allows_traffic(policy: Object) -> bool:
    """Whether a NetworkPolicy allows any traffic; one without rules only denies."""
    spec = policy.get("spec") or {}
    return bool(spec.get("ingress") or spec.get("egress"))


def is_terminating(live: Object) -> bool:
    """Whether an object is deleted and finalizers keep it."""
    return bool(live["metadata"].get("deletionTimestamp"))


def contest_message(kind: str, name: str, contest: Contest) -> str:
    """The message of the condition for a contested object."""
    if contest.is_removed:
        by = f" (created by {contest.writer})" if contest.writer else ""
        return f"{kind} {name} was removed {contest.count} times in a row{by}; stop that client"
    cause = (
        f"changes by field manager {contest.writer}"
        if contest.writer
        else "deletion by another client"
    )
    purpose = "to allow traffic" if kind == "NetworkPolicy" else "to allow more"
    setting = _SETTINGS.get(kind)
    remedy = f", or set {setting} {purpose}" if setting else ""
    return (
        f"{kind} {name} was restored {contest.count} times in a row after {cause}; "
        f"stop that client{remedy}"
    )


def rejection_message(kind: str, name: str, fields: Sequence[str]) -> str:
    """The message of the condition for an object with fields that the API server rejects."""
    setting = _SETTINGS.get(kind)
    remedy = f"; check {setting}" if setting else ""
    return f"{kind} {name}: rejected by the API server: {', '.join(fields) or 'a field'}{remedy}"


def unmanaged_policies_message(policies: Sequence[Object], field_manager: str) -> str:
    """A text that lists foreign NetworkPolicies with their field managers; empty without any."""
    if not policies:
        return ""
    noun = "NetworkPolicy" if len(policies) == 1 else "NetworkPolicies"
    return f"{noun} not managed by windlass: {', '.join(_policy_names(policies, field_manager))}"


def undeleted_policy_message(policy: Object) -> str:
    """The message of the condition for a NetworkPolicy that is deleted and still in force."""
    metadata = policy["metadata"]
    name, finalizers = metadata["name"], ", ".join(metadata.get("finalizers") or [])
    return (
        f"NetworkPolicy {name} is terminating and still allows traffic; remove its finalizers "
        f"({finalizers}): kubectl edit networkpolicy {name} -n {metadata['namespace']}"
    )


def _policy_names(policies: Sequence[Object], field_manager: str) -> Iterator[str]:
    for policy in policies:
        names = other_writers(policy, field_manager)
        by = f" (by {names[0]})" if names else ""
        yield f"{policy['metadata']['name']}{by}"


def _owns_content(row: Object) -> bool:
    if row.get("subresource"):
        return False
    return any(name.removeprefix("f:") not in _SHARED_FIELDS for name in row.get("fieldsV1") or {})


def _as_stored(value: JSON) -> JSON:
    """`value` without nulls, empty lists and empty labels, which the API server does not store."""
    if isinstance(value, dict):
        pairs = ((name, _as_stored(item)) for name, item in value.items())
        return {name: item for name, item in pairs if not _is_omitted(name, item)}
    if isinstance(value, list):
        return [_as_stored(item) for item in value]
    return value


def _is_omitted(name: str, value: JSON) -> bool:
    # Other empty maps stay: a namespaceSelector without terms selects every namespace.
    return value is None or value == [] or (name == "matchLabels" and value == {})


def _is_equal(desired: JSON, live: JSON, *, amounts: bool) -> bool:
    """Whether two contents are equal; with `amounts`, texts also if they are equal quantities."""
    if isinstance(desired, dict) and isinstance(live, dict):
        return desired.keys() == live.keys() and all(
            _is_equal(desired[name], live[name], amounts=amounts) for name in desired
        )
    if isinstance(desired, list) and isinstance(live, list):
        return len(desired) == len(live) and all(
            _is_equal(first, second, amounts=amounts)
            for first, second in zip(desired, live, strict=True)
        )
    if desired == live:
        return isinstance(desired, bool) is isinstance(live, bool)  # in Python 1 == True
    return (
        amounts
        and isinstance(desired, str)
        and isinstance(live, str)
        and quantity.same(desired, live)
    )
