"""Our newest writes, until the informer cache has them."""

from __future__ import annotations

import orjson
import pytest

from windlass.base.errors import Retryable
from windlass.objects.names import Object
from windlass.runtime.owned import RecentWrites


class _Server:
    """Responds to writes; the cache may observe them before the response."""

    def __init__(self, cache: dict[str, bytes]) -> None:
        self.cache = cache

    async def write(self, obj: Object, meanwhile: bytes | None = None) -> Object:
        if meanwhile is not None:
            self.cache["a"] = meanwhile
        return obj

    async def delete(self) -> None:
        return None

    async def refuse(self) -> Object:
        raise Retryable("Refused", "no")


async def test_a_write_counts_until_the_cache_updates() -> None:
    """The cache's next version wins, whatever it is."""
    cache = {"a": b'{"v": 1}'}
    recent: RecentWrites[str] = RecentWrites(cache.get)
    await recent.written("a", _Server(cache).write({"v": 2}))
    assert recent.newest("a") == {"v": 2}
    cache["a"] = b'{"v": 3}'
    assert recent.newest("a") == {"v": 3}
    cache["a"] = b'{"v": 1}'
    assert recent.newest("a") == {"v": 1}


async def test_a_write_does_not_hide_a_later_change_by_others() -> None:
    """The cache observed our write, and a change to it, before the response."""
    cache = {"a": b'{"v": 1}'}
    recent: RecentWrites[str] = RecentWrites(cache.get)
    await recent.written("a", _Server(cache).write({"v": 2}, meanwhile=b'{"v": 3}'))
    assert recent.newest("a") == {"v": 3}


def _version(number: int) -> bytes:
    return b'{"metadata":{"resourceVersion":"%d"}}' % number


@pytest.mark.parametrize("arrival", ["before", "during", "after"])
async def test_the_newest_of_two_writes_counts_until_the_cache_shows_it(arrival: str) -> None:
    """The first one arrives in the cache before, during or after the second."""
    cache = {"a": _version(1)}
    recent: RecentWrites[str] = RecentWrites(cache.get)

    def arrive(number: int) -> None:
        cache["a"] = _version(number)
        recent.cache_changed("a")

    async def write(number: int, *, meanwhile: bool = False) -> Object:
        if meanwhile:
            arrive(2)
        written: Object = orjson.loads(_version(number))
        return written

    await recent.written("a", write(2))
    if arrival == "before":
        arrive(2)
    third = await recent.written("a", write(3, meanwhile=arrival == "during"))
    if arrival == "after":
        arrive(2)
    assert recent.newest("a") == third
    arrive(4)
    assert recent.newest("a") == orjson.loads(_version(4))


@pytest.mark.parametrize("second", [1, 2])
async def test_an_object_that_somebody_deleted_is_gone(second: int) -> None:
    """Also if our second write of it had no effect, or never showed up in the cache."""
    cache: dict[str, bytes] = {}
    recent: RecentWrites[str] = RecentWrites(cache.get)

    async def write(number: int) -> Object:
        written: Object = orjson.loads(_version(number))
        return written

    await recent.written("a", write(1))
    await recent.written("a", write(second))
    cache["a"] = _version(1)
    recent.cache_changed("a")
    assert recent.newest("a") == orjson.loads(_version(second))
    del cache["a"]
    recent.cache_changed("a")
    assert recent.newest("a") is None
    assert not recent._written


@pytest.mark.parametrize("writes", [1, 2])
async def test_an_object_that_was_deleted_before_our_response_is_gone(writes: int) -> None:
    """The cache got our write and its deletion first, so it looks as if nothing had happened."""
    cache: dict[str, bytes] = {}
    recent: RecentWrites[str] = RecentWrites(cache.get)

    async def write(number: int) -> Object:
        if number == writes:
            cache["a"] = _version(number)
            recent.cache_changed("a")
            del cache["a"]
            recent.cache_changed("a")
        written: Object = orjson.loads(_version(number))
        return written

    for number in range(1, writes + 1):
        await recent.written("a", write(number))
    assert recent.newest("a") is None
    assert not recent._written
    assert not recent._under_way


async def test_a_guarded_write_counts_while_the_cache_shows_its_base() -> None:
    """The cache was behind the version that the write was computed from."""
    cache = {"a": _version(1)}
    recent: RecentWrites[str] = RecentWrites(cache.get)
    await recent.written("a", _Server(cache).write({"v": 3}), base="2")
    cache["a"] = _version(2)
    recent.cache_changed("a")
    assert recent.newest("a") == {"v": 3}
    cache["a"] = _version(4)
    assert recent.newest("a") == orjson.loads(_version(4))


async def test_a_deletion_counts_like_a_write() -> None:
    """The cache still has the object; our deletion is newer."""
    cache = {"a": b'{"v": 1}'}
    recent: RecentWrites[str] = RecentWrites(cache.get)
    await recent.deleted("a", _Server(cache).delete())
    assert recent.newest("a") is None
    cache["a"] = b'{"v": 2}'
    assert recent.newest("a") == {"v": 2}


async def test_a_creation_counts_before_the_cache_has_anything() -> None:
    """Until the first event of the cache."""
    cache: dict[str, bytes] = {}
    recent: RecentWrites[str] = RecentWrites(cache.get)
    await recent.written("a", _Server(cache).write({"v": 1}))
    assert recent.newest("a") == {"v": 1}
    recent.forget("a")
    assert recent.newest("a") is None


async def test_a_failed_write_is_not_remembered() -> None:
    """A rejected object is not listed."""
    cache = {"a": b'{"v": 1}'}
    recent: RecentWrites[str] = RecentWrites(cache.get)
    with pytest.raises(Retryable):
        await recent.written("a", _Server(cache).refuse())
    assert recent.newest("a") == {"v": 1}
