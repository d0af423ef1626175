"""Row `watch`: CPU time per watch event, beside two other Python clients.

One child process per client, so that nobody pays for another's imports. The clients take
turns: one of them watches while this process modifies objects on a real API server, then
the next. A client's clock is its own CPU time from the first event to the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

from bench import samples
from bench.figure import Figure, at_most, median
from bench.ground import Ground
from windlass.kube.api import Api
from windlass.kube.connection import Connection

ROUNDS = 3
EVENTS = 1000
_OBJECTS = 20
_WRITERS = 5
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
    asyncio.run(_prepare(ground, namespace))
    with contextlib.ExitStack() as stack:
        clients = {name: _Client(name, ground, namespace) for name in _CLIENTS}
        for client in clients.values():
            stack.callback(client.close)
        costs = asyncio.run(_rounds(ground, namespace, clients))
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


async def _prepare(ground: Ground, namespace: str) -> None:
    async with Connection.open(kubeconfig=ground.desk.admin_kubeconfig) as connection:
        api = Api(connection)
        for number in range(_OBJECTS):
            made = samples.pod_template(namespace, _name(number))
            await api.apply(samples.POD_TEMPLATES, made, field_manager="bench")


async def _rounds(
    ground: Ground, namespace: str, clients: dict[str, _Client]
) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {name: [] for name in clients}
    async with Connection.open(kubeconfig=ground.desk.admin_kubeconfig) as connection:
        api = Api(connection)
        for turn in range(ROUNDS):
            with ground.progress.step(f"watch: round {turn + 1} of {ROUNDS}"):
                order = list(clients)[turn % len(clients) :] + list(clients)[: turn % len(clients)]
                for name in order:
                    costs[name].append(await _watched(api, namespace, clients[name]))
    return costs


async def _watched(api: Api, namespace: str, client: _Client) -> float:
    """CPU seconds per event of one client over one lot of modifications."""
    assert await asyncio.to_thread(client.ask, str(EVENTS)) == "ready"
    await _modify(api, namespace, [0])
    assert await asyncio.to_thread(client.ask) == "open"
    await asyncio.gather(
        *(_modify(api, namespace, range(writer, EVENTS, _WRITERS)) for writer in range(_WRITERS))
    )
    told = json.loads(await asyncio.to_thread(client.ask))
    return float(told["cpu"]) / int(told["events"])


async def _modify(api: Api, namespace: str, numbers: range | list[int]) -> None:
    """One modification per number; writers never share an object."""
    for number in numbers:
        _serial.append(number)
        patch = {"metadata": {"annotations": {"bench/serial": str(len(_serial))}}}
        await api.merge_patch(
            samples.POD_TEMPLATES,
            _name(number % _OBJECTS),
            patch,
            namespace,
            field_manager="bench",
        )


_serial: list[int] = []


def _name(number: int) -> str:
    return f"template-{number:02}"
