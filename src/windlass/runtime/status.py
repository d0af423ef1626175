"""Builds the status of an object: old status and Outcome in, new status out.

Always holds: Ready is set; Reconciling and Stalled are present only while True and never both;
`observedGeneration` is the generation that was reconciled; a transition time moves only with the
status of its condition. Readers that follow kstatus therefore see: Reconciling or an older
observedGeneration = in progress, Stalled = failed. The same outcome again gives the same status,
so nothing is written.

Reconcile requests are annotations by which a person asks for a reconcile now. Any new value of
either annotation is a request. The newest one is acknowledged in `status.lastHandledReconcileAt`:
values that are RFC 3339 times are compared as times and beat values that are not; among the
others our own annotation beats the foreign one. The choice depends on the annotations alone, so
an acknowledged pair stays acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from windlass.base.redaction import process, visible
from windlass.objects.condition import Condition, Status, merged
from windlass.objects.names import JSON, Object
from windlass.runtime.outcome import READY, RECONCILING, STALLED, SUMMARY_TYPES, Outcome

ANNOTATIONS = ("windlass.dev/requestedAt", "reconcile.fluxcd.io/requestedAt")
ACKNOWLEDGEMENT = "lastHandledReconcileAt"

_NEVER = datetime.min.replace(tzinfo=UTC)


def newest_request(annotations: Mapping[str, str]) -> str | None:
    """The newest request an object carries, handled or not."""
    values = [annotations[name] for name in ANNOTATIONS if annotations.get(name)]
    return max(values, key=_request_time, default=None)


def pending_request(status: Object, annotations: Mapping[str, str]) -> str | None:
    """The request that `status` does not acknowledge yet."""
    value = newest_request(annotations)
    return value if value != status.get(ACKNOWLEDGEMENT) else None


def object_annotations(obj: Object) -> dict[str, str]:
    """The request annotations of an object."""
    annotations: JSON = (obj.get("metadata") or {}).get("annotations") or {}
    return {
        name: annotations[name] for name in ANNOTATIONS if isinstance(annotations.get(name), str)
    }


def _request_time(value: str) -> datetime:
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return _NEVER
    return time if time.tzinfo is not None else _NEVER


Transition = tuple[str, str, str]


def build_status(
    old: Object,
    outcome: Outcome,
    *,
    generation: int,
    now: datetime,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """The status after reconciling `generation` with `outcome`."""
    before = status_conditions(old)
    rows = [*_summary_rows(before, outcome), *outcome.conditions]
    replaced = {row.type for row in rows} | SUMMARY_TYPES | outcome.withdrawn
    kept = [row for row in before if row.type not in replaced]
    fresh = merged(before, (_with_generation(row, generation) for row in rows), now=timestamp(now))
    new = {name: value for name, value in {**old, **outcome.fields}.items() if value is not None}
    new["conditions"] = [
        row.as_object() for row in sorted((*kept, *fresh), key=lambda row: row.type)
    ]
    new["observedGeneration"] = generation
    request = newest_request(annotations or {})
    if request is not None:
        new[ACKNOWLEDGEMENT] = request
    return new


def status_patch(old: Object, new: Object) -> Object | None:
    """The merge patch that turns status `old` into `new`; None if there is nothing to write."""
    patch = _difference(old, new)
    return patch or None


def transitions(old: Object, new: Object) -> frozenset[Transition]:
    """Each (type, status, reason) of a condition that `new` has and `old` has not."""
    return _condition_rows(new) - _condition_rows(old)


def status_conditions(status: Object) -> tuple[Condition, ...]:
    """The well-formed conditions of a status; the last of a type counts."""
    rows: JSON = status.get("conditions")
    if not isinstance(rows, list):
        return ()
    return tuple(
        {row["type"]: Condition.from_object(row) for row in rows if _is_well_formed(row)}.values()
    )


def timestamp(time: datetime) -> str:
    """A time as the API writes it, in whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _summary_rows(before: Iterable[Condition], outcome: Outcome) -> list[Condition]:
    assert outcome.ready is not None, "an outcome of a gone object has no status"
    verdict = outcome.ready
    last: Status = next((row.status for row in before if row.type == READY), "Unknown")
    rows = [Condition(READY, verdict.status or last, verdict.reason, verdict.message)]
    because = outcome.because or verdict.reason
    if outcome.stalled:
        rows.append(Condition(STALLED, "True", because, verdict.message))
    elif outcome.reconciling:
        rows.append(Condition(RECONCILING, "True", because, verdict.message))
    return rows


def _with_generation(row: Condition, generation: int) -> Condition:
    # kubectl prints messages as they are, and a terminal would obey control characters.
    message = visible(process.clean(row.message))
    return replace(row, observed_generation=generation, message=message)


def _is_well_formed(row: JSON) -> bool:
    if not isinstance(row, dict):
        return False
    if not (isinstance(row.get("type"), str) and row.get("lastTransitionTime")):
        return False
    return row.get("status") in ("True", "False", "Unknown")


def _condition_rows(status: Object) -> frozenset[Transition]:
    return frozenset((row.type, row.status, row.reason) for row in status_conditions(status))


def _difference(old: Object, new: Object) -> Object:
    gone = [name for name, value in old.items() if value is not None and new.get(name) is None]
    patch: Object = dict.fromkeys(gone)
    for name, value in new.items():
        if value is None or (name in old and _is_same(old[name], value)):
            continue
        before = old.get(name)
        patch[name] = _nested_difference(before, value) if isinstance(value, dict) else value
    return patch


def _nested_difference(before: JSON, value: Object) -> Object:
    return _difference(before if isinstance(before, dict) else {}, value)


def _is_same(before: JSON, value: JSON) -> bool:
    """Whether the server stores the same: null is absence, 1.0 is 1, true is not 1."""
    if isinstance(before, dict) and isinstance(value, dict):
        return not _difference(before, value)
    if isinstance(before, list) and isinstance(value, list):
        return len(before) == len(value) and all(map(_is_same, before, value))
    return isinstance(before, bool) is isinstance(value, bool) and bool(before == value)
