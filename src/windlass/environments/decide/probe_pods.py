"""The pods of a network probe: one that listens, and those that call it.

They satisfy the Pod Security level `restricted`, hold no token, and end by themselves long
after any probe. Addresses and words reach their scripts as variables, never as text of the
script. The listener answers with a word of this very probe, so that whoever else has its
address is not taken for it. It has a port per caller, because a simple `nc` serves one
connection and is started again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.environments.decide import pod_trouble, pods
from windlass.environments.decide.pod_trouble import Trouble
from windlass.objects.names import Object

Caller = Literal["stranger", "neighbour"]

SERVER = "server"
ACCOUNT = "probe"
LIFE_SECONDS = 7200
"""Longer than any probe takes."""

PORTS: dict[Caller, int] = {"stranger": 8080, "neighbour": 8081}

_NEEDED = """\
for program in nc timeout; do
  command -v "$program" >/dev/null || { echo "the image holds no $program"; exit 127; }
done
"""
# A connection that the fence cuts in two never ends by itself, hence the timeout.
_LISTEN = f"""\
{_NEEDED}
answer() {{
  while :; do echo "$WORD" | timeout 10 nc -l -p "$1" >/dev/null 2>&1 || sleep 1; done
}}
answer {PORTS["stranger"]} &
answer {PORTS["neighbour"]}
"""
# A listener that stumbles is back after a second: no three calls may fit in there, because
# that many are taken for a fence.
_CALL = f"""\
{_NEEDED}
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
class Standing:
    """A pod that runs: its address, and the node it runs on."""

    address: str
    node: str


def server(place: str, image: str, word: str) -> Object:
    """The pod that listens."""
    return _pod(SERVER, place, image, _LISTEN, {"WORD": word})


def caller(name: Caller, place: str, image: str, word: str, address: str) -> Object:
    """A pod that calls the one that listens, and prints how each call ended."""
    variables = {"WORD": word, "ADDRESS": address, "PORT": str(PORTS[name])}
    return _pod(name, place, image, _CALL, variables)


def standing(pod: Object) -> Standing | None:
    """Where a pod runs, or None while it does not."""
    status = pod.get("status") or {}
    address = status.get("podIP") or ""
    if status.get("phase") != "Running" or not address:
        return None
    return Standing(address, pod["spec"].get("nodeName") or "")


def trouble(pod: Object) -> Trouble | None:
    """Why a pod does not run."""
    return _end(pod) or pod_trouble.of([pod])


def _end(pod: Object) -> Trouble | None:
    """None of these pods ends by itself unless its image is not what it should be."""
    status = pod.get("status") or {}
    for row in status.get("containerStatuses") or []:
        ended = (row.get("state") or {}).get("terminated")
        if ended:
            said = str(ended.get("message") or ended.get("reason") or "").strip()
            text = f"pod {pod['metadata']['name']} ended with code {ended.get('exitCode')}: {said}"
            return Trouble("PodEnded", text)
    if status.get("phase") in ("Failed", "Succeeded"):
        said = status.get("message") or status.get("reason") or "it does not say why"
        return Trouble("PodEnded", f"pod {pod['metadata']['name']} ended: {said}")
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
        "spec": pods.secured(spec, {}, restricted=True),
    }
