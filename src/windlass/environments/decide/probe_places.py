"""The two namespaces of a network probe, and the fence that is tried in them.

Both carry the mark of probes and the word of their run, which their names hold too: a
namespace that only has such labels put on it is none of ours. Those of another run are left
over only once they are older than any probe may become, by the API server's own clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from windlass.environments.decide import fences
from windlass.environments.decide.fences import Surroundings
from windlass.environments.decide.probe_pods import ACCOUNT, LIFE_SECONDS
from windlass.objects.names import Object

MARK = "windlass.dev/check"
RUN = "windlass.dev/check-run"
SELECTOR = f"{MARK}=network-probe"

_LEVEL = "pod-security.kubernetes.io/enforce"


def names(run: str) -> tuple[str, str]:
    """The namespace of the server and its neighbour, and that of the stranger."""
    return f"windlass-probe-{run}-server", f"windlass-probe-{run}-stranger"


def namespace(name: str, run: str) -> Object:
    """One of them, complete in its very first write."""
    labels = {MARK: "network-probe", RUN: run, _LEVEL: "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def account(place: str) -> Object:
    """Who the pods run as; one of their own need not be waited for."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": place},
        "automountServiceAccountToken": False,
    }


def fence(place: str) -> list[Object]:
    """The policies of an Environment that opens no door of its own."""
    specs = fences.policies((), Surroundings(), web_egress=False)
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": place},
            "spec": spec,
        }
        for name, spec in sorted(specs.items())
    ]


def run_of(live: Object) -> str:
    """The run that made a namespace; empty unless its labels and its name agree."""
    labels = live["metadata"].get("labels") or {}
    run = str(labels.get(RUN) or "")
    is_ours = labels.get(MARK) == "network-probe" and live["metadata"]["name"] in names(run)
    return run if is_ours else ""


def others(found: Iterable[Object], own: Object) -> tuple[list[Object], list[Object]]:
    """Namespaces of other runs: those that are left over, and those that may be in use.

    `own` was made just now, so its time of creation is what the API server's clock shows.
    """
    left: list[Object] = []
    fresh: list[Object] = []
    for live in found:
        is_going = bool(live["metadata"].get("deletionTimestamp"))
        if run_of(live) not in ("", run_of(own)) and not is_going:
            age = (_created(own) - _created(live)).total_seconds()
            (left if age > LIFE_SECONDS else fresh).append(live)
    return left, fresh


def _created(live: Object) -> datetime:
    return datetime.fromisoformat(live["metadata"]["creationTimestamp"])
