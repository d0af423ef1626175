"""Row `watch`: CPU time per watch event, beside two other Python clients.

One child process per client, so that nobody pays for another's imports. The clients take
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
from bench.ground import Ground
from bench.writer import Writer, write_all

ROUNDS = 3
EVENTS = 1000
_OBJECTS = 20
_WRITERS = 10
_CLIENTS = {
    "windlass": "kube.follow",
    "windlass-look": "kube.follow, object parsed, cleaned, digested",
    "lightkube": "lightkube AsyncClient.watch",
    "kubernetes_asyncio": "kubernetes_asyncio Watch",
}


class _Client:
    """A child that watches when told to."""

    def __init__(self, name: str, ground: Ground, namespace: str) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "bench.watch_client"),
                *(name, str(ground.desk.admin_kubeconfig), namespace),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str = "") -> str:
        """Say something, if there is something to say, and hear the answer."""
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        if line:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the watching child ended"
        return answer.strip()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def measure(ground: Ground) -> Iterator[Figure]:
    """Microseconds of CPU per event."""
    namespace = ground.namespace("watch")
    _prepare(ground, namespace)
    with contextlib.ExitStack() as stack:
        clients = {name: _Client(name, ground, namespace) for name in _CLIENTS}
        for client in clients.values():
            stack.callback(client.close)
        costs = _rounds(ground, namespace, clients)
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
    look = cost["windlass-look"]
    yield Figure(
        "watch",
        "the same, object parsed + cleaned + digested",
        f"{look:.0f} us",
        look / cost["lightkube"],
        "x of the other",
        f"{cost['lightkube']:.0f} us",
        note="the other is lightkube; no goal, to show that the work was not merely put off",
    )


def _prepare(ground: Ground, namespace: str) -> None:
    def create(writer: Writer, number: int) -> None:
        writer.create(_path(namespace), samples.pod_template(namespace, _name(number)))

    write_all(ground.desk, range(_OBJECTS), create, writers=1)


def _rounds(ground: Ground, namespace: str, clients: dict[str, _Client]) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {name: [] for name in clients}
    names = list(clients)
    for turn in range(ROUNDS):
        with ground.progress.step(f"watch: round {turn + 1} of {ROUNDS}"):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                costs[name].append(_watched(ground, namespace, clients[name]))
    return costs


def _watched(ground: Ground, namespace: str, client: _Client) -> float:
    """CPU seconds per event of one client over one lot of modifications."""
    assert client.ask(str(EVENTS)) == "ready"
    _modify(ground, namespace, 1)
    assert client.ask() == "open"
    _modify(ground, namespace, EVENTS)
    told = json.loads(client.ask())
    return float(told["cpu"]) / int(told["events"])


def _modify(ground: Ground, namespace: str, count: int) -> None:
    """That many modifications; writers never share an object."""

    def patch(writer: Writer, number: int) -> None:
        changed = {"metadata": {"annotations": {"bench/serial": f"{time.monotonic_ns()}"}}}
        writer.patch(f"{_path(namespace)}/{_name(number % _OBJECTS)}", changed)

    write_all(ground.desk, range(count), patch, writers=_WRITERS)


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/podtemplates"


def _name(number: int) -> str:
    return f"template-{number:02}"
