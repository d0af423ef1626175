"""One page of a list, its items left as bytes.

Items of built-in types come without kind and apiVersion; both follow from the list and
are put in front, so that an item reads like the same object in a watch. An item that no
parser will read stays as it is, and does not spoil the page for the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import orjson

from windlass.kube import brackets
from windlass.kube.brackets import Unbalanced
from windlass.kube.errors import ApiError


@dataclass(frozen=True, slots=True)
class Page:
    """Items of one page, and the version of the whole list."""

    items: tuple[bytes, ...]
    resource_version: str


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None
    kind: str = ""
    api_version: str = ""


class _Type(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""


_list = msgspec.json.Decoder(_List)
_type = msgspec.json.Decoder(_Type)
_PROBLEMS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def parse(body: bytes) -> tuple[Page, str]:
    """The page in a body, and the token of the next one or nothing."""
    try:
        page, raw = _opened(body)
    except (*_PROBLEMS, Unbalanced) as error:
        raise ApiError(200, "Undecodable", f"a page of {len(body)} bytes is no list") from error
    front = _front(page)
    items = tuple(_with_type(item, front) for item in raw)
    return Page(items, page.metadata.resource_version), page.metadata.continue_


def _opened(body: bytes) -> tuple[_List, list[bytes]]:
    try:
        page = _list.decode(body)
    except _PROBLEMS:
        without, items = brackets.cut_array(body, b"items")
        return _list.decode(without), items
    return page, [bytes(item) for item in page.items or ()]


def _front(page: _List) -> bytes:
    kind = page.kind.removesuffix("List")
    if not kind or kind == page.kind:
        return b""
    return orjson.dumps({"apiVersion": page.api_version, "kind": kind})[:-1] + b","


def _with_type(item: bytes, front: bytes) -> bytes:
    try:
        has_type = bool(_type.decode(item).kind)
    except _PROBLEMS:
        return item
    if has_type or not front or not item.startswith(b'{"'):
        return item
    return front + item[1:]
