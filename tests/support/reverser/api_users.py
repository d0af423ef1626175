"""Users that act by plain HTTPS: what kubectl would do, without starting a process each time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tests.support.cluster import api_client
from tests.support.cluster.api_client import ApiResponse
from tests.support.processes.operator import eventually
from tests.support.reverser.mirrored_namespace import KubectlUser, MirroredNamespace
from windlass_dev.cluster.local_cluster import LocalCluster

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"


class ApiUser(KubectlUser):
    """A user whose `apply` and `get` cost a request, not a process."""

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        **query: str,
    ) -> ApiResponse:
        target = f"{path}?{urlencode(query)}" if query else path
        return api_client.request(
            self.cluster, self.name, method, target, body, content_type=content_type
        )

    def path(self, kind: str, name: str = "", *, api_version: str = "", namespace: str = "") -> str:
        """Where a type, or one object of it, is served; `kind` may be a plural or a kind."""
        api_path, plural, namespaced = _served(self.cluster, api_version, kind.lower())
        namespace_path = f"/namespaces/{namespace or self.namespace}" if namespaced else ""
        return f"{api_path}{namespace_path}/{plural}" + (f"/{name}" if name else "")

    def send(self, document: dict[str, Any], **query: str) -> ApiResponse:
        """Server-side apply of one document."""
        metadata = document["metadata"]
        path = self.path(
            document["kind"],
            metadata["name"].replace(" ", "%20"),
            api_version=document["apiVersion"],
            namespace=metadata.get("namespace", ""),
        )
        options = {"fieldManager": "kubectl", "force": "true", **query}
        return self.request("PATCH", path, document, content_type=_APPLY, **options)

    def apply(self, *documents: dict[str, Any], server_side: bool = True) -> str:
        del server_side
        responses = [self.send(document) for document in documents]
        errors = [response.text for response in responses if not response.ok]
        assert not errors, errors
        return "\n".join(response.text for response in responses)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        response = self.request("GET", self.path(kind, name))
        assert response.ok, response.text
        return response.object

    def list(self, kind: str) -> list[dict[str, Any]]:
        response = self.request("GET", self.path(kind))
        assert response.ok, response.text
        items: list[dict[str, Any]] = response.object["items"]
        return items

    def merge(self, kind: str, name: str, patch: dict[str, Any], subresource: str = "") -> None:
        path = self.path(kind, name) + (f"/{subresource}" if subresource else "")
        response = self.request("PATCH", path, patch, content_type=_MERGE)
        assert response.ok, response.text

    def delete(self, kind: str, name: str) -> None:
        response = self.request("DELETE", self.path(kind, name))
        assert response.ok, response.text


@dataclass
class ApiMirroredNamespace(MirroredNamespace):
    """A mirrored namespace whose users act by HTTPS; each of them still has kubectl."""

    def user(self, name: str) -> ApiUser:
        return ApiUser(self.cluster, name, self.namespace)


def admin_user(mirrored: MirroredNamespace) -> ApiUser:
    """The administrator of a `ApiMirroredNamespace`, as such."""
    assert isinstance(mirrored.admin, ApiUser)
    return mirrored.admin


def api_user(mirrored: MirroredNamespace, name: str, namespace: str = "") -> ApiUser:
    """A user in the namespace of `mirrored`, or in another."""
    return ApiUser(mirrored.cluster, name, namespace or mirrored.namespace)


def wait_for_streams(mirrored: MirroredNamespace, rule: str = "rule") -> None:
    """Wait until every stream of a rule is synced: later changes arrive as events."""

    def states() -> set[str]:
        rows = mirrored.admin.get("watchrule", rule).get("status", {}).get("resolved", ())
        return {row["state"] for row in rows}

    eventually(lambda: states() == {"synced"}, f"the streams of {rule} synced")


_DISCOVERED: dict[tuple[LocalCluster, str, str], tuple[str, str, bool]] = {}


def _served(cluster: LocalCluster, api_version: str, kind: str) -> tuple[str, str, bool]:
    """API path, plural and scope of a type; a type created a moment ago is waited for."""
    if (cluster, api_version, kind) not in _DISCOVERED:
        eventually(lambda: _discover(cluster, api_version, kind), f"{api_version} {kind} served")
    return _DISCOVERED[cluster, api_version, kind]


def _discover(cluster: LocalCluster, api_version: str, kind: str) -> bool:
    for api_path in [_api_path(api_version)] if api_version else _api_paths(cluster):
        response = _get(cluster, api_path)
        # A group that is not served yet answers with a text.
        for row in response.object.get("resources", ()) if response.ok else ():
            if "/" not in row["name"] and kind in (row["name"], row["kind"].lower()):
                _DISCOVERED[cluster, api_version, kind] = (api_path, row["name"], row["namespaced"])
                return True
    return False


def _api_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _api_paths(cluster: LocalCluster) -> list[str]:
    groups = json.loads(_get(cluster, "/apis").text)["groups"]
    versions = [group["preferredVersion"]["groupVersion"] for group in groups]
    own_versions = [version for version in versions if version.startswith("configbutler.ai/")]
    return ["/api/v1", *(f"/apis/{version}" for version in (*own_versions, *versions))]


def _get(cluster: LocalCluster, path: str) -> ApiResponse:
    return api_client.request(cluster, api_client.ADMIN, "GET", path)
