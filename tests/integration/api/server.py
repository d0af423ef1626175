"""What tests of the kinds ask an API server for, as a person with a certificate.

Objects are created with strict validation, as kubectl does it: a field that nobody declared
is a refusal, never a warning that nobody reads.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.support.cluster import api_client
from tests.support.reverser.api_users import ApiUser
from windlass_dev.cluster.local_cluster import LocalCluster

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_STRICT = "?fieldValidation=Strict"
_DRY = "&dryRun=All"


@dataclass(frozen=True)
class Answer:
    """Status code and decoded body."""

    status: int
    body: dict[str, Any]

    @property
    def accepted(self) -> bool:
        return self.status < 300

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


@dataclass(frozen=True)
class Server:
    """The API server of a local cluster over the connection of `user`, who may impersonate."""

    target: LocalCluster
    user: str = api_client.ADMIN
    played: str = ""

    def impersonating(self, user: str) -> Server:
        """The same user impersonating another."""
        return Server(self.target, self.user, user)

    def get(self, path: str, *, accept: str = "application/json") -> Answer:
        return self._request("GET", path, headers={"Accept": accept})

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        return self._request("POST", path, body)

    def merge(self, path: str, patch: dict[str, Any]) -> Answer:
        return self._request("PATCH", path + _STRICT, patch, content_type=_MERGE)

    def strategic(self, path: str, patch: dict[str, Any]) -> Answer:
        """As kubectl patches by default: list items are matched by their names."""
        return self._request("PATCH", path + _STRICT, patch, content_type=_STRATEGIC)

    def delete(self, path: str) -> Answer:
        return self._request("DELETE", path)

    def create(self, document: dict[str, Any], namespace: str = "", *, dry: bool = False) -> Answer:
        return self.post(
            self._home(document, namespace) + _STRICT + (_DRY if dry else ""), document
        )

    def apply(self, document: dict[str, Any], namespace: str = "") -> Answer:
        """Server-side apply, without force."""
        path = f"{self._home(document, namespace)}/{document['metadata']['name']}"
        query = _STRICT + "&fieldManager=test"
        return self._request("PATCH", path + query, document, content_type=_APPLY)

    def _home(self, document: dict[str, Any], namespace: str) -> str:
        object_namespace = namespace or document["metadata"].get("namespace", "")
        return ApiUser(self.target, self.user).path(
            document["kind"], api_version=document["apiVersion"], namespace=object_namespace
        )

    def _request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        acting = {"Impersonate-User": self.played} if self.played else {}
        reply = api_client.request(
            self.target,
            self.user,
            method,
            path,
            body,
            content_type=content_type,
            headers={**acting, **(headers or {})},
        )
        return Answer(reply.status, json.loads(reply.text))
