"""Indexes of the caches: an object of any content may arrive, and none ends its informer."""

from __future__ import annotations

import pytest

from windlass.environments import owned_cache, resource_cache
from windlass.environments.resource_cache import ResourceCache
from windlass.objects.names import Key
from windlass.runtime.informer_registry import InformerRegistry

KEY = Key("team", "e")
DEEP = b'{"metadata":{"name":"e"},"spec":' + b"[" * 1100 + b"]" * 1100 + b"}"
NOT_UTF8 = b'{"metadata":{"name":"e"},"spec":{"projectRef":{"name":"\xff"}}}'


@pytest.mark.parametrize("raw", [DEEP, NOT_UTF8], ids=["1100 levels", "not UTF-8"])
def test_an_object_that_cannot_be_decoded_has_no_value(raw: bytes) -> None:
    """Neither the index of Environments nor those of namespaces raise."""
    assert resource_cache._read_project(KEY, raw) is None
    assert owned_cache._read_owner(KEY, raw) is None
    assert owned_cache._read_owner_uid(KEY, raw) is None


def test_an_environment_that_can_no_longer_be_decoded_leaves_its_project() -> None:
    """The Project that it named is enqueued, which may have waited for it."""
    queued: list[Key] = []
    informers = InformerRegistry(None)  # type: ignore[arg-type]
    cache = ResourceCache(informers, queued.append, lambda _: None)
    index = cache._environments_by_project
    index.update(KEY, b'{"metadata":{"name":"e"},"spec":{"projectRef":{"name":"p"}}}')
    index.notify(index.update(KEY, DEEP))
    assert queued == [Key("team", "p")]
    assert cache.environments_of(Key("team", "p")) == ()
