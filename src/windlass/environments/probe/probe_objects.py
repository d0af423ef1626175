"""Objects of a network probe: its two namespaces, its pods, and the policies under test.

Both namespaces carry the probe label and the id of their run, which is also part of their names:
a namespace that only got such labels is not ours. Those of another run are leftovers once they
are older than any probe may become, by the API server's own clock.

One pod listens, the others call it. They satisfy the Pod Security level `restricted`, have no
API token, and end by themselves long after any probe. Addresses and tokens reach their scripts
as variables, never as text of the script. The listener answers with a random token of this run,
so that another server at its address is not mistaken for it. It has a port per caller, because a
simple `nc` serves one connection and is started again.

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
  command -v "$program" >/dev/null || { echo "the image does not contain $program"; exit 127; }
done
"""
# A connection that a policy cuts never ends by itself, hence the timeout.
_LISTEN_SCRIPT = f"""\
{_REQUIRED_PROGRAMS}
answer() {{
  while :; do echo "$WORD" | timeout 10 nc -l -p "$1" >/dev/null 2>&1 || sleep 1; done
}}
answer {PORTS["stranger"]} &
answer {PORTS["neighbour"]}
"""
# A listener that fails is back after a second: no STEADY_CALLS may fit in there, because that
# many failures count as isolation.
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
# By number: with a user name of the image the kubelet cannot check runAsNonRoot.
_USER = 65532
_RESOURCES: Object = {
    "requests": {"cpu": "10m", "memory": "16Mi"},
    "limits": {"cpu": "250m", "memory": "64Mi"},
}


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod that is running."""

    address: str  # pod IP
    node: str  # name of its node


def server_pod(namespace: str, image: str, token: str) -> Object:
    """The pod that listens, and answers with `token`."""
    return _pod(SERVER, namespace, image, _LISTEN_SCRIPT, {"WORD": token})


def caller_pod(name: Caller, namespace: str, image: str, token: str, address: str) -> Object:
    """A pod that calls the server at `address`, and logs how each call ended."""
    variables = {"WORD": token, "ADDRESS": address, "PORT": str(PORTS[name])}
    return _pod(name, namespace, image, _CALL_SCRIPT, variables)


def running_pod(pod: Object) -> RunningPod | None:
    """Address and node of a pod; None while it is not running."""
    status = pod.get("status") or {}
    address = status.get("podIP") or ""
    if status.get("phase") != "Running" or not address:
        return None
    return RunningPod(address, pod["spec"].get("nodeName") or "")


def pod_problem(pod: Object) -> PodProblem | None:
    """Why a pod is not running; None where it may just be starting."""
    return _end_problem(pod) or readiness.worst_pod_problem([pod])


def _end_problem(pod: Object) -> PodProblem | None:
    """The problem of a pod that ended: during a probe only a wrong image makes it do so."""
    status = pod.get("status") or {}
    for row in status.get("containerStatuses") or []:
        ended = (row.get("state") or {}).get("terminated")
        if ended:
            cause = str(ended.get("message") or ended.get("reason") or "").strip()
            text = (
                f"pod {pod['metadata']['name']} exited with code {ended.get('exitCode')}: {cause}"
            )
            return PodProblem("PodEnded", text)
    if status.get("phase") in ("Failed", "Succeeded"):
        cause = status.get("message") or status.get("reason") or "unknown cause"
        return PodProblem("PodEnded", f"pod {pod['metadata']['name']} exited: {cause}")
    return None


def _pod(name: str, namespace: str, image: str, script: str, variables: dict[str, str]) -> Object:
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
        "metadata": {"name": name, "namespace": namespace},
        "spec": pod_defaults.apply_pod_defaults(spec, {}, restricted=True),
    }


PROBE_LABEL = "windlass.dev/check"
RUN_LABEL = "windlass.dev/check-run"
SELECTOR = f"{PROBE_LABEL}=network-probe"

_LEVEL = "pod-security.kubernetes.io/enforce"


def namespace_names(run: str) -> tuple[str, str]:
    """The namespace of the server and its neighbor, and that of the stranger."""
    return f"windlass-probe-{run}-server", f"windlass-probe-{run}-stranger"


def namespace_object(name: str, run: str) -> Object:
    """A namespace of a run, complete with labels when it is created."""
    labels = {PROBE_LABEL: "network-probe", RUN_LABEL: run, _LEVEL: "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def service_account(namespace: str) -> Object:
    """The service account of the pods; `default` would be created later, by a controller."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": namespace},
        "automountServiceAccountToken": False,
    }


def isolation_policies(namespace: str) -> list[Object]:
    """The network policies of an Environment without any egress rules of its Project."""
    specs = network_policies.desired_policies((), ClusterNetwork(), web_egress=False)
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
        for name, spec in sorted(specs.items())
    ]


def run_id(live: Object) -> str:
    """The id of the run that created a namespace; empty unless its labels and its name agree."""
    labels = live["metadata"].get("labels") or {}
    run = str(labels.get(RUN_LABEL) or "")
    is_ours = labels.get(PROBE_LABEL) == "network-probe" and live["metadata"][
        "name"
    ] in namespace_names(run)
    return run if is_ours else ""


def other_runs(namespaces: Iterable[Object], own: Object) -> tuple[list[Object], list[Object]]:
    """Namespaces of other runs: leftovers, and those that may be in use.

    `own` was created just now, so its creation time is the API server's current time.
    """
    leftovers: list[Object] = []
    active: list[Object] = []
    for live in namespaces:
        is_terminating = bool(live["metadata"].get("deletionTimestamp"))
        if run_id(live) not in ("", run_id(own)) and not is_terminating:
            age = (_created(own) - _created(live)).total_seconds()
            (leftovers if age > LIFE_SECONDS else active).append(live)
    return leftovers, active


def _created(live: Object) -> datetime:
    return datetime.fromisoformat(live["metadata"]["creationTimestamp"])
