"""One realistic object of every kind that can be followed, under a name of its own.

The bodies are the fixtures that a real API server returned, cleaned as the mirror cleans.
Cluster-scoped objects carry a label with the token of the run, which sets them
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
        return self.label in _NAME_SETTERS

    def build(self, role: str, number: int) -> Object:
        """The object for `role`; another `number` makes another content."""
        return self.build_from(self.body, role, number)

    def build_from(self, source: Object, role: str, number: int) -> Object:
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
        if self.label in _NAME_SETTERS:
            _NAME_SETTERS[self.label](body, role, self.token)
        return body


def families(types: Iterable[ServedType]) -> dict[str, list[ServedType]]:
    """Every kind that can be listed, watched and created: its versions, the followed one first."""
    by_name: dict[str, list[ServedType]] = defaultdict(list)
    for type_ in types:
        if type_.verbs >= {"list", "watch", "create"}:
            name = (
                f"{type_.gvr.resource}.{type_.gvr.group}" if type_.gvr.group else type_.gvr.resource
            )
            by_name[name].append(type_)
    return {name: _preferred_first(family) for name, family in by_name.items()}


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
    sample_namespace = limited if plural in _LIMITING else namespace
    followed, *others = family
    if stem in _BODY_CHANGES:
        _BODY_CHANGES[stem](body)
    return Sample(
        followed, body, token, sample_namespace if followed.namespaced else "", tuple(others)
    )


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


def _preferred_first(family: list[ServedType]) -> list[ServedType]:
    chosen = rules.preferred_version(tuple(family)).gvr
    return sorted(family, key=lambda one: one.gvr != chosen)


def _remove_node_ports(body: Object) -> None:
    for port in body["spec"]["ports"]:
        port.pop("nodePort", None)


def _set_priority_class(body: Object) -> None:
    body["spec"]["priorityClassName"] = "system-cluster-critical"


def _remove_template_labels(body: Object) -> None:
    """Then its labels are those that the server gives to the template, seen only when read."""
    del body["spec"]["template"]["metadata"]


def _set_replicas(body: Object) -> None:
    body["spec"]["replicas"] = 7


def _name_address(body: Object, role: str, token: str) -> None:
    body["metadata"]["name"] = f"192.0.2.{100 + _ROLES.index(role)}"


def _name_definition(body: Object, role: str, token: str) -> None:
    group = f"{role}.{token}.example.org"
    body["metadata"]["name"] = f"gadgets.{group}"
    body["spec"]["group"] = group


def _name_service(body: Object, role: str, token: str) -> None:
    group = f"{role}.{token}.metrics.example.org"
    body["metadata"]["name"] = f"v1.{group}"
    body["spec"]["group"] = group


_NAME_SETTERS: dict[str, Callable[[Object, str, str], None]] = {
    "ipaddresses.networking.k8s.io": _name_address,
    "customresourcedefinitions.apiextensions.k8s.io": _name_definition,
    "apiservices.apiregistration.k8s.io": _name_service,
}

_BODY_CHANGES: dict[str, Callable[[Object], None]] = {
    "services": _remove_node_ports,
    "pods": _set_priority_class,
    "jobs.batch": _remove_template_labels,
    "gadgets.mirror.example.org": _set_replicas,
}
