"""Canonical YAML read back by four readers gives the value that went in."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tests.support.strategies.batched import (
    balanced_column,
    choices,
    maps_of_json,
    substitute_numbers,
    values_of_json,
)
from windlass.objects import yaml_emitter, yaml_reader

NASTY = (
    "", " ", "  ", "\n", "\n\n", "\t", "no", "No", "NO", "yes", "on", "OFF", "y", "N", "true",
    "False", "null", "Null", "~", "nan", ".nan", "inf", "-.inf", "1:30", "190:20:30", "0x1F",
    "1e3", "1E3", "-1", "+1", "0", "007", "0o17", "0b11", "1_000", ".5", "5.", "1.5", "6.02e23",
    "1e21", "2020-01-01", "2020-01-01T00:00:00Z", "2001-12-14 21:59:43.10 -5", "=", "<<", "a: b",
    "a:b", "a:", ":a", "a :b", "a #b", "a#b", "#", "# x", "- x", "-", "--", "---", "--- a", "...",
    "? x", "?", ": x", "| x", "> x", "& x", "*x", "!x", "!!str x", "%x", "@x", "`x`", "{a: b}",
    "{}", "[]", "[a]", "a,b", "'x'", '"x"', "it's", "a\\b", "\\", "a\r\nb", "a\rb", "\r\n",
    "line\n", "line\n\n", "line\n\n\n", "a\nb", "a\nb\n", "a\n\nb", "a\n\n\n\nb\n", " a\nb",
    "\ta\nb", "\na", "a\n ", "a\n  \n", "a\n \n b\n", "a \nb ", "a\t\nb", "a\n\tb\n",
    "---\na: b\n", "a\n---\nb\n", "a\n...\n", "# c\nd\n", "a\n# c\n", "%TAG\n", "- a\n- b\n",
    "trailing ", " leading", "two  blanks", "emoji 🎉", "🎉\n🎉\n", "\x00", "\x07", "\x1b[0m",
    "\x7f", "\x85", "a\x85b\n", "\xa0", "\u2028", "a\u2028b\nc", "\u2029", "\ufeff", "\ufeffa\nb",
    "\u202e", "\ufffd", "\ufffe", "\uffff", "\U0001fffe", "\U0010ffff", "ünïcödé", "日本語\n日本語",
    "e3", "_1", "/", "/a b", "a/b:c", "http://x/y#z", "k:{\"port\":80}", "f:metadata", "x" * 1024,
    "x" * 1025, '"' * 700, "very long " * 400, "a" * 1100 + ": b",
    "\n".join("row" for _ in range(3)), "None", "Infinity",
)  # fmt: skip

STRANGE = st.text(st.sampled_from(" \t\n\r:#-?|>a0._\"'{}\x85\u2028\ufeff"), max_size=12)
GENERATED = st.tuples(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=30),
    STRANGE,
    STRANGE,
    choices(NASTY, min_size=2, max_size=3).map("".join),
    st.integers(min_value=-(2**63), max_value=2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
# A number stands for what is made up: four texts, which may be names, an integer, a float.
LEAVES = balanced_column([None], [False, True], [4], [5], balanced_column([0], [1, 2], [3], NASTY))
NAMES = balanced_column([0], [1, 2], [3], NASTY)


def _planted(shape: Any, made_up: tuple[Any, ...]) -> Any:
    return substitute_numbers(shape, made_up, made_up[:4])


VALUE = st.builds(_planted, values_of_json(LEAVES, NAMES, 24), GENERATED)
MAP = st.builds(_planted, maps_of_json(LEAVES, NAMES, 24), GENERATED)


def _ruamel(content: bytes) -> Any:
    return YAML(typ="safe", pure=True).load(content.decode())


def _old_pyyaml(content: bytes) -> Any:
    return yaml.load(content, Loader=yaml.CSafeLoader)


READERS = pytest.mark.parametrize(
    "reader",
    [
        pytest.param(yaml_reader.read, id="ours"),
        pytest.param(_old_pyyaml, id="1.1"),
        pytest.param(_ruamel, id="1.2"),
    ],
)


def same(left: Any, right: Any) -> bool:
    """Equality that distinguishes true from 1 and 1 from 1.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


@pytest.mark.scenario("A45")
@READERS
def test_every_ambiguous_text_survives_in_every_position(reader: Callable[[bytes], Any]) -> None:
    """As value, key, item and alone."""
    for text in NASTY:
        places = (text, [text], {"k": text}, {text: 1}, {"k": [text, {text: [text]}]}, [[text]])
        for value in places:
            content = yaml_emitter.emit(value)
            assert same(reader(content), value), content


@pytest.mark.scenario("A45")
@READERS
@given(value=VALUE)
@example(value={"a" * 2000: {"b": ["x\ny", {"c" * 2000: []}]}})
@example(value=[[[]], [{}], {"a": {}, "b": []}])
@settings(max_examples=150, deadline=None)
def test_reading_is_the_inverse_of_emitting(reader: Callable[[bytes], Any], value: Any) -> None:
    """Any JSON value is read back as itself by readers of YAML 1.1 and 1.2."""
    content = yaml_emitter.emit(value)
    assert same(reader(content), value), content


@given(value=VALUE)
@settings(max_examples=200, deadline=None)
def test_bytes_are_canonical(value: Any) -> None:
    """The text has no CR, markers or invisible characters, and emitting again gives it again."""
    content = yaml_emitter.emit(value)
    text = content.decode("utf-8")
    assert text.endswith("\n")
    assert not any(char in text for char in "\r\x00\x7f\x85\u2028\u2029\ufeff\u202e")
    assert not any(line.startswith(("---", "...", "%", "\ufeff")) for line in text.split("\n"))
    assert yaml_emitter.emit(yaml_reader.read(content)) == content


def shuffled(value: Any, chance: random.Random) -> Any:
    """The value with the pairs of every map in another order."""
    if isinstance(value, list):
        return [shuffled(inner, chance) for inner in value]
    if not isinstance(value, dict):
        return value
    pairs = [(name, shuffled(inner, chance)) for name, inner in value.items()]
    chance.shuffle(pairs)
    return dict(pairs)


@given(value=MAP, seed=st.integers(0, 2**16))
@settings(max_examples=100, deadline=None)
def test_order_of_keys_has_no_influence(value: dict[str, Any], seed: int) -> None:
    """Two maps with the same pairs have the same bytes, at any depth."""
    mixed = shuffled(value, random.Random(seed))
    assert yaml_emitter.emit(mixed) == yaml_emitter.emit(value)
    assert yaml_emitter.emit([mixed]) == yaml_emitter.emit([value])
