"""The exact bytes of canonical YAML: a change here is a new emitter version."""

from __future__ import annotations

import hashlib

import pytest

from windlass.objects import yaml_emitter

OBJECT = {
    "spec": {
        "ports": [{"port": 80, "name": "http"}, {"port": 443}],
        "args": ["--level", "no", "plain words", ""],
        "nested": [[1, 2], [], [{}]],
        "ratio": 1e21,
        "small": 1.5e-07,
        "whole": 2.0,
        "none": None,
        "flag": True,
        "empty": {},
        "none_at_all": [],
    },
    "kind": "Thing",
    "apiVersion": "example.org/v1",
    "aaa": "first after metadata",
    "metadata": {"name": "x", "labels": {"b": "2", "a": "on"}, "annotations": {"z/y": "a: b"}},
    "data": {
        "script": "#!/bin/sh\n\necho hi\n",
        "kept": "a\n\n\n",
        "bare": "a\nb",
        "dos": "a\r\nb",
        "odd": " a\nb",
        "bell": "\x07\u2028é",
    },
}
EXPECTED = """\
apiVersion: example.org/v1
kind: Thing
metadata:
  annotations:
    z/y: "a: b"
  labels:
    a: "on"
    b: "2"
  name: x
aaa: first after metadata
data:
  bare: |-
    a
    b
  bell: "\\u0007\\u2028é"
  dos: "a\\r\\nb"
  kept: |+
    a


  odd: " a\\nb"
  script: |
    #!/bin/sh

    echo hi
spec:
  args:
  - "--level"
  - "no"
  - plain words
  - ""
  empty: {}
  flag: true
  nested:
  - - 1
    - 2
  - []
  - - {}
  none: null
  none_at_all: []
  ports:
  - name: http
    port: 80
  - port: 443
  ratio: 1.0e+21
  small: 1.5e-07
  whole: 2.0
"""


def test_one_object_has_exactly_these_bytes() -> None:
    """Order, indentation, quoting, blocks and numbers are the contract of emitter e1."""
    assert yaml_emitter.EMITTER == "e1"
    assert yaml_emitter.emit(OBJECT).decode() == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "A-b_c.d",
        "/etc/x",
        "_x",
        "a b",
        "it's",
        "a:b",
        "http://x/y?z=1&a=2",
        "a#b",
        "e3",
        "No way",
    ],
)
def test_harmless_text_is_plain(text: str) -> None:
    """Text that no reader can misread has no quotes."""
    assert yaml_emitter.emit(text) == f"{text}\n".encode()


@pytest.mark.parametrize(
    "text",
    ["no", "Y", "0x1F", "1e3", "1:30", "~", "=", "<<", "", " a", "a ", "a  b", "a: b", "a #b", "a:",
     ".5", "2020-01-01", "+1", "-x", "{a", "[a", "a{b", 'a"b', "ä", "*a", "&a", "!a", "%a", "@a",
     "NaN"],
)  # fmt: skip
def test_ambiguous_text_is_quoted(text: str) -> None:
    """Text that some reader would convert or break is in double quotes."""
    quoted = text.replace('"', '\\"')
    assert yaml_emitter.emit(text) == f'"{quoted}"\n'.encode()


def test_long_key_is_explicit() -> None:
    """Readers refuse a simple key of more than 1024 characters, so it is written with `?`."""
    longest, longer = "k" * 1024, "k" * 1025
    assert yaml_emitter.emit({longest: 1}) == f"{longest}: 1\n".encode()
    assert yaml_emitter.emit({longer: {"a": 1, "b": [2]}, "z": 3}) == (
        f"? {longer}\n: a: 1\n  b:\n  - 2\nz: 3\n".encode()
    )


def test_top_level_order_is_only_for_the_top() -> None:
    """Below the top, apiVersion, kind and metadata are sorted like any key."""
    inner = {"metadata": 1, "kind": 2, "apiVersion": 3, "a": 4}
    assert (
        yaml_emitter.emit({"x": inner})
        == b"x:\n  a: 4\n  apiVersion: 3\n  kind: 2\n  metadata: 1\n"
    )


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "\ud800"])
def test_values_json_lacks_are_refused(value: object) -> None:
    """Infinity, not-a-number and lone surrogates are a ValueError."""
    with pytest.raises(ValueError):  # noqa: PT011
        yaml_emitter.emit({"a": value})


def test_foreign_types_are_refused() -> None:
    """Bytes and other objects are a TypeError that names the type."""
    with pytest.raises(TypeError, match="bytes"):
        yaml_emitter.emit({"a": b"x"})


def test_memo_does_not_change_the_bytes() -> None:
    """More different texts than the memo holds give the same bytes as few."""
    many = {f"key-{number}": f"{number}" for number in range(40_000)}
    first = hashlib.sha256(yaml_emitter.emit(many)).digest()
    assert hashlib.sha256(yaml_emitter.emit(many)).digest() == first
