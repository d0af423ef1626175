"""A custom resource of a test's own."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.cluster import api_client
from tests.support.processes.operator import eventually
from tests.support.reverser.api_users import ApiUser

_AGGREGATED_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True)
class CustomResource:
    """A definition, and objects of it; the first version is the stored and preferred one."""

    group: str
    plural: str = "widgets"
    kind: str = "Widget"
    versions: tuple[str, ...] = ("v1",)

    def definition(self) -> dict[str, Any]:
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{self.group}"},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {"plural": self.plural, "kind": self.kind, "singular": self.kind.lower()},
                "versions": [
                    {
                        "name": name,
                        "served": True,
                        "storage": name == self.versions[0],
                        "schema": {"openAPIV3Schema": _SCHEMA},
                        "subresources": {"status": {}},
                    }
                    for name in self.versions
                ],
            },
        }

    def new_object(self, namespace: str, name: str, **body: Any) -> dict[str, Any]:
        return {
            "apiVersion": f"{self.group}/{self.versions[0]}",
            "kind": self.kind,
            "metadata": {"name": name, "namespace": namespace},
            **body,
        }

    def file(self, namespace: str, name: str, version: str = "") -> str:
        return f"{self.group}/{version or self.versions[0]}/{self.plural}/{namespace}/{name}.yaml"


def unique_group(suffix: str = "example.org") -> str:
    """A group that no other test uses."""
    return f"g{uuid.uuid4().hex[:8]}.{suffix}"


@contextlib.contextmanager
def installed_resource(person: ApiUser, widgets: CustomResource) -> Iterator[CustomResource]:
    """The definition, established; gone afterwards."""
    person.apply(widgets.definition())
    path = f"/apis/{widgets.group}/{widgets.versions[0]}/{widgets.plural}"
    try:
        eventually(lambda: person.request("GET", path).ok, f"{widgets.plural} served")
        # What is served is discovered a moment later, one version after the other.
        eventually(
            lambda: _discovered_versions(person, widgets) == set(widgets.versions),
            f"{widgets.plural} discovered",
        )
        yield widgets
    finally:
        person.delete("customresourcedefinition", f"{widgets.plural}.{widgets.group}")
        # Whoever lists all types next would still find it, and fail at its objects.
        eventually(lambda: not _discovered_versions(person, widgets), f"{widgets.plural} gone")


def _discovered_versions(person: ApiUser, widgets: CustomResource) -> set[str]:
    """The versions in which clients such as kubectl find the type."""
    headers = {"Accept": _AGGREGATED_DISCOVERY}
    response = api_client.request(person.cluster, person.name, "GET", "/apis", headers=headers)
    assert response.ok, response.text
    return {
        version["version"]
        for group in response.object["items"]
        if group["metadata"]["name"] == widgets.group
        for version in group.get("versions", ())
        if any(row["resource"] == widgets.plural for row in version.get("resources", ()))
    }
