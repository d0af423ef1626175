"""One realistic object of every kind that can be followed, under a name of its own.

The bodies are the fixtures that a real API server returned, cleaned as the mirror cleans.
Cluster-scoped objects carry a label with the token of the run, by which they are told
apart from those of other tests.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from windlass.kube.discovery import ServedType
from windlass.objects import yaml_reader
from windlass.objects.names import GVR, Object
from windlass.reverser.content import sanitize
from windlass.reverser.selection import rules

LABEL = "example.org/join"
DEFINITIONS = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions")
_FIXTURES = Path(__file__).parents[2] / "fixtures" / "kinds"
_ROLES = ("plain", "applied", "foreign", "abroad")
# These bind what else may be made in their namespace.
_LIMITING = frozenset(("resourcequotas", "limitranges"))


@dataclass(frozen=True)
class Sample:
    """A kind and how its objects look; `other_versions` are served but not followed."""

    served: ServedType
    body: Object
    token: str
    namespace: str
    other_versions: tuple[ServedType, ...] = ()

    @property
    def label(self) -> str:
        gvr = self.served.gvr
        return f"{gvr.resource}.{gvr.group}" if gvr.group else gvr.resource

    @property
    def fixed_names(self) -> bool:
        """Whether the name says something, so that the server cannot make one up."""
        return self.label in _NAMED

    def named(self, role: str, number: int) -> Object:
        """The object that plays `role`; another `number` makes another content."""
        return self.like(self.body, role, number)

    def like(self, source: Object, role: str, number: int) -> Object:
        body = copy.deepcopy(source)
        body["apiVersion"] = self.served.gvr.api_version
        metadata = body["metadata"]
        metadata["name"] = f"{role}-{self.token}"
        if self.namespace:
            metadata["namespace"] = self.namespace
            if role == "plain":
                # Without labels of its own, some kinds are given those of their template.
                metadata.pop("labels", None)
        else:
            metadata.setdefault("labels", {})[LABEL] = self.token
        metadata.setdefault("annotations", {})["example.org/number"] = str(number)
        if self.label in _NAMED:
            _NAMED[self.label](body, role, self.token)
        return body


def families(types: Iterable[ServedType]) -> dict[str, list[ServedType]]:
    """Every kind that can be listed, watched and created: its versions, the followed one first."""
    found: dict[str, list[ServedType]] = defaultdict(list)
    for one in types:
        if one.verbs >= {"list", "watch", "create"}:
            name = f"{one.gvr.resource}.{one.gvr.group}" if one.gvr.group else one.gvr.resource
            found[name].append(one)
    return {name: _followed_first(family) for name, family in found.items()}


def sample(
    name: str, family: list[ServedType], token: str, namespace: str, limited: str
) -> Sample | None:
    """The sample of a kind; None where there is no fixture for it."""
    plural, _, group = name.partition(".")
    stem = "gadgets.mirror.example.org" if group == f"{token}.example.org" else name
    path = _FIXTURES / f"{stem}.yaml"
    if not path.exists():
        return None
    body = sanitize.sanitize_object(yaml_reader.read(path.read_bytes()))
    place = limited if plural in _LIMITING else namespace
    followed, *others = family
    if stem in _ADAPTED:
        _ADAPTED[stem](body)
    return Sample(followed, body, token, place if followed.namespaced else "", tuple(others))


def definition(token: str) -> Object:
    """A custom kind with two versions and a scale subresource."""
    path = _FIXTURES / "customresourcedefinitions.apiextensions.k8s.io.yaml"
    body = sanitize.sanitize_object(yaml_reader.read(path.read_bytes()))
    group = f"{token}.example.org"
    body["metadata"]["name"] = f"gadgets.{group}"
    body["spec"]["group"] = group
    (first,) = body["spec"]["versions"]
    first["subresources"]["scale"] = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
    }
    second = copy.deepcopy(first) | {"name": "v1beta1", "storage": False}
    body["spec"]["versions"] = [first, second]
    return body


def _followed_first(family: list[ServedType]) -> list[ServedType]:
    chosen = rules.preferred_version(tuple(family)).gvr
    return sorted(family, key=lambda one: one.gvr != chosen)


def _free_ports(body: Object) -> None:
    for port in body["spec"]["ports"]:
        port.pop("nodePort", None)


def _known_priority(body: Object) -> None:
    body["spec"]["priorityClassName"] = "system-cluster-critical"


def _unlabelled(body: Object) -> None:
    """Then its labels are those that the server gives to the template, seen only when read."""
    del body["spec"]["template"]["metadata"]


def _scalable(body: Object) -> None:
    body["spec"]["replicas"] = 7


def _address(body: Object, role: str, token: str) -> None:
    body["metadata"]["name"] = f"192.0.2.{100 + _ROLES.index(role)}"


def _definition(body: Object, role: str, token: str) -> None:
    group = f"{role}.{token}.example.org"
    body["metadata"]["name"] = f"gadgets.{group}"
    body["spec"]["group"] = group


def _service(body: Object, role: str, token: str) -> None:
    group = f"{role}.{token}.metrics.example.org"
    body["metadata"]["name"] = f"v1.{group}"
    body["spec"]["group"] = group


_NAMED: dict[str, Callable[[Object, str, str], None]] = {
    "ipaddresses.networking.k8s.io": _address,
    "customresourcedefinitions.apiextensions.k8s.io": _definition,
    "apiservices.apiregistration.k8s.io": _service,
}

_ADAPTED: dict[str, Callable[[Object], None]] = {
    "services": _free_ports,
    "pods": _known_priority,
    "jobs.batch": _unlabelled,
    "gadgets.mirror.example.org": _scalable,
}
