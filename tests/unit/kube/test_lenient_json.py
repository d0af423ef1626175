"""JSON scanned as brackets and strings only."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.kube import lenient_json
from windlass.kube.lenient_json import Unbalanced

_value = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\[]{}:, é'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"{['), inner, max_size=3),
    max_leaves=10,
)
_object = st.dictionaries(st.text('ab"]}'), _value, max_size=3)


@given(_object)
def test_objects_are_recognized(obj: dict[str, object]) -> None:
    """Any JSON object is delimited exactly."""
    text = json.dumps(obj).encode()
    assert lenient_json.is_one_object(text)
    assert not lenient_json.is_one_object(text[:-1])
    assert not lenient_json.is_one_object(text + b"}")
    assert not lenient_json.is_one_object(text + text)


@given(st.lists(_object, max_size=4), _object)
def test_array_is_cut(items: list[dict[str, object]], rest: dict[str, object]) -> None:
    """The objects of an array are returned whole and in order; the text around them stays."""
    around = {"metadata": rest, "items": [], "tail": {"items": [1]}}
    text = json.dumps(around | {"items": items}).encode()
    without, found = lenient_json.cut_array(text, b"items")
    assert json.loads(without) == around
    assert [json.loads(item) for item in found] == items


@pytest.mark.parametrize(
    "text", [b"", b"{}", b'{"items":{}}', b'{"a":{"items":[]}}', b'{"items":[{}}', b'{"items":[{}]']
)
def test_no_array(text: bytes) -> None:
    """Only a closed array of the outermost object is cut."""
    with pytest.raises(Unbalanced):
        lenient_json.cut_array(text, b"items")
