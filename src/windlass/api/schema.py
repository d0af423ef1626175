"""The structural schema of a declared type, as a CRD holds it.

Deterministic: properties stand in the order of their declaration. A default is published
for scalars and for lists with entries; a missing object is told apart from an empty one,
unless its declaration says that it is filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from msgspec import Struct, inspect

from windlass.api.constraint import Constraint, camel, quoted
from windlass.objects.names import Object

_RULES = "x-kubernetes-validations"


def of(struct: type[Struct]) -> Object:
    """The schema of `struct`."""
    return _schema(_described(struct))


@cache
def _described(struct: type[Struct]) -> inspect.Type:
    """What a type looks like; it never changes, and to find out takes milliseconds."""
    return inspect.type_info(struct)


def _schema(kind: Any) -> Object:
    return _WRITERS[type(kind)](kind)


def _annotated(kind: inspect.Metadata) -> Object:
    told = kind.extra_json_schema or {}
    extra = kind.extra or {}
    head = {"description": told["description"]} if "description" in told else {}
    rest = {key: value for key, value in told.items() if key != "description"}
    inner = _schema(kind.type)
    inner.pop("description" if head else "", None)
    known = inner.pop(_RULES, [])
    filled: Object = {"default": {}} if "filled_in" in extra else {}
    own = rules(extra.get("constraints", ()))
    return head | inner | rest | filled | _list_type(extra) | _ruled([*known, *own.get(_RULES, [])])


def _list_type(extra: dict[str, Any]) -> Object:
    found: Object = {}
    if "list_type" in extra:
        found["x-kubernetes-list-type"] = extra["list_type"]
    if "list_keys" in extra:
        found["x-kubernetes-list-map-keys"] = list(extra["list_keys"])
    return found


def rules(constraints: Sequence[Constraint]) -> Object:
    """The CEL rules of a schema node."""
    return _ruled([_rule(constraint) for constraint in constraints if constraint.cel])


def _ruled(found: list[Object]) -> Object:
    return {_RULES: found} if found else {}


def _rule(constraint: Constraint) -> Object:
    rule = {"rule": constraint.cel, "message": constraint.message}
    if constraint.field:
        rule["fieldPath"] = f".{camel(constraint.field)}"
    return rule


def _union(kind: inspect.UnionType) -> Object:
    members = [item for item in kind.types if not isinstance(item, inspect.NoneType)]
    if len(members) == 1:
        return _schema(members[0])
    return _whole_or_text(members)


def _whole_or_text(members: list[Any]) -> Object:
    """A number that may also be written as a text, as quantities may."""
    found: Object = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    for member in members:
        bounds = _schema(member)
        found |= {name: bounds[name] for name in bounds if name not in ("type", "format")}
    return found | {"x-kubernetes-int-or-string": True}


def _struct(kind: inspect.StructType) -> Object:
    found: Object = {"type": "object"}
    required = [field.encode_name for field in kind.fields if field.required]
    if required:
        found["required"] = required
    found["properties"] = {field.encode_name: _field(field) for field in kind.fields}
    return found | rules(getattr(kind.cls, "CONSTRAINTS", ()))


def _field(field: inspect.Field) -> Object:
    found = _schema(field.type)
    default = field.default
    if isinstance(default, bool) or (isinstance(default, (str, int)) and default):
        found["default"] = default
    elif isinstance(default, tuple) and default:
        found["default"] = list(default)
    return found


def _list(kind: inspect.VarTupleType) -> Object:
    bounds = {"minItems": kind.min_length, "maxItems": kind.max_length}
    return {"type": "array"} | _given(bounds) | {"items": _schema(kind.item_type)}


def _map(kind: inspect.DictType) -> Object:
    if isinstance(kind.value_type, inspect.AnyType):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    bounds = {"minProperties": kind.min_length, "maxProperties": kind.max_length}
    values = {"additionalProperties": _schema(kind.value_type)}
    return {"type": "object"} | _given(bounds) | values | _key_rules(kind.key_type)


def _key_rules(key: Any) -> Object:
    """A structural schema has no pattern for keys, so a rule stands in for it."""
    pattern = getattr(key, "pattern", None)
    if pattern is None:
        return {}
    cel = f"self.all(key, key.matches({quoted(pattern)}))"
    return _ruled([{"rule": cel, "message": f"every key must match {pattern}"}])


def _text(kind: inspect.StrType) -> Object:
    bounds = {"minLength": kind.min_length, "maxLength": kind.max_length, "pattern": kind.pattern}
    return {"type": "string"} | _given(bounds)


def _whole(kind: inspect.IntType) -> Object:
    return {"type": "integer", "format": "int64"} | _given({"minimum": kind.ge, "maximum": kind.le})


def _given(bounds: dict[str, Any]) -> Object:
    return {name: bound for name, bound in bounds.items() if bound is not None}


_WRITERS: dict[type, Callable[[Any], Object]] = {
    inspect.Metadata: _annotated,
    inspect.UnionType: _union,
    inspect.StructType: _struct,
    inspect.VarTupleType: _list,
    inspect.DictType: _map,
    inspect.StrType: _text,
    inspect.IntType: _whole,
    inspect.BoolType: lambda kind: {"type": "boolean"},
    inspect.DateTimeType: lambda kind: {"type": "string", "format": "date-time"},
    inspect.LiteralType: lambda kind: {"type": "string", "enum": list(kind.values)},
}
