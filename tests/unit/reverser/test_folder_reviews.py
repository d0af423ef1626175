"""When folders are reviewed for files that no rule covers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.reverser.destination_folder import empty_folder
from windlass.base.clock import SystemClock
from windlass.kube.discovery import ApiTypes
from windlass.reverser import folder_reviews
from windlass.reverser.folder_reviews import FolderReviews
from windlass.reverser.publish.folder import Folder
from windlass.reverser.watch.stream_registry import StreamRegistry


async def test_the_first_catalog_starts_reviews_also_without_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder may open before discovery ends, and no rule has to exist that would wake it."""
    monkeypatch.setattr(folder_reviews, "_STABLE_SECONDS", 0.0)
    catalogs: list[ApiTypes | None] = [None]
    folder, asked, reviewed = empty_folder(), asyncio.Event(), asyncio.Event()
    folder.is_open = True

    def newest() -> ApiTypes | None:
        asked.set()
        return catalogs[-1]

    reviews = FolderReviews(
        cast("Any", None),
        cast("Any", SimpleNamespace(is_synced=True, rule_references=lambda: ())),
        StreamRegistry(),
        newest,
        SystemClock(),
        watch_all=False,
        excluded=frozenset(),
        grace_seconds=0.0,
    )
    running = asyncio.create_task(reviews.run(cast("Any", [_Worker(folder, reviewed)])))
    try:
        reviews.folder_changed(folder)
        async with asyncio.timeout(30):
            await asked.wait()
        catalogs.append(ApiTypes(()))
        reviews.catalog_changed()
        async with asyncio.timeout(30):
            await reviewed.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class _Worker:
    """A branch worker with one folder, which notes a review."""

    def __init__(self, folder: Folder, reviewed: asyncio.Event) -> None:
        self._folder = folder
        self._reviewed = reviewed

    def folders(self) -> list[tuple[None, Folder]]:
        return [(None, self._folder)]

    def add_snapshot(self, folder: Folder, snapshot: object) -> None:
        del folder, snapshot
        self._reviewed.set()
