"""Patches of a profile, by example."""

from __future__ import annotations

import pytest

from windlass.gateways.render import patching
from windlass.gateways.render.json_tokens import InvalidJson
from windlass.gateways.render.patching import FilePatch, MappingPatches


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("1.0e5", b"1.0e5"),
        (" true\n", b"true"),
        ('{"a": [1]}', b'{"a": [1]}'),
        ('"x"', b'"x"'),
        ("x", b'"x"'),
        ("", b'""'),
        ("01", b'"01"'),
        ("True", b'"True"'),
        (" x ", b'" x "'),
        ('say "x"', b'"say \\"x\\""'),
        ("\ufeff1", '"\ufeff1"'.encode()),
        ("\ud800", b'"\\ud800"'),
    ],
)
def test_patch_values_are_json_or_strings(text: str, raw: bytes) -> None:
    """Valid JSON is written unchanged, anything else as a string."""
    assert patching.encode_value(text) == raw


def test_patches_apply_in_order() -> None:
    """In list order, and within one patch a parent before its children."""
    patches = [
        FilePatch("", {".a.b": "1", ".a": "{}", ".list[-]": "x"}),
        FilePatch("", {".list[-]": "y"}),
    ]
    content = b'{"list": [], "a": null}'
    assert patching.apply_patches(content, patches) == b'{"list": ["x","y"], "a": {"b": 1}}'


def test_a_glob_selects_files_below_the_destination() -> None:
    """An empty glob selects the mapped file alone."""
    deep, top, own = FilePatch("**/config.json"), FilePatch("*.json"), FilePatch("")
    patches = MappingPatches([deep, top, own])
    assert patches.for_file("config.json") == (deep, top)
    assert patches.for_file("a/b/config.json") == (deep,)
    assert patches.for_file("") == (own,)
    assert patches.for_file("config.json/x") == ()


@pytest.mark.parametrize(
    "patch", [FilePatch("!a"), FilePatch("a", {"b": "1"}), FilePatch("", {".a[": "1"})]
)
def test_malformed_patches_are_refused(patch: FilePatch) -> None:
    """An invalid glob or path is refused before any file is read."""
    with pytest.raises(ValueError, match=r"pattern|path"):
        MappingPatches([patch])


def test_a_target_that_is_not_json_is_refused() -> None:
    """Patching a text file is refused with a position."""
    with pytest.raises(InvalidJson, match="line 1, column 1"):
        patching.apply_patches(b"hello", [FilePatch("", {".a": "1"})])
