"""One page of a list."""

from __future__ import annotations

import pytest

from windlass.kube import api
from windlass.kube.errors import ApiError


def test_types_are_restored() -> None:
    """Items of a built-in list get the kind and apiVersion that a watch has."""
    body = (
        b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9",'
        b'"continue":"abc"},"items":[{"metadata":{"name":"a"}}]}'
    )
    page, token = api.parse_page(body)
    assert page.items == (b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}',)
    assert (page.resource_version, token) == ("9", "abc")


def test_own_type_stays() -> None:
    """Custom resources have their own type, whatever their list is called."""
    body = (
        b'{"kind":"ThingCollection","apiVersion":"x/v1","metadata":{},'
        b'"items":[{"kind":"Thing","apiVersion":"x/v1"}]}'
    )
    page, token = api.parse_page(body)
    assert page.items == (b'{"kind":"Thing","apiVersion":"x/v1"}',)
    assert token == ""


def test_null_items() -> None:
    """An empty list may have no items at all."""
    page, _ = api.parse_page(b'{"kind":"XList","metadata":{"resourceVersion":"1"},"items":null}')
    assert page.items == ()


@pytest.mark.parametrize("body", [b"", b"[]", b'{"kind":"Status"}', b'{"metadata":{},"items":['])
def test_no_list(body: bytes) -> None:
    """A response that is not a list is never taken for an empty one."""
    with pytest.raises(ApiError, match="is not a list"):
        api.parse_page(body)


@pytest.mark.parametrize(
    "poison",
    [
        b'{"data":"\\ud800","metadata":{"name":"p"}}',
        b'{"data":' + b"[" * 4000 + b"]" * 4000 + b"}",
        b'{"data":"\xff\xfe \\" ]}{[","items":[{"x":1}]}',
    ],
)
def test_poison_does_not_spoil_the_page(poison: bytes) -> None:
    """An item that cannot be parsed is passed on as bytes, and the others are parsed."""
    body = (
        b'{"kind":"ThingList","apiVersion":"v1","metadata":{"resourceVersion":"9",'
        b'"continue":"t"},"items":[{"metadata":{"name":"a"}},' + poison + b',{"kind":"B"}]}'
    )
    page, token = api.parse_page(body)
    assert len(page.items) == 3
    assert page.items[0] == b'{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"}}'
    assert page.items[1].endswith(poison[1:])
    assert page.items[2] == b'{"kind":"B"}'
    assert (page.resource_version, token) == ("9", "t")


def test_a_truncated_page_is_refused() -> None:
    """With or without an item that cannot be parsed."""
    poison = b'{"data":"\\ud800"}'
    with pytest.raises(ApiError, match="is not a list"):
        api.parse_page(b'{"kind":"XList","metadata":{},"items":[' + poison + b"]")
