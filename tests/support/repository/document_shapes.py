"""Describes what msgspec Structs look like once they are encoded.

A shape is a set of lines, one per field, with paths like `.history[].timestamp`. Encoded
names, types, bounds, defaults and options are in it; names of classes are not, and neither
are names of fields that are encoded by their place.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect

_PLAIN = {
    inspect.AnyType: "any",
    inspect.BoolType: "bool",
    inspect.BytesType: "bytes",
    inspect.DateTimeType: "time",
    inspect.FloatType: "float",
    inspect.IntType: "int",
    inspect.NoneType: "null",
    inspect.RawType: "any",
    inspect.StrType: "str",
}
_BOUNDS = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern")

Shape = frozenset[str]


def struct_shapes(modules: Collection[str]) -> list[Shape]:
    """The shapes of all Structs that these modules define."""
    found = (kind for kind in _below(msgspec.Struct) if kind.__module__ in modules)
    return [struct_shape(kind) for kind in found]


def struct_shape(kind: type[msgspec.Struct]) -> Shape:
    """The shape of one Struct."""
    return frozenset(_lines("", inspect.type_info(kind), ()))


def nearest_shape(fields: Collection[str], shapes: Iterable[Shape]) -> Shape:
    """The shape that has most in common with these lines."""
    return max(shapes, key=lambda shape: len(shape & set(fields)) / len(shape | set(fields)))


def _below(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _lines(path: str, info: inspect.Type, above: tuple[type, ...]) -> Iterator[str]:
    """The lines of everything inside a type, not of itself."""
    match info:
        case inspect.StructType(cls=kind) if kind not in above:
            yield from _options(path, info)
            for place, field in enumerate(info.fields):
                inner = f"{path}.{place if info.array_like else field.encode_name}"
                yield f"{inner} {_type_name(field.type)}{_default(field)}"
                yield from _lines(inner, field.type, (*above, kind))
        case inspect.UnionType(types=types):
            for each in types:
                yield from _lines(path, each, above)
        case inspect.DictType(value_type=value):
            yield from _item(f"{path}{{}}", value, above)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            yield from _item(f"{path}[]", item, above)


def _item(path: str, info: inspect.Type, above: tuple[type, ...]) -> Iterator[str]:
    yield f"{path} {_type_name(info)}"
    yield from _lines(path, info, above)


def _options(path: str, info: inspect.StructType) -> Iterator[str]:
    config = info.cls.__struct_config__
    options: Mapping[str, Any] = {
        "omits defaults": config.omit_defaults,
        "is an array": config.array_like,
        "forbids unknown fields": config.forbid_unknown_fields,
        f"has the tag {info.tag_field}={info.tag}": info.tag is not None,
    }
    yield from (f"{path or '.'} {option}" for option, holds in options.items() if holds)


def _type_name(info: inspect.Type) -> str:
    """A type without its parameters."""
    match info:
        case inspect.StructType():
            return "array" if info.array_like else "object"
        case inspect.UnionType(types=types):
            return "|".join(sorted(map(_type_name, types)))
        case inspect.LiteralType(values=values):
            return "|".join(sorted(json.dumps(value) for value in values))
        case inspect.EnumType(cls=kind):
            return "|".join(sorted(json.dumps(member.value) for member in kind))
        case inspect.DictType():
            return "map"
        case inspect.ListType() | inspect.VarTupleType():
            return f"array{_bounds(info)}"
    return _PLAIN.get(type(info), type(info).__name__) + _bounds(info)


def _bounds(info: inspect.Type) -> str:
    found = ((name, getattr(info, name, None)) for name in _BOUNDS)
    told = [f"{name}={value}" for name, value in found if value is not None]
    return f"({', '.join(told)})" if told else ""


def _default(field: inspect.Field) -> str:
    if field.required:
        return ""
    made = field.default_factory
    value = made() if made is not msgspec.NODEFAULT else field.default
    return f" = {msgspec.json.encode(value, order='sorted').decode()}"
