"""Row `admission`: how long a write waits for us while the operator is busiest.

Another process posts AdmissionReviews over TLS, 200 a second on connections that stay
open, as the API server does. First while nothing else happens, then while the operator
takes its first snapshot of 10 000 objects and pushes it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.figure import Figure, at_most, percentile
from bench.testbed import Testbed, await_files

OBJECTS = 10_000
RATE = 200
_IDLE_SECONDS = 8.0


def measure(testbed: Testbed) -> Iterator[Figure]:
    """The 99th percentile of the answers' times during the first sync."""
    namespace = testbed.crowd(OBJECTS)
    with (
        testbed.operator("admission"),
        testbed.mirrored(namespace, "admission.git") as joined,
        _posting(testbed) as poster,
        testbed.progress.step(f"admission: {RATE} reviews/s, first sync of {OBJECTS} objects"),
    ):
        time.sleep(1.0)  # connections and caches are warm from here on
        idle_from = time.monotonic()
        time.sleep(_IDLE_SECONDS)
        applied = time.monotonic()
        joined.admin.apply(joined.watch_rule({"resources": ["configmaps"]}))
        await_files(joined, OBJECTS, seconds=120)
        synced = time.monotonic()
        samples, failures = _read_report(poster)
    idle = [took for at, took in samples if idle_from <= at < applied]
    busy = [took for at, took in samples if applied <= at < synced]
    assert idle, "no review was answered while idle"
    assert busy, "no review was answered during the sync"
    p99 = percentile(busy, 0.99) * 1e3
    yield Figure(
        "admission",
        f"p99 of an answer during a first sync of {OBJECTS}",
        f"{p99:.1f} ms",
        p99,
        "ms",
        f"{percentile(idle, 0.99) * 1e3:.1f} ms",
        at_most(10),
        f"{len(busy)} reviews in {synced - applied:.1f} s, "
        f"p50 {percentile(busy, 0.5) * 1e3:.1f} ms, max {max(busy) * 1e3:.1f} ms, "
        f"failed: {failures or 0}; the other is p99 while idle",
    )
    yield Figure(
        "admission",
        f"that first sync of {OBJECTS}, rule to pushed",
        f"{synced - applied:.1f} s",
        synced - applied,
        "s",
        goal=at_most(10),
        note=f"with {RATE} reviews/s beside it, which share the same cores",
    )


@contextlib.contextmanager
def _posting(testbed: Testbed) -> Iterator[subprocess.Popen[str]]:
    webhook = testbed.webhook()
    authority = testbed.directory / "webhook-ca.pem"
    authority.write_bytes(base64.b64decode(webhook["caBundle"]))
    poster = subprocess.Popen(
        [sys.executable, "-m", "bench.admission_client", webhook["url"], str(authority), str(RATE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield poster
    finally:
        poster.kill()
        poster.communicate()


def _read_report(poster: subprocess.Popen[str]) -> tuple[list[tuple[float, float]], dict[str, int]]:
    """What the poster measured: (when, seconds) of each answer, and what failed how often."""
    out, _ = poster.communicate(timeout=30)  # closing its stdin ends its work
    report = json.loads(out)
    return [(at, took) for at, took in report["samples"]], report["failures"]
