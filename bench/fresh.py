"""Row `fresh`: from an acknowledged write to its commit on the git server.

A user writes one object, waits until the branch on the server has moved, writes the next.
Writes go round several repositories, so that each branch has rested for a second before
it is its turn: this is the time of a single change, not of a burst. Beside it stands one
round of the loop a user would write instead: kubectl get into a work tree, git commit,
git push, to the same server. And what one object costs to parse, clean and digest.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import samples
from bench.figure import Figure, at_most, median, percentile
from bench.many_files import git
from bench.testbed import Testbed, await_synced
from tests.support.git.http_server import PASSWORD
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.reverser.content.clean_object import ObjectReader

WRITES = 100
_MIRRORS = 6
_REST_SECONDS = 1.1
"""Longer than the second after which a branch counts as idle."""
_LOOPS = 5
_SECONDS = 30.0


def measure(testbed: Testbed) -> Iterator[Figure]:
    """Seconds until the branch moved."""
    namespaces = [testbed.namespace(f"fresh-{number}") for number in range(_MIRRORS)]
    with testbed.operator("fresh"), contextlib.ExitStack() as stack:
        mirrors = [
            stack.enter_context(testbed.mirrored(namespace, f"{namespace}.git"))
            for namespace in namespaces
        ]
        for joined in mirrors:
            joined.admin.apply(joined.watch_rule({"resources": ["configmaps"]}))
        for joined in mirrors:
            await_synced(joined, seconds=60)
        with testbed.progress.step(f"fresh: {WRITES} writes"):
            waits = asyncio.run(_write(testbed, mirrors))
    with testbed.progress.step(f"fresh: {_LOOPS} rounds of kubectl get + git push"):
        loop = median(_loops(testbed, namespaces[0]))
    for name, share, limit in (("p50", 0.50, 0.25), ("p95", 0.95, 1.0)):
        value = percentile(waits, share)
        yield Figure(
            "fresh",
            f"write to commit on the server, {name}",
            f"{value:.3f} s",
            value,
            "s",
            f"{loop:.3f} s",
            at_most(limit),
            f"{len(waits)} single changes after rest; "
            "the other is one round of kubectl get + git commit + git push",
        )
    yield _object_cost()


async def _write(testbed: Testbed, mirrors: list[MirroredNamespace]) -> list[float]:
    """Seconds of every write; each mirror has rested before its turn comes again."""
    user = testbed.cluster.user_kubeconfig("carol", ("dev",))
    rested = dict.fromkeys(range(len(mirrors)), 0.0)
    waits = []
    async with Connection.open(kubeconfig=user) as connection:
        api = Api(connection)
        for number in range(WRITES + len(mirrors)):
            turn = number % len(mirrors)
            await asyncio.sleep(rested[turn] - time.monotonic())
            waits.append(await _one_write(api, mirrors[turn], number))
            rested[turn] = time.monotonic() + _REST_SECONDS
    return waits[len(mirrors) :]  # the first lot creates what the others change


async def _one_write(api: Api, joined: MirroredNamespace, number: int) -> float:
    ref = joined.path / "refs" / "heads" / joined.branch
    made = samples.config_map(joined.namespace, "written", str(number))
    before = _tip(ref)
    await api.apply(samples.CONFIG_MAPS, made, field_manager="bench")
    began = time.monotonic()
    await asyncio.to_thread(_await_move, ref, before)
    return time.monotonic() - began


def _tip(ref: Path) -> bytes:
    return ref.read_bytes() if ref.exists() else b""


def _await_move(ref: Path, before: bytes) -> None:
    end = time.monotonic() + _SECONDS
    while _tip(ref) == before:
        if time.monotonic() > end:
            raise TimeoutError(f"no commit {_SECONDS:g} s after a write")
        time.sleep(0.001)


def _loops(testbed: Testbed, namespace: str) -> list[float]:
    """Seconds of each round of the loop, every one with something to commit."""
    testbed.git.create("loop.git")
    work = testbed.directory / "loop"
    url = testbed.git.server.url("loop").replace("://", f"://git:{PASSWORD}@")
    work.mkdir()
    git(work, "init", "--quiet", "--initial-branch=main")
    git(work, "remote", "add", "origin", url)
    admin = MirroredNamespace(testbed.cluster, testbed.git, namespace, "unused.git").admin
    rounds = []
    for number in range(_LOOPS):
        admin.apply(samples.config_map(namespace, "written", f"loop {number}"))
        began = time.monotonic()
        text = admin.kubectl("get", "configmaps", "-o", "yaml")
        (work / "configmaps.yaml").write_text(text)
        git(work, "add", "-A")
        git(work, "commit", "--quiet", "-m", "loop")
        git(work, "push", "--quiet", "origin", "HEAD:main")
        rounds.append(time.monotonic() - began)
    return rounds


def _object_cost() -> Figure:
    raw = json.dumps(samples.deployment("shop", "web"), separators=(",", ":")).encode()
    lens = ObjectReader(b"k" * 32, frozenset())
    ours = _per_call(lambda: lens.read(samples.DEPLOYMENTS, "Deployment", raw))
    plain = _per_call(lambda: json.loads(raw))
    return Figure(
        "fresh",
        f"parse + clean + digest, object of {len(raw)} bytes",
        f"{ours * 1e6:.1f} us",
        ours * 1e6,
        "us",
        f"{plain * 1e6:.1f} us",
        note="the other is json.loads of the same bytes, alone",
    )


def _per_call(call: Callable[[], object]) -> float:
    """Seconds per call, the median of several lots."""
    lots = []
    for _ in range(9):
        began = time.perf_counter()
        for _ in range(500):
            call()
        lots.append((time.perf_counter() - began) / 500)
    return median(lots)
