"""A shape describes a Struct as it is encoded."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tests.support.repository import document_shapes


class _Point(msgspec.Struct, array_like=True):
    across: int
    down: int = 0


class _Original(msgspec.Struct, rename="camel", omit_defaults=True):
    last_seen: Annotated[str, msgspec.Meta(max_length=8)]
    mode: Literal["on", "off"] = "off"
    points: dict[str, _Point] = {}


class _Spot(msgspec.Struct, array_like=True):
    x: int
    y: int = 0


class _Renamed(msgspec.Struct, omit_defaults=True):
    seen: Annotated[str, msgspec.Meta(max_length=8)] = msgspec.field(name="lastSeen")
    mode: Literal["off", "on"] = "off"
    points: dict[str, _Spot] = {}


class _Changed(msgspec.Struct, rename="camel", omit_defaults=True):
    last_seen: Annotated[str, msgspec.Meta(max_length=8)]
    mode: Literal["on", "off"] = "on"


def test_a_shape_is_what_is_encoded() -> None:
    """It has no class names, nor names of fields that are encoded under another name."""
    shape = document_shapes.struct_shape(_Original)
    assert shape == document_shapes.struct_shape(_Renamed)
    assert shape == {
        ". omits defaults",
        ".lastSeen str(max_length=8)",
        '.mode "off"|"on" = "off"',
        ".points map = {}",
        ".points{} array",
        ".points{} is an array",
        ".points{}.0 int",
        ".points{}.1 int = 0",
    }


def test_a_changed_document_is_found_by_its_remaining_fields() -> None:
    """So that the difference can be listed by field."""
    original, changed = (
        document_shapes.struct_shape(_Original),
        document_shapes.struct_shape(_Changed),
    )
    point = document_shapes.struct_shape(_Point)
    assert original != changed
    assert document_shapes.nearest_shape(original, [point, changed]) == changed
