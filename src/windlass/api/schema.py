"""The structural schema of a declared type, as a CRD holds it.

Deterministic: properties stand in the order of their declaration. A default is published
for scalars alone; a missing object or list is told apart from an empty one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, inspect

from windlass.api.constraint import Constraint, camel
from windlass.objects.json import Object


def of(struct: type[Struct]) -> Object:
    """The schema of `struct`."""
    return _schema(inspect.type_info(struct))


def _schema(kind: Any) -> Object:
    return _WRITERS[type(kind)](kind)


def _annotated(kind: inspect.Metadata) -> Object:
    told = kind.extra_json_schema or {}
    extra = kind.extra or {}
    head = {"description": told["description"]} if "description" in told else {}
    rest = {key: value for key, value in told.items() if key != "description"}
    inner = _schema(kind.type)
    inner.pop("description" if head else "", None)
    return head | inner | rest | _list_type(extra) | rules(extra.get("constraints", ()))


def _list_type(extra: dict[str, Any]) -> Object:
    found: Object = {}
    if "list_type" in extra:
        found["x-kubernetes-list-type"] = extra["list_type"]
    if "list_keys" in extra:
        found["x-kubernetes-list-map-keys"] = list(extra["list_keys"])
    return found


def rules(constraints: tuple[Constraint, ...]) -> Object:
    """The CEL rules of a schema node."""
    if not constraints:
        return {}
    return {"x-kubernetes-validations": [_rule(constraint) for constraint in constraints]}


def _rule(constraint: Constraint) -> Object:
    rule = {"rule": constraint.cel, "message": constraint.message}
    if constraint.field:
        rule["fieldPath"] = f".{camel(constraint.field)}"
    return rule


def _optional(kind: inspect.UnionType) -> Object:
    (member,) = (item for item in kind.types if not isinstance(item, inspect.NoneType))
    return _schema(member)


def _struct(kind: inspect.StructType) -> Object:
    found: Object = {"type": "object"}
    required = [field.encode_name for field in kind.fields if field.required]
    if required:
        found["required"] = required
    found["properties"] = {field.encode_name: _field(field) for field in kind.fields}
    return found | rules(getattr(kind.cls, "CONSTRAINTS", ()))


def _field(field: inspect.Field) -> Object:
    found = _schema(field.type)
    if isinstance(field.default, bool) or (isinstance(field.default, str) and field.default):
        found["default"] = field.default
    return found


def _list(kind: inspect.VarTupleType) -> Object:
    bounds = {"minItems": kind.min_length, "maxItems": kind.max_length}
    return {"type": "array"} | _given(bounds) | {"items": _schema(kind.item_type)}


def _text(kind: inspect.StrType) -> Object:
    bounds = {"minLength": kind.min_length, "maxLength": kind.max_length, "pattern": kind.pattern}
    return {"type": "string"} | _given(bounds)


def _whole(kind: inspect.IntType) -> Object:
    return {"type": "integer", "format": "int64"} | _given({"minimum": kind.ge, "maximum": kind.le})


def _given(bounds: dict[str, Any]) -> Object:
    return {name: bound for name, bound in bounds.items() if bound is not None}


_WRITERS: dict[type, Callable[[Any], Object]] = {
    inspect.Metadata: _annotated,
    inspect.UnionType: _optional,
    inspect.StructType: _struct,
    inspect.VarTupleType: _list,
    inspect.StrType: _text,
    inspect.IntType: _whole,
    inspect.BoolType: lambda kind: {"type": "boolean"},
    inspect.DateTimeType: lambda kind: {"type": "string", "format": "date-time"},
    inspect.LiteralType: lambda kind: {"type": "string", "enum": list(kind.values)},
}
