"""Builds the structural OpenAPI schema of a declared type for its CRD.

Deterministic: properties are in the order of their declaration. A default is published for
scalars and for lists with entries. Of the objects only those declared as `filled_in` get the
default `{}`; for all others a missing object differs from an empty one.

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
    """The type information of msgspec, cached because inspection takes milliseconds."""
    return inspect.type_info(struct)


def _schema(kind: Any) -> Object:
    return _BUILDERS[type(kind)](kind)


def _metadata_schema(kind: inspect.Metadata) -> Object:
    published = kind.extra_json_schema or {}
    extra = kind.extra or {}
    head = {"description": published["description"]} if "description" in published else {}
    rest = {key: value for key, value in published.items() if key != "description"}
    inner = _schema(kind.type)
    inner.pop("description" if head else "", None)
    inner_rules = inner.pop(_VALIDATIONS, [])
    default: Object = {"default": {}} if "filled_in" in extra else {}
    own_rules = cel_rules(extra.get("constraints", ()))
    return (
        head
        | inner
        | rest
        | default
        | _list_type(extra)
        | _validations([*inner_rules, *own_rules.get(_VALIDATIONS, [])])
    )


def _list_type(extra: dict[str, Any]) -> Object:
    attributes: Object = {}
    if "list_type" in extra:
        attributes["x-kubernetes-list-type"] = extra["list_type"]
    if "list_keys" in extra:
        attributes["x-kubernetes-list-map-keys"] = list(extra["list_keys"])
    return attributes


def cel_rules(constraints: Sequence[Constraint]) -> Object:
    """The CEL rules of a schema node."""
    return _validations([_cel_rule(constraint) for constraint in constraints if constraint.cel])


def _validations(rules: list[Object]) -> Object:
    return {_VALIDATIONS: rules} if rules else {}


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
    """The schema of a number that may also be a string, as for quantities."""
    schema: Object = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    for member in members:
        bounds = _schema(member)
        schema |= {name: bounds[name] for name in bounds if name not in ("type", "format")}
    return schema | {"x-kubernetes-int-or-string": True}


def _struct_schema(kind: inspect.StructType) -> Object:
    schema: Object = {"type": "object"}
    required = [field.encode_name for field in kind.fields if field.required]
    if required:
        schema["required"] = required
    schema["properties"] = {field.encode_name: _field_schema(field) for field in kind.fields}
    return schema | cel_rules(getattr(kind.cls, "CONSTRAINTS", ()))


def _field_schema(field: inspect.Field) -> Object:
    schema = _schema(field.type)
    default = field.default
    if isinstance(default, bool) or (isinstance(default, (str, int)) and default):
        schema["default"] = default
    elif isinstance(default, tuple) and default:
        schema["default"] = list(default)
    return schema


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
    """A CEL rule for the pattern of keys, which a structural schema cannot express."""
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
