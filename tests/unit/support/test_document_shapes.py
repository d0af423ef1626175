"""A shape is what a Struct looks like once it is encoded."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tests.support.repository import document_shapes


class _Point(msgspec.Struct, array_like=True):
    across: int
    down: int = 0


class _Kept(msgspec.Struct, rename="camel", omit_defaults=True):
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
    """Names of classes are not in it, nor those of fields that are encoded otherwise."""
    shape = document_shapes.struct_shape(_Kept)
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


def test_a_changed_document_is_found_by_what_it_still_has() -> None:
    """So the difference can be told field by field."""
    kept, changed = document_shapes.struct_shape(_Kept), document_shapes.struct_shape(_Changed)
    point = document_shapes.struct_shape(_Point)
    assert kept != changed
    assert document_shapes.nearest_shape(kept, [point, changed]) == changed
