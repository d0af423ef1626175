"""Texts are collected by content, not by the names in the code around them."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.repository.source_texts import Sources, calls, grouped, keys_read

_BEFORE = {
    "rooms/names.py": 'PREFIX = "example.org/"\nFINALIZER = PREFIX + "finalizer"\n',
    "rooms/desk.py": """
from rooms import names
class Desk:
    def tell(self, thing):
        return f"{names.PREFIX}{thing}-told", {"routingHash": thing}
""",
}
_AFTER = {
    "house/words.py": 'START = "example.org/"\nGUARD = START + "finalizer"\n',
    "house/deep/cluster.py": """
from house.words import START as start
class Cluster:
    async def report(self, status):
        key = "routingHash"
        return start + status + "-told", {key: status}
""",
}


def _sources(folder: Path, files: dict[str, str]) -> Sources:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return Sources([folder])


def _texts(folder: Path, source: str) -> frozenset[str]:
    return _sources(folder, {"package/module.py": source}).texts


def test_moving_and_renaming_changes_no_text(tmp_path: Path) -> None:
    """Modules, classes, functions and variables may have other names."""
    before = _sources(tmp_path / "before", _BEFORE).texts
    assert before == _sources(tmp_path / "after", _AFTER).texts
    assert before == {
        "example.org/",
        "example.org/finalizer",
        "example.org/{}-told",
        "routingHash",
    }


def test_a_placeholder_keeps_its_format(tmp_path: Path) -> None:
    """The number of digits in a name is part of the name."""
    assert _texts(tmp_path, 'f"refs/{number:010d}/{a}{b}"') == {"refs/{:010d}/{}"}


def test_a_text_in_a_placeholder_counts_too(tmp_path: Path) -> None:
    """An f-string that reads a mapping has its key."""
    assert _texts(tmp_path, """f"{found['key']}-{2:d}" + str("inner")""") == {
        "key",
        "inner",
        "{}-{:d}{}",
    }


def test_docstrings_and_names_of_code_are_not_texts(tmp_path: Path) -> None:
    """Nor are names of types, exports and attributes."""
    source = '''
"""A docstring."""
__all__ = ["Exported"]
T = TypeVar("T", bound="Bound")
def read(value: "Type") -> dict[str, "Other"]:
    """Another."""
    return getattr(cast("Cast", value), "attribute", "default")
'''
    assert _texts(tmp_path, source) == {"default"}


def test_a_literal_type_is_a_contract(tmp_path: Path) -> None:
    """Its values occur in documents, wherever it is declared."""
    source = 'Kind = Literal["a", "b"]\ndef run(kind: Literal["c"] | None) -> None: ...\n'
    assert _texts(tmp_path, source) == {"a", "b", "c"}


def test_a_parameter_has_the_values_of_its_callers(tmp_path: Path) -> None:
    """Names of failpoints that a function composes are known."""
    source = """
def effect(tree, name):
    reach(f"tree.{name}.before")
effect(tree, "rename"), effect(tree, name="unlink"), effect(tree, other)
"""
    sources = _sources(tmp_path, {"package/module.py": source})
    module = sources.modules["package.module"]
    (call,) = calls(module, "reach")
    assert set(sources.variants(module, call.args[0])) == {
        "tree.rename.before",
        "tree.unlink.before",
        "tree.{}.before",
    }


def test_keys_are_those_that_are_read(tmp_path: Path) -> None:
    """Names of arguments in a mapping that is only passed on are names of code."""
    source = 'data["one"], data.get("two", "x"), dict(a=1), {"three": 3}'
    sources = _sources(tmp_path, {"package/module.py": source})
    found = [ast.literal_eval(key) for key in keys_read(sources.modules["package.module"])]
    assert found == ["one", "two"]


def test_words_of_one_mapping_type_or_constant_are_grouped(tmp_path: Path) -> None:
    """A key that takes the name of another one elsewhere is detected."""
    source = """
FIELDS = ("claim", "cluster")
STATES = frozenset({"done", "open"})
__all__ = ["one", "two"]
def keep(value: Literal["on", "off"]):
    return {"commit": value, **more, "ref": "x"}
"""
    sources = _sources(tmp_path, {"package/module.py": source})
    found = [
        list(map(ast.literal_eval, each)) for each in grouped(sources.modules["package.module"])
    ]
    assert sorted(filter(None, found)) == [
        ["claim", "cluster"],
        ["commit", "ref"],
        ["done", "open"],
        ["on", "off"],
    ]
