"""Fields that one manager owns in a live object, read from its managedFields.

The API server records for every manager which fields it last applied. The part of the live
object under that set is what the manager applied, as it is now: a value that another
client changed differs, a field that another client added is not in it, a default that the
server filled in is not in it either. So "does anything of ours need to be written?" is an
equality, never a guess about subsets.

Pure.
"""

from __future__ import annotations

import json

from windlass.objects import quantity
from windlass.objects.names import JSON, Object

_AMOUNTS = frozenset(
    {
        "averageValue",
        "capacity",
        "default",
        "defaultRequest",
        "divisor",
        "hard",
        "limits",
        "max",
        "min",
        "requests",
        "sizeLimit",
    }
)
"""Members below which texts are amounts; anywhere else `1` and `1.0` are two texts."""

_IDENTITY = ("apiVersion", "kind")


def owned_fields(live: Object, manager: str) -> Object | None:
    """The fields of `live` that `manager` applied; None if it never did."""
    fields = _fields(live, manager)
    if fields is None:
        return None
    kept = {name: live[name] for name in _IDENTITY if name in live}
    found = _project(live, fields)
    return {**found, **kept} if isinstance(found, dict) else kept


def is_up_to_date(desired: Object, live: Object, manager: str) -> bool:
    """Whether applying `desired` as `manager` would change nothing."""
    ours = owned_fields(live, manager)
    return ours is not None and _same(_bare(desired), _bare(ours), amounts=False)


def _fields(live: Object, manager: str) -> Object | None:
    rows = (live.get("metadata") or {}).get("managedFields") or []
    for row in rows:
        if row.get("manager") == manager and row.get("operation") == "Apply":
            if row.get("subresource"):
                continue
            found: Object = row.get("fieldsV1") or {}
            return found
    return None


def _project(value: JSON, fields: Object) -> JSON:
    """`value` cut down to `fields`; a leaf of the set takes the whole value."""
    inner = {name: below for name, below in fields.items() if name != "."}
    if not inner:
        return value
    if isinstance(value, dict):
        return {
            name: _project(value[name], inner[f"f:{name}"])
            for name in value
            if f"f:{name}" in inner
        }
    if isinstance(value, list):
        # In the live order: that of the items of others between ours is not our concern.
        found = ((item, _item_fields(item, inner)) for item in value)
        return [_project(item, below) for item, below in found if below is not None]
    return value


def _item_fields(item: JSON, fields: Object) -> Object | None:
    """The part of a set for one item of a list; None if the item is not ours."""
    return next((below for key, below in fields.items() if _matches_item(item, key)), None)


def _matches_item(item: JSON, key: str) -> bool:
    """Whether an entry of a set is about this item of the list."""
    kind, _, text = key.partition(":")
    meant = json.loads(text)
    if kind == "v":
        return bool(item == meant)
    if kind != "k" or not isinstance(item, dict):
        return False
    return all(item.get(name) == wanted for name, wanted in meant.items())


def _bare(obj: Object) -> Object:
    """Without what names the object and with nulls gone, as the server stores it."""
    metadata = {
        name: value
        for name, value in (obj.get("metadata") or {}).items()
        if name not in ("name", "namespace")
    }
    rest = {name: value for name, value in obj.items() if name != "metadata"}
    bare: Object = _without_nulls({**rest, "metadata": metadata})
    return bare


def _without_nulls(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {name: _without_nulls(below) for name, below in value.items() if below is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _same(one: JSON, other: JSON, *, amounts: bool) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return _same_members(one, other, amounts=amounts)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _same(mine, theirs, amounts=amounts) for mine, theirs in zip(one, other, strict=True)
        )
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if one == other:
        return True
    return amounts and _scalar(one) and _scalar(other) and quantity.same(one, other)


def _same_members(one: Object, other: Object, *, amounts: bool) -> bool:
    names = {name for name, value in one.items() if value != {}} | {
        name for name, value in other.items() if value != {}
    }
    # An empty map owns itself alone, and the server may keep it or not.
    return all(
        _same(one.get(name, {}), other.get(name, {}), amounts=amounts or name in _AMOUNTS)
        for name in names
    )


def _scalar(value: JSON) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)
