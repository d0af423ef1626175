"""How many git children may run at the same time, in all and per host.

Who has to wait waits in the order of asking. A crowded host holds up its own askers only:
a place among all is taken after one of the host's. The wait is not part of any deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
from weakref import WeakValueDictionary


class Turns:
    """The places of one process; children without a host take one of the total only."""

    def __init__(self, most: int, most_per_host: int) -> None:
        self._all = asyncio.Semaphore(most)
        self._most_per_host = most_per_host
        # Whoever waits or runs holds on to the host's line; without them it goes by itself.
        self._hosts: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def taken(self, host: str) -> contextlib.ExitStack:
        """A place, as soon as there is one; leaving the returned block gives it back."""
        place = contextlib.ExitStack()
        try:
            for line in (*self._line_of(host), self._all):
                await line.acquire()
                place.callback(line.release)
        except BaseException:
            place.close()
            raise
        return place

    def _line_of(self, host: str) -> tuple[asyncio.Semaphore, ...]:
        if not host:
            return ()
        found = self._hosts.get(host)
        if found is None:
            found = self._hosts[host] = asyncio.Semaphore(self._most_per_host)
        return (found,)
