"""Row `emitter`: canonical YAML of real objects, beside PyYAML's fastest dumper.

Twice: as it runs in a mirror, where most texts were met before, and with the emitter's
memory of texts emptied before every round, which is the worst that can happen to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from bench.figure import Figure, at_least, median
from bench.testbed import Testbed
from windlass.objects import yaml_emitter, yaml_reader

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures" / "kinds"
_ROUNDS = 15


def measure(testbed: Testbed) -> Iterator[Figure]:
    """How often faster the emitter is over all fixtures."""
    objects = [yaml_reader.read(file.read_bytes()) for file in sorted(FIXTURES.glob("*.yaml"))]
    ours: list[float] = []
    cold: list[float] = []
    theirs: list[float] = []
    with testbed.progress.step(f"emitter: {_ROUNDS} rounds over {len(objects)} objects"):
        for _ in range(_ROUNDS):
            yaml_emitter.scalar_memo.clear()
            cold.append(_seconds(yaml_emitter.emit, objects))
            ours.append(_seconds(yaml_emitter.emit, objects))
            theirs.append(_seconds(_dump, objects))
    other = median(theirs) / len(objects)
    for what, found in (("warm", ours), ("texts not cached", cold)):
        mine = median(found) / len(objects)
        yield Figure(
            "emitter",
            f"emit beside yaml.dump(CSafeDumper), {what}",
            f"{mine * 1e6:.0f} us",
            other / mine,
            "x faster",
            f"{other * 1e6:.0f} us",
            at_least(5) if found is ours else None,
            f"mean over {len(objects)} real objects, median of {_ROUNDS} rounds",
        )


def _seconds(emit: Callable[[Any], bytes], objects: list[Any]) -> float:
    began = time.perf_counter()
    for value in objects:
        emit(value)
    return time.perf_counter() - began


def _dump(value: Any) -> bytes:
    text: bytes = yaml.dump(value, Dumper=yaml.CSafeDumper, encoding="utf-8")
    return text
