"""Validates a spec by the rules of its declaration, as the API server does.

`Resource.decode` calls it for every object, because one may have come past the CRD (an older
schema, a hand-edited store). Every error is listed, in the order of the fields; no message
repeats a value.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from msgspec import Struct, inspect

from windlass.api.schema.constraint import Constraint, camel_case, compile_pattern
from windlass.objects.names import format_count

_MAX_KEY_CHARS = 63


@dataclass(frozen=True, slots=True)
class FieldError:
    """One validation error."""

    path: str  # such as spec.rules[0].resources
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def validate(spec: Struct) -> list[FieldError]:
    """All errors of `spec`, in the order of its fields; empty if it is valid."""
    return list(_errors(_type_info(type(spec)), spec, "spec"))


def unknown_fields(struct: type[Struct], raw: Any, path: str = "spec") -> list[str]:
    """The paths in `raw` JSON that `struct` does not declare; decoding would ignore them."""
    return list(_unknown_paths(_type_info(struct), raw, path))


def _unknown_paths(kind: Any, raw: Any, path: str) -> Iterator[str]:
    if isinstance(kind, inspect.StructType) and isinstance(raw, dict):
        known = {field.encode_name for field in kind.fields}
        yield from (f"{path}.{name[:_MAX_KEY_CHARS]}" for name in raw if name not in known)
    for part in _parts(kind, raw, path):
        yield from _unknown_paths(*part)


def _parts(kind: Any, raw: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """The parts of `raw`, each with its declared type and its path."""
    if isinstance(kind, inspect.Metadata):
        yield kind.type, raw, path
    elif isinstance(kind, inspect.UnionType):
        yield from ((member, raw, path) for member in kind.types)
    elif isinstance(raw, list):
        if isinstance(kind, inspect.VarTupleType):
            yield from ((kind.item_type, item, f"{path}[{n}]") for n, item in enumerate(raw))
    elif isinstance(raw, dict):
        yield from _members(kind, raw, path)


def _members(kind: Any, raw: dict[str, Any], path: str) -> Iterator[tuple[Any, Any, str]]:
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.encode_name in raw:
                yield field.type, raw[field.encode_name], f"{path}.{field.encode_name}"
    elif isinstance(kind, inspect.DictType):
        for name, value in raw.items():
            yield kind.value_type, value, f"{path}[{name[:_MAX_KEY_CHARS]}]"


@cache
def _type_info(struct: type[Struct]) -> inspect.Type:
    return inspect.type_info(struct)


_pattern = cache(compile_pattern)


def _errors(kind: Any, value: Any, path: str) -> Iterator[FieldError]:
    check = _CHECKS.get(type(kind))
    if check is not None:
        yield from check(kind, value, path)


def _check_metadata(kind: inspect.Metadata, value: Any, path: str) -> Iterator[FieldError]:
    yield from _errors(kind.type, value, path)
    extra = kind.extra or {}
    if value is None:
        return
    yield from violations(extra.get("constraints", ()), value, path)
    if extra.get("list_type") == "set":
        yield from _duplicates(value, value, path)
    elif extra.get("list_type") == "map":
        keys = [tuple(getattr(row, key) for key in extra["list_keys"]) for row in value]
        yield from _duplicates(keys, value, path)


def _check_union(kind: inspect.UnionType, value: Any, path: str) -> Iterator[FieldError]:
    if value is None:
        return
    for member in kind.types:
        if _accepts_type(member, value):
            yield from _errors(member, value, path)


def _accepts_type(kind: Any, value: Any) -> bool:
    """Whether a member of a union applies to `value`; only int and str share a union."""
    if isinstance(kind, inspect.StrType):
        return isinstance(value, str)
    return not isinstance(kind, inspect.IntType) or isinstance(value, int)


def _check_struct(kind: inspect.StructType, value: Any, path: str) -> Iterator[FieldError]:
    for field in kind.fields:
        yield from _errors(field.type, getattr(value, field.name), f"{path}.{field.encode_name}")
    yield from violations(getattr(kind.cls, "CONSTRAINTS", ()), value, path)


def _check_list(kind: inspect.VarTupleType, value: Any, path: str) -> Iterator[FieldError]:
    yield from _check_length(kind, value, path, "entry", "entries")
    for index, item in enumerate(value):
        yield from _errors(kind.item_type, item, f"{path}[{index}]")


def _check_map(kind: inspect.DictType, value: Any, path: str) -> Iterator[FieldError]:
    yield from _check_length(kind, value, path, "entry", "entries")
    for key, item in value.items():
        for problem in _errors(kind.key_type, key, path):
            yield FieldError(path, f"a key {problem.message}")
        yield from _errors(kind.value_type, item, f"{path}[{key[:_MAX_KEY_CHARS]}]")


def _check_int(kind: inspect.IntType, value: Any, path: str) -> Iterator[FieldError]:
    if kind.ge is not None and value < kind.ge:
        yield FieldError(path, f"must be at least {kind.ge}")
    if kind.le is not None and value > kind.le:
        yield FieldError(path, f"must be at most {kind.le}")


def _check_str(kind: inspect.StrType, value: Any, path: str) -> Iterator[FieldError]:
    yield from _check_length(kind, value, path, "character")
    if kind.pattern is not None and _pattern(kind.pattern).search(value) is None:
        yield FieldError(path, f"must match {kind.pattern}")


def _check_literal(kind: inspect.LiteralType, value: Any, path: str) -> Iterator[FieldError]:
    if value not in kind.values:
        yield FieldError(path, "unsupported value; supported: " + ", ".join(map(str, kind.values)))


def _check_length(
    kind: inspect.VarTupleType | inspect.StrType | inspect.DictType,
    value: Any,
    path: str,
    noun: str,
    plural: str = "",
) -> Iterator[FieldError]:
    if kind.min_length is not None and len(value) < kind.min_length:
        yield FieldError(path, f"must have at least {format_count(kind.min_length, noun, plural)}")
    if kind.max_length is not None and len(value) > kind.max_length:
        yield FieldError(path, f"must have at most {format_count(kind.max_length, noun, plural)}")


def violations(constraints: Iterable[Constraint], value: Any, path: str) -> Iterator[FieldError]:
    """The errors of the constraints that `value` violates."""
    for constraint in constraints:
        if not constraint.holds(value):
            where = f"{path}.{camel_case(constraint.field)}" if constraint.field else path
            yield FieldError(where, constraint.message)


def _duplicates(keys: Sequence[Any], value: Sequence[Any], path: str) -> Iterator[FieldError]:
    for index in range(len(value)):
        if keys[index] in keys[:index]:
            yield FieldError(f"{path}[{index}]", "duplicate entry")


_CHECKS: dict[type, Callable[[Any, Any, str], Iterator[FieldError]]] = {
    inspect.Metadata: _check_metadata,
    inspect.UnionType: _check_union,
    inspect.StructType: _check_struct,
    inspect.VarTupleType: _check_list,
    inspect.DictType: _check_map,
    inspect.IntType: _check_int,
    inspect.StrType: _check_str,
    inspect.LiteralType: _check_literal,
}
