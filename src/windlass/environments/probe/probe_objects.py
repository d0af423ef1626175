"""Objects of a network probe: its two namespaces, its pods, and the policies that are tried.

Both namespaces carry the probe label and the id of their run, which their names hold too: a
namespace that only has such labels put on it is none of ours. Those of another run are left
over only once they are older than any probe may become, by the API server's own clock.

One pod listens, the others call it. They satisfy the Pod Security level `restricted`, hold no
token, and end by themselves long after any probe. Addresses and words reach their scripts as
variables, never as text of the script. The listener answers with a word of this very probe, so
that another server at its address is not taken for it. It has a port per caller, because a simple
`nc` serves one connection and is started again.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from windlass.environments.apply import readiness
from windlass.environments.apply.readiness import PodProblem
from windlass.environments.bundle import pod_defaults
from windlass.environments.isolation import network_policies
from windlass.environments.isolation.network_policies import ClusterNetwork
from windlass.objects.names import Object

Caller = Literal["stranger", "neighbour"]

SERVER = "server"
ACCOUNT = "probe"
LIFE_SECONDS = 7200
"""Longer than any probe takes."""

PORTS: dict[Caller, int] = {"stranger": 8080, "neighbour": 8081}

_REQUIRED_PROGRAMS = """\
for program in nc timeout; do
  command -v "$program" >/dev/null || { echo "the image holds no $program"; exit 127; }
done
"""
# A connection that the fence cuts in two never ends by itself, hence the timeout.
_LISTEN_SCRIPT = f"""\
{_REQUIRED_PROGRAMS}
answer() {{
  while :; do echo "$WORD" | timeout 10 nc -l -p "$1" >/dev/null 2>&1 || sleep 1; done
}}
answer {PORTS["stranger"]} &
answer {PORTS["neighbour"]}
"""
# A listener that stumbles is back after a second: no three calls may fit in there, because
# that many are taken for a fence.
_CALL_SCRIPT = f"""\
{_REQUIRED_PROGRAMS}
number=0
while :; do
  number=$((number + 1))
  said=$(timeout 3 nc -w 1 "$ADDRESS" "$PORT" </dev/null 2>/dev/null)
  if [ "$said" = "$WORD" ]; then
    echo "$number open"
    sleep 0.3 2>/dev/null || sleep 1
  else
    echo "$number shut"
    sleep 1
  fi
done
"""
# No user of an image's own: a number is what the kubelet can tell from root.
_USER = 65532
_RESOURCES: Object = {
    "requests": {"cpu": "10m", "memory": "16Mi"},
    "limits": {"cpu": "250m", "memory": "64Mi"},
}


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod that runs: its address, and the node it runs on."""

    address: str
    node: str


def server_pod(place: str, image: str, word: str) -> Object:
    """The pod that listens."""
    return _pod(SERVER, place, image, _LISTEN_SCRIPT, {"WORD": word})


def caller_pod(name: Caller, place: str, image: str, word: str, address: str) -> Object:
    """A pod that calls the one that listens, and prints how each call ended."""
    variables = {"WORD": word, "ADDRESS": address, "PORT": str(PORTS[name])}
    return _pod(name, place, image, _CALL_SCRIPT, variables)


def running_pod(pod: Object) -> RunningPod | None:
    """Where a pod runs, or None while it does not."""
    status = pod.get("status") or {}
    address = status.get("podIP") or ""
    if status.get("phase") != "Running" or not address:
        return None
    return RunningPod(address, pod["spec"].get("nodeName") or "")


def pod_problem(pod: Object) -> PodProblem | None:
    """Why a pod does not run."""
    return _end_problem(pod) or readiness.worst_pod_problem([pod])


def _end_problem(pod: Object) -> PodProblem | None:
    """None of these pods ends by itself unless its image is not what it should be."""
    status = pod.get("status") or {}
    for row in status.get("containerStatuses") or []:
        ended = (row.get("state") or {}).get("terminated")
        if ended:
            said = str(ended.get("message") or ended.get("reason") or "").strip()
            text = f"pod {pod['metadata']['name']} ended with code {ended.get('exitCode')}: {said}"
            return PodProblem("PodEnded", text)
    if status.get("phase") in ("Failed", "Succeeded"):
        said = status.get("message") or status.get("reason") or "it does not say why"
        return PodProblem("PodEnded", f"pod {pod['metadata']['name']} ended: {said}")
    return None


def _pod(name: str, place: str, image: str, script: str, variables: dict[str, str]) -> Object:
    container: Object = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "resources": _RESOURCES,
        "securityContext": {"readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    spec: Object = {
        "serviceAccountName": ACCOUNT,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "activeDeadlineSeconds": LIFE_SECONDS,
        "securityContext": {"runAsUser": _USER},
        "containers": [container],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": place},
        "spec": pod_defaults.apply_pod_defaults(spec, {}, restricted=True),
    }


PROBE_LABEL = "windlass.dev/check"
RUN_LABEL = "windlass.dev/check-run"
SELECTOR = f"{PROBE_LABEL}=network-probe"

_LEVEL = "pod-security.kubernetes.io/enforce"


def namespace_names(run: str) -> tuple[str, str]:
    """The namespace of the server and its neighbour, and that of the stranger."""
    return f"windlass-probe-{run}-server", f"windlass-probe-{run}-stranger"


def namespace_object(name: str, run: str) -> Object:
    """One of them, complete in its very first write."""
    labels = {PROBE_LABEL: "network-probe", RUN_LABEL: run, _LEVEL: "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def service_account(place: str) -> Object:
    """Who the pods run as; one of their own need not be waited for."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": place},
        "automountServiceAccountToken": False,
    }


def isolation_policies(place: str) -> list[Object]:
    """The policies of an Environment that opens no door of its own."""
    specs = network_policies.desired_policies((), ClusterNetwork(), web_egress=False)
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": place},
            "spec": spec,
        }
        for name, spec in sorted(specs.items())
    ]


def run_id(live: Object) -> str:
    """The run that made a namespace; empty unless its labels and its name agree."""
    labels = live["metadata"].get("labels") or {}
    run = str(labels.get(RUN_LABEL) or "")
    is_ours = labels.get(PROBE_LABEL) == "network-probe" and live["metadata"][
        "name"
    ] in namespace_names(run)
    return run if is_ours else ""


def other_runs(found: Iterable[Object], own: Object) -> tuple[list[Object], list[Object]]:
    """Namespaces of other runs: those that are left over, and those that may be in use.

    `own` was made just now, so its time of creation is what the API server's clock shows.
    """
    left: list[Object] = []
    fresh: list[Object] = []
    for live in found:
        is_going = bool(live["metadata"].get("deletionTimestamp"))
        if run_id(live) not in ("", run_id(own)) and not is_going:
            age = (_created(own) - _created(live)).total_seconds()
            (left if age > LIFE_SECONDS else fresh).append(live)
    return left, fresh


def _created(live: Object) -> datetime:
    return datetime.fromisoformat(live["metadata"]["creationTimestamp"])
