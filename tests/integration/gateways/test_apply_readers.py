"""A gateway that reads its files while they are repeatedly replaced."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.gateways import data_directory as site
from tests.support.gateways.crash_runner import memory_directory

SYNCS = 150
RESOURCES = 4


def release(number: int) -> dict[str, bytes]:
    """A tree in which every resource lists its payload, and every payload has its own length."""
    files = {}
    for index in range(RESOURCES):
        folder = f"projects/site/resource-{index}"
        payload = f"payload-{number % 3}.bin"
        body = bytes([number % 251]) * (100 + 37 * number % 4000)
        files[f"{folder}/{payload}"] = b"%08d" % len(body) + body
        files[f"{folder}/resource.json"] = json.dumps({"files": [payload]}).encode()
    return files


class Reader(threading.Thread):
    """Walks the tree until it is stopped; collects torn reads."""

    def __init__(self, data: Path) -> None:
        super().__init__()
        self._root = data / "projects"
        self.is_over = threading.Event()
        self.torn: list[str] = []
        self.walks = 0
        # How many applies and rollbacks began; the test counts them.
        self.begun = 0

    def run(self) -> None:
        while not self.is_over.is_set():
            for index in range(RESOURCES):
                self._read(self._root / "site" / f"resource-{index}")
            self.walks += 1

    def _read(self, folder: Path) -> None:
        resource_file, begun = folder / "resource.json", self.begun
        resource = _read(resource_file)
        if not resource:
            if resource is not None:
                self.torn.append(f"{resource_file} is short")
            return
        (payload,) = json.loads(resource)["files"]
        content = _read(folder / payload)
        if content is None:
            is_torn = _read(resource_file) == resource and _read(folder / payload) is None
            # After several applies the same text may belong to another payload again.
            if is_torn and self.begun <= begun + 1:
                self.torn.append(f"{resource_file} names {payload}, which is not there")
        elif len(content) != 8 + int(content[:8] or b"-1"):
            self.torn.append(f"{payload} is short")


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


@contextmanager
def reading(data: Path) -> Iterator[Reader]:
    """A reader that runs during the block."""
    reader = Reader(data)
    reader.start()
    try:
        yield reader
    finally:
        reader.is_over.set()
        reader.join()


@pytest.mark.scenario("G41")
def test_a_reader_never_sees_a_short_file_or_a_missing_payload() -> None:
    """Through many applies and rollbacks every read gets complete files that belong together."""
    with memory_directory() as data, site.applier(data) as applier:
        site.sync(applier, release(0), "0")
        with reading(data) as reader:
            for number in range(1, SYNCS):
                reader.begun += 1
                site.sync(applier, release(number), str(number))
                if number % 10 == 0:
                    reader.begun += 1
                    applier.rollback()
        assert reader.torn == []
        assert reader.walks > 0
