"""The objects of a network probe, and its verdict whether a cluster enforces NetworkPolicies.

A `server` listens. A `neighbour` from its own namespace and a `stranger` from another call
it again and again. For each direction the policies of an Environment are created, for ingress
in the namespace of the server, for egress in that of the stranger, and deleted again.

| Before | Isolated: stranger | Isolated: neighbor | After | Verdict |
|---|---|---|---|---|
| not open | | | | Inconclusive: there was nothing to shut |
| open | open | | | NotEnforced |
| open | neither | | | Inconclusive |
| open | shut | not open | | Inconclusive: more is shut than the policies demand |
| open | shut | open | not open | Inconclusive: something else may have shut it |
| open | shut | open | open | Enforced |

Silence is never taken for shut: only calls count that were made and logged. A cluster
counts as enforcing only if it does so in both directions.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
Direction = Literal["ingress", "egress"]
EnforcementVerdict = Literal["Enforced", "NotEnforced", "Inconclusive"]
Reachability = Literal["open", "shut", "unsteady", "silent"]

DIRECTIONS: tuple[Direction, ...] = ("ingress", "egress")
STEADY_CALLS = 3
"""Number of calls in a row that have to end alike; a single one may be lost on any network."""

SERVER = "server"
PORTS: dict[Caller, int] = {"stranger": 8080, "neighbour": 8081}
"""A port per caller, because a simple `nc` serves one connection and is started again."""

LIFE_SECONDS = 7200
"""Longer than any probe takes; the pods end by themselves after it."""

PROBE_LABEL = "windlass.dev/check"
RUN_LABEL = "windlass.dev/check-run"
SELECTOR = f"{PROBE_LABEL}=network-probe"

_LEVEL = "pod-security.kubernetes.io/enforce"
_ACCOUNT = "probe"
# By number: with a user name of the image the kubelet cannot check runAsNonRoot.
_USER = 65532

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

_LINE = re.compile(r"([0-9]{1,9}) (open|shut)")
_SETTING = "--environments-network-enforcement"
_ADVICE: dict[EnforcementVerdict, str] = {
    "Enforced": f"network policies are enforced: {_SETTING}=assume (the default) is right",
    "NotEnforced": "network policies are not enforced, so Environments are not isolated: set "
    f"{_SETTING}=absent, which refuses untrusted Environments",
    "Inconclusive": "the result is inconclusive: repeat the probe; until it reports Enforced, set "
    f"{_SETTING}=absent",
}


@dataclass(frozen=True, slots=True)
class ProbeCall:
    """One call from the log of its caller."""

    number: int  # ascending per caller
    connected: bool


@dataclass(frozen=True, slots=True)
class ProbeObservation:
    """Reachability of the server at the end of a wait."""

    stranger: Reachability
    neighbor: Reachability
    seconds: float  # until the stranger's calls ended as expected, or the whole wait
    error: str = ""  # why the log of a caller could not be read

    @property
    def is_open(self) -> bool:
        """Whether both callers connect."""
        return self.stranger == self.neighbor == "open"

    @property
    def is_isolated(self) -> bool:
        """Whether the policies hold: the neighbor connects, the stranger does not."""
        return self.stranger == "shut" and self.neighbor == "open"


@dataclass(frozen=True, slots=True)
class DirectionResult:
    """The verdict for one direction."""

    direction: Direction
    verdict: EnforcementVerdict
    message: str
    seconds: float | None = None  # until the policies were in force; None unless Enforced


def parse_calls(log: str) -> tuple[ProbeCall, ...]:
    """The calls in a caller's log; a truncated line is skipped."""
    matches = (_LINE.fullmatch(line.strip()) for line in log.splitlines())
    return tuple(ProbeCall(int(match[1]), match[2] == "open") for match in matches if match)


def reachability(calls: Sequence[ProbeCall]) -> Reachability:
    """The reachability that the last STEADY_CALLS show."""
    connected = [call.connected for call in calls[-STEADY_CALLS:]]
    if len(connected) < STEADY_CALLS:
        return "silent"
    if all(connected):
        return "open"
    return "unsteady" if any(connected) else "shut"


def has_flipped(calls: Sequence[ProbeCall], expected: Reachability) -> bool:
    """Whether the very last call ended as expected, steady or not yet."""
    return bool(calls) and calls[-1].connected is (expected == "open")


def judge(
    direction: Direction,
    before: ProbeObservation,
    isolated: ProbeObservation | None = None,
    after: ProbeObservation | None = None,
) -> DirectionResult:
    """The verdict of the table above."""
    if not before.is_open or isolated is None:
        return _unclear(direction, before, f"without policies {_describe(before)}")
    if isolated.stranger == "open":
        text = f"the stranger can connect {isolated.seconds:.1f} s after the policies were created"
        return DirectionResult(direction, "NotEnforced", text)
    if not isolated.is_isolated:
        return _unclear(direction, isolated, f"with policies {_describe(isolated)}")
    if after is None or not after.is_open:
        observed = _describe(after) if after else "nothing was measured"
        return _unclear(direction, after, f"after the policies were deleted {observed}")
    text = f"the stranger is blocked; policies took effect within {isolated.seconds:.1f} s"
    return DirectionResult(direction, "Enforced", text, isolated.seconds)


def overall_verdict(results: Iterable[DirectionResult]) -> EnforcementVerdict:
    """The verdict for the cluster: Enforced only if it is in both directions."""
    verdicts = {result.direction: result.verdict for result in results}
    if "NotEnforced" in verdicts.values():
        return "NotEnforced"
    enforced = all(verdicts.get(direction) == "Enforced" for direction in DIRECTIONS)
    return "Enforced" if enforced else "Inconclusive"


def advice(verdict: EnforcementVerdict) -> str:
    """The setting to use with this verdict."""
    return _ADVICE[verdict]


def _unclear(
    direction: Direction, observation: ProbeObservation | None, text: str
) -> DirectionResult:
    error = f" ({observation.error})" if observation is not None and observation.error else ""
    return DirectionResult(direction, "Inconclusive", f"{text}{error}")


_TEXTS: dict[Reachability, str] = {
    "open": "can connect",
    "shut": "cannot connect",
    "unsteady": "can connect sometimes",
    "silent": "logs no calls",
}


def _describe(observation: ProbeObservation) -> str:
    return (
        f"the stranger {_TEXTS[observation.stranger]} and "
        f"the neighbor {_TEXTS[observation.neighbor]} "
        f"after {observation.seconds:.1f} s"
    )


# ---- pods and policies


def server_pod(namespace: str, image: str, token: str) -> Object:
    """The pod that listens, and answers with `token`: no other server is mistaken for it."""
    return _pod(SERVER, namespace, image, _LISTEN_SCRIPT, {"WORD": token})


def caller_pod(name: Caller, namespace: str, image: str, token: str, address: str) -> Object:
    """A pod that calls the server at `address`, and logs how each call ended."""
    variables = {"WORD": token, "ADDRESS": address, "PORT": str(PORTS[name])}
    return _pod(name, namespace, image, _CALL_SCRIPT, variables)


def _pod(name: str, namespace: str, image: str, script: str, variables: dict[str, str]) -> Object:
    """A pod of Pod Security level restricted, without an API token.

    Variables, not text of the script: what the cluster answered must not become part of it.
    """
    container: Object = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "resources": {
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "250m", "memory": "64Mi"},
        },
        "securityContext": {"readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    spec: Object = {
        "serviceAccountName": _ACCOUNT,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "activeDeadlineSeconds": LIFE_SECONDS,
        "securityContext": {"runAsUser": _USER},
        "containers": [container],
    }
    pod = _object("v1", "Pod", name, namespace=namespace)
    return {**pod, "spec": pod_defaults.apply_pod_defaults(spec, {}, restricted=True)}


def is_running(pod: Object) -> bool:
    """Whether a pod is running and has an address."""
    status = pod.get("status") or {}
    return status.get("phase") == "Running" and bool(status.get("podIP"))


def pod_problem(pod: Object) -> PodProblem | None:
    """Why a pod is not running; None where it may just be starting."""
    return _end_problem(pod) or readiness.worst_pod_problem([pod])


def _end_problem(pod: Object) -> PodProblem | None:
    """The problem of a pod that ended: during a probe only a wrong image makes it do so."""
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    for row in status.get("containerStatuses") or []:
        ended = (row.get("state") or {}).get("terminated")
        if ended:
            cause = str(ended.get("message") or ended.get("reason") or "").strip()
            code = ended.get("exitCode")
            return PodProblem("PodEnded", f"pod {name} exited with code {code}: {cause}")
    if status.get("phase") in ("Failed", "Succeeded"):
        cause = status.get("message") or status.get("reason") or "unknown cause"
        return PodProblem("PodEnded", f"pod {name} exited: {cause}")
    return None


def isolation_policies(namespace: str) -> list[Object]:
    """The network policies of an Environment without any egress rules of its Project."""
    specs = network_policies.desired_policies((), ClusterNetwork(), web_egress=False)
    return [
        {
            **_object("networking.k8s.io/v1", "NetworkPolicy", name, namespace=namespace),
            "spec": spec,
        }
        for name, spec in sorted(specs.items())
    ]


# ---- namespaces


def namespace_names(run: str) -> tuple[str, str]:
    """The namespace of the server and its neighbor, and that of the stranger."""
    return f"windlass-probe-{run}-server", f"windlass-probe-{run}-stranger"


def namespace_object(name: str, run: str) -> Object:
    """A namespace of a run, complete with labels when it is created."""
    labels = {PROBE_LABEL: "network-probe", RUN_LABEL: run, _LEVEL: "restricted"}
    return _object("v1", "Namespace", name, labels=labels)


def service_account(namespace: str) -> Object:
    """The service account of the pods; `default` would be created later, by a controller."""
    account = _object("v1", "ServiceAccount", _ACCOUNT, namespace=namespace)
    return {**account, "automountServiceAccountToken": False}


def run_id(live: Object) -> str:
    """The id of the run that created a namespace; empty unless its labels and its name agree."""
    labels = live["metadata"].get("labels") or {}
    run = str(labels.get(RUN_LABEL) or "")
    is_named = live["metadata"]["name"] in namespace_names(run)
    return run if is_named and labels.get(PROBE_LABEL) == "network-probe" else ""


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


def _object(api_version: str, kind: str, name: str, **metadata: object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}
