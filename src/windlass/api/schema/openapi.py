"""The structural OpenAPI schema of a declared type, as its CRD holds it.

Deterministic: properties stand in the order of their declaration. A default is published
for scalars and for lists with entries. For an object only one that its declaration calls
`filled_in` gets the default `{}`; otherwise a missing object differs from an empty one.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from msgspec import Struct, inspect

from windlass.api.schema.constraint import Constraint, camel_case, cel_string
from windlass.objects.names import Object

_VALIDATIONS = "x-kubernetes-validations"


def build_schema(struct: type[Struct]) -> Object:
    """The schema of `struct`."""
    return _schema(_type_info(struct))


@cache
def _type_info(struct: type[Struct]) -> inspect.Type:
    """What a type looks like; it never changes, and to find out takes milliseconds."""
    return inspect.type_info(struct)


def _schema(kind: Any) -> Object:
    return _BUILDERS[type(kind)](kind)


def _metadata_schema(kind: inspect.Metadata) -> Object:
    told = kind.extra_json_schema or {}
    extra = kind.extra or {}
    head = {"description": told["description"]} if "description" in told else {}
    rest = {key: value for key, value in told.items() if key != "description"}
    inner = _schema(kind.type)
    inner.pop("description" if head else "", None)
    known = inner.pop(_VALIDATIONS, [])
    filled: Object = {"default": {}} if "filled_in" in extra else {}
    own = cel_rules(extra.get("constraints", ()))
    return (
        head
        | inner
        | rest
        | filled
        | _list_type(extra)
        | _validations([*known, *own.get(_VALIDATIONS, [])])
    )


def _list_type(extra: dict[str, Any]) -> Object:
    found: Object = {}
    if "list_type" in extra:
        found["x-kubernetes-list-type"] = extra["list_type"]
    if "list_keys" in extra:
        found["x-kubernetes-list-map-keys"] = list(extra["list_keys"])
    return found


def cel_rules(constraints: Sequence[Constraint]) -> Object:
    """The CEL rules of a schema node."""
    return _validations([_cel_rule(constraint) for constraint in constraints if constraint.cel])


def _validations(found: list[Object]) -> Object:
    return {_VALIDATIONS: found} if found else {}


def _cel_rule(constraint: Constraint) -> Object:
    rule = {"rule": constraint.cel, "message": constraint.message}
    if constraint.field:
        rule["fieldPath"] = f".{camel_case(constraint.field)}"
    return rule


def _union_schema(kind: inspect.UnionType) -> Object:
    members = [item for item in kind.types if not isinstance(item, inspect.NoneType)]
    if len(members) == 1:
        return _schema(members[0])
    return _int_or_string_schema(members)


def _int_or_string_schema(members: list[Any]) -> Object:
    """A number that may also be written as a text, as quantities may."""
    found: Object = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    for member in members:
        bounds = _schema(member)
        found |= {name: bounds[name] for name in bounds if name not in ("type", "format")}
    return found | {"x-kubernetes-int-or-string": True}


def _struct_schema(kind: inspect.StructType) -> Object:
    found: Object = {"type": "object"}
    required = [field.encode_name for field in kind.fields if field.required]
    if required:
        found["required"] = required
    found["properties"] = {field.encode_name: _field_schema(field) for field in kind.fields}
    return found | cel_rules(getattr(kind.cls, "CONSTRAINTS", ()))


def _field_schema(field: inspect.Field) -> Object:
    found = _schema(field.type)
    default = field.default
    if isinstance(default, bool) or (isinstance(default, (str, int)) and default):
        found["default"] = default
    elif isinstance(default, tuple) and default:
        found["default"] = list(default)
    return found


def _list_schema(kind: inspect.VarTupleType) -> Object:
    bounds = {"minItems": kind.min_length, "maxItems": kind.max_length}
    return {"type": "array"} | _without_none(bounds) | {"items": _schema(kind.item_type)}


def _map_schema(kind: inspect.DictType) -> Object:
    if isinstance(kind.value_type, inspect.AnyType):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    bounds = {"minProperties": kind.min_length, "maxProperties": kind.max_length}
    values = {"additionalProperties": _schema(kind.value_type)}
    return {"type": "object"} | _without_none(bounds) | values | _key_rules(kind.key_type)


def _key_rules(key: Any) -> Object:
    """A structural schema has no pattern for keys, so a rule stands in for it."""
    pattern = getattr(key, "pattern", None)
    if pattern is None:
        return {}
    cel = f"self.all(key, key.matches({cel_string(pattern)}))"
    return _validations([{"rule": cel, "message": f"every key must match {pattern}"}])


def _string_schema(kind: inspect.StrType) -> Object:
    bounds = {"minLength": kind.min_length, "maxLength": kind.max_length, "pattern": kind.pattern}
    return {"type": "string"} | _without_none(bounds)


def _integer_schema(kind: inspect.IntType) -> Object:
    return {"type": "integer", "format": "int64"} | _without_none(
        {"minimum": kind.ge, "maximum": kind.le}
    )


def _without_none(bounds: dict[str, Any]) -> Object:
    return {name: bound for name, bound in bounds.items() if bound is not None}


_BUILDERS: dict[type, Callable[[Any], Object]] = {
    inspect.Metadata: _metadata_schema,
    inspect.UnionType: _union_schema,
    inspect.StructType: _struct_schema,
    inspect.VarTupleType: _list_schema,
    inspect.DictType: _map_schema,
    inspect.StrType: _string_schema,
    inspect.IntType: _integer_schema,
    inspect.BoolType: lambda kind: {"type": "boolean"},
    inspect.DateTimeType: lambda kind: {"type": "string", "format": "date-time"},
    inspect.LiteralType: lambda kind: {"type": "string", "enum": list(kind.values)},
}
