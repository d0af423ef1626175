"""Row `watch`: CPU time per watch event, beside two other Python clients.

One child process per client, so that no client pays for another's imports. The clients take
turns: one of them watches while this process modifies objects on a real API server, then
the next. A client's clock is its own CPU time from the first event to the last.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator

from bench import samples
from bench.figure import Figure, at_most, median
from bench.testbed import Testbed
from bench.writer import Writer, write_all

ROUNDS = 3
EVENTS = 1000
_OBJECTS = 20
_WRITERS = 10
_CLIENTS = {
    "windlass": "kube.reflector",
    "windlass-cleaned": "kube.reflector, object parsed, cleaned, digested",
    "lightkube": "lightkube AsyncClient.watch",
    "kubernetes_asyncio": "kubernetes_asyncio Watch",
}


class _Client:
    """A child that watches on request."""

    def __init__(self, name: str, testbed: Testbed, namespace: str) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "bench.watch_client"),
                *(name, str(testbed.cluster.admin_kubeconfig), namespace),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def request(self, line: str = "") -> str:
        """Send a line, if there is one, and read the answer."""
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        if line:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the watch child ended"
        return answer.strip()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def measure(testbed: Testbed) -> Iterator[Figure]:
    """Microseconds of CPU per event."""
    namespace = testbed.namespace("watch")
    _prepare(testbed, namespace)
    with contextlib.ExitStack() as stack:
        clients = {name: _Client(name, testbed, namespace) for name in _CLIENTS}
        for client in clients.values():
            stack.callback(client.close)
        costs = _rounds(testbed, namespace, clients)
    yield from _figures({name: median(found) * 1e6 for name, found in costs.items()})


def _figures(cost: dict[str, float]) -> Iterator[Figure]:
    ours = cost["windlass"]
    note = f"{ROUNDS} rounds of {EVENTS} modifications each, medians"
    for other, limit in (("lightkube", 0.5), ("kubernetes_asyncio", 0.2)):
        yield Figure(
            "watch",
            f"CPU per event beside {other}",
            f"{ours:.0f} us",
            ours / cost[other],
            "x of the other",
            f"{cost[other]:.0f} us",
            at_most(limit),
            note,
        )
    cleaned = cost["windlass-cleaned"]
    yield Figure(
        "watch",
        "the same, object parsed + cleaned + digested",
        f"{cleaned:.0f} us",
        cleaned / cost["lightkube"],
        "x of the other",
        f"{cost['lightkube']:.0f} us",
        note="the other is lightkube; no goal, to show that the work was not merely put off",
    )


def _prepare(testbed: Testbed, namespace: str) -> None:
    def create(writer: Writer, number: int) -> None:
        writer.create(_path(namespace), samples.pod_template(namespace, _name(number)))

    write_all(testbed.cluster, range(_OBJECTS), create, writers=1)


def _rounds(
    testbed: Testbed, namespace: str, clients: dict[str, _Client]
) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {name: [] for name in clients}
    names = list(clients)
    for turn in range(ROUNDS):
        with testbed.progress.step(f"watch: round {turn + 1} of {ROUNDS}"):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                costs[name].append(_watched(testbed, namespace, clients[name]))
    return costs


def _watched(testbed: Testbed, namespace: str, client: _Client) -> float:
    """CPU seconds per event of one client over one lot of modifications."""
    assert client.request(str(EVENTS)) == "ready"
    _modify(testbed, namespace, 1)
    assert client.request() == "open"
    _modify(testbed, namespace, EVENTS)
    report = json.loads(client.request())
    return float(report["cpu"]) / int(report["events"])


def _modify(testbed: Testbed, namespace: str, count: int) -> None:
    """That many modifications; writers never share an object."""

    def patch(writer: Writer, number: int) -> None:
        changed = {"metadata": {"annotations": {"bench/serial": f"{time.monotonic_ns()}"}}}
        writer.patch(f"{_path(namespace)}/{_name(number % _OBJECTS)}", changed)

    write_all(testbed.cluster, range(count), patch, writers=_WRITERS)


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/podtemplates"


def _name(number: int) -> str:
    return f"template-{number:02}"
