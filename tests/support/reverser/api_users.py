"""People who act by plain HTTPS: what kubectl would do, without starting a program each time."""

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
    """A person whose `apply` and `get` cost a request, not a process."""

    def ask(
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
            self.desk, self.name, method, target, body, content_type=content_type
        )

    def path(self, kind: str, name: str = "", *, api_version: str = "", namespace: str = "") -> str:
        """Where a type, or one object of it, is served; `kind` may be a plural or a kind."""
        home, plural, namespaced = _served(self.desk, api_version, kind.lower())
        place = f"/namespaces/{namespace or self.namespace}" if namespaced else ""
        return f"{home}{place}/{plural}" + (f"/{name}" if name else "")

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
        return self.ask("PATCH", path, document, content_type=_APPLY, **options)

    def apply(self, *documents: dict[str, Any], server_side: bool = True) -> str:
        del server_side
        answers = [self.send(document) for document in documents]
        refused = [answer.text for answer in answers if not answer.ok]
        assert not refused, refused
        return "\n".join(answer.text for answer in answers)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found = self.ask("GET", self.path(kind, name))
        assert found.ok, found.text
        return found.object

    def list(self, kind: str) -> list[dict[str, Any]]:
        found = self.ask("GET", self.path(kind))
        assert found.ok, found.text
        items: list[dict[str, Any]] = found.object["items"]
        return items

    def merge(self, kind: str, name: str, patch: dict[str, Any], subresource: str = "") -> None:
        path = self.path(kind, name) + (f"/{subresource}" if subresource else "")
        done = self.ask("PATCH", path, patch, content_type=_MERGE)
        assert done.ok, done.text

    def delete(self, kind: str, name: str) -> None:
        done = self.ask("DELETE", self.path(kind, name))
        assert done.ok, done.text


@dataclass
class ApiMirroredNamespace(MirroredNamespace):
    """A namespace whose people act by HTTPS; each of them still has kubectl."""

    def person(self, name: str) -> ApiUser:
        return ApiUser(self.desk, name, self.namespace)


def admin_user(mirrored: MirroredNamespace) -> ApiUser:
    """The administrator of a `ApiMirroredNamespace`, as such."""
    assert isinstance(mirrored.admin, ApiUser)
    return mirrored.admin


def api_user(mirrored: MirroredNamespace, name: str, namespace: str = "") -> ApiUser:
    """Somebody in the namespace of `mirrored`, or in another."""
    return ApiUser(mirrored.desk, name, namespace or mirrored.namespace)


def wait_for_streams(mirrored: MirroredNamespace, rule: str = "rule") -> None:
    """Wait until every stream of a rule has seen all there is: later changes come as such."""

    def states() -> set[str]:
        rows = mirrored.admin.get("watchrule", rule).get("status", {}).get("resolved", ())
        return {row["state"] for row in rows}

    eventually(lambda: states() == {"synced"}, f"the streams of {rule} synced")


_KNOWN: dict[tuple[LocalCluster, str, str], tuple[str, str, bool]] = {}


def _served(desk: LocalCluster, api_version: str, kind: str) -> tuple[str, str, bool]:
    """Home, plural and reach of a type; a type made a moment ago is waited for."""
    if (desk, api_version, kind) not in _KNOWN:
        eventually(lambda: _learn(desk, api_version, kind), f"{api_version} {kind} served")
    return _KNOWN[desk, api_version, kind]


def _learn(desk: LocalCluster, api_version: str, kind: str) -> bool:
    for home in [_home(api_version)] if api_version else _homes(desk):
        answer = _asked(desk, home)
        # A group that is not served yet answers with a text.
        for row in answer.object.get("resources", ()) if answer.ok else ():
            if "/" not in row["name"] and kind in (row["name"], row["kind"].lower()):
                _KNOWN[desk, api_version, kind] = (home, row["name"], row["namespaced"])
                return True
    return False


def _home(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _homes(desk: LocalCluster) -> list[str]:
    groups = json.loads(_asked(desk, "/apis").text)["groups"]
    versions = [group["preferredVersion"]["groupVersion"] for group in groups]
    ours = [one for one in versions if one.startswith("configbutler.ai/")]
    return ["/api/v1", *(f"/apis/{one}" for one in (*ours, *versions))]


def _asked(desk: LocalCluster, path: str) -> ApiResponse:
    return api_client.request(desk, api_client.ADMIN, "GET", path)
