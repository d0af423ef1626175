"""Canonical YAML: one JSON value has exactly one text (emitter `e1`).

UTF-8, LF, two blanks of indentation, dashes at the column of the parent key, keys in
code point order (apiVersion, kind and metadata first at the top), no markers, comments,
anchors, tags or folding. Readers of YAML 1.1 and 1.2 give back the value that went in.
The bytes are a contract: Git blobs are compared by them, so a change of any byte must
come with a new `EMITTER`.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.objects import canonical_scalar as scalar
from windlass.objects.json import JSON, Object

EMITTER = "e1"

_LEADING_KEYS = ("apiVersion", "kind", "metadata")
_WORDS = {None: "null", True: "true", False: "false"}


def emit(value: JSON) -> bytes:
    """The canonical bytes of `value`; ValueError or TypeError where it is no JSON value."""
    out: list[str] = []
    if type(value) is dict and value:
        _emit_map(value, _top_order(value), "", "", out)
    elif type(value) is list and value:
        _emit_list(value, "", "", out)
    else:
        out.append(_leaf(value, "  "))
    return "".join(out).encode()


def _top_order(value: Object) -> Iterable[str]:
    leading = [key for key in _LEADING_KEYS if key in value]
    return leading + [key for key in sorted(value) if key not in _LEADING_KEYS]


def _emit_map(value: Object, keys: Iterable[str], first: str, pad: str, out: list[str]) -> None:
    """The rows of `value` at `pad`; `first` stands in place of `pad` on the first row."""
    known = scalar.memo
    for key in keys:
        name = known.get(key) or scalar.text(key)
        item = value[key]
        if len(name) > scalar.LONGEST_SIMPLE_KEY:
            out.append(f"{first}? {name}\n")
            _emit_item(item, f"{pad}: ", pad, out)
        elif type(item) is str and "\n" not in item:
            out.append(f"{first}{name}: {known.get(item) or scalar.text(item)}\n")
        elif item and (type(item) is dict or type(item) is list):
            out.append(f"{first}{name}:\n")
            _emit_container(item, pad, out)
        else:
            out.append(f"{first}{name}: {_leaf(item, pad + '  ')}")
        first = pad


def _emit_container(item: Object | list[JSON], pad: str, out: list[str]) -> None:
    """The rows below a key at `pad`: dashes at its column, keys one step deeper."""
    if isinstance(item, dict):
        deeper = pad + "  "
        _emit_map(item, sorted(item), deeper, deeper, out)
    else:
        _emit_list(item, pad, pad, out)


def _emit_list(items: list[JSON], first: str, pad: str, out: list[str]) -> None:
    for item in items:
        _emit_item(item, f"{first}- ", pad, out)
        first = pad


def _emit_item(item: JSON, head: str, pad: str, out: list[str]) -> None:
    """`item` behind a two-column `head` (a dash, or the colon of an explicit key)."""
    kind = type(item)
    if kind is dict and item:
        _emit_map(item, sorted(item), head, pad + "  ", out)
    elif kind is list and item:
        _emit_list(item, head, pad + "  ", out)
    else:
        out.append(head + _leaf(item, pad + "  "))


def _leaf(item: JSON, pad: str) -> str:
    """A scalar or an empty container with its line end; a block's lines stand at `pad`."""
    if isinstance(item, str):
        lines = scalar.block(item, pad) if "\n" in item else None
        return lines if lines is not None else scalar.text(item) + "\n"
    if item is None or item is True or item is False:
        return _WORDS[item] + "\n"
    if isinstance(item, int | float):
        return scalar.number(item) + "\n"
    if isinstance(item, dict | list) and not item:
        return "{}\n" if isinstance(item, dict) else "[]\n"
    raise TypeError(f"canonical YAML holds JSON values only, not {type(item).__name__}")
