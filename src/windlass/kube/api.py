"""Objects on the API server as plain dictionaries: read, list, write, delete.

Writes name a field manager, so that every field has an owner. Right before a write the
connection is asked whether this process may still write. Nothing is retried here:
an ApiError says what happened, its caller knows what that means. The server leaves
kind and apiVersion out of the items of built-in lists; they are put back, so that a
listed object and a watched one look alike.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import orjson

from windlass.base import failpoint
from windlass.base.errors import Stalled
from windlass.kube import pages as page_format
from windlass.kube import paths
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError, Fenced
from windlass.kube.pages import Page
from windlass.objects.names import GVR, Object

_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_APPLY = "application/apply-patch+yaml"  # JSON is YAML


class Api:
    """Create, read, update and delete over one connection.

    With `acting_as` the server is asked to judge, and to record, every request as that
    user's; the connection's own user needs the right to impersonate it.
    """

    def __init__(self, connection: Connection, *, acting_as: str = "") -> None:
        if acting_as and connection.impersonates:
            # The server would take this user with the groups of the other one.
            raise Stalled(
                "KubeconfigInvalid",
                f"cannot act as {acting_as} with a kubeconfig whose user sets `as`; "
                "use the credentials of the operator itself",
            )
        self._connection = connection
        self._acting_as = {"Impersonate-User": acting_as} if acting_as else {}

    async def get(
        self, gvr: GVR, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Object:
        return await self._read(paths.item(gvr, name, namespace, subresource))

    async def list(
        self, gvr: GVR, namespace: str = "", *, label_selector: str = "", limit: int = 500
    ) -> list[Object]:
        """All objects of a type; a 410 in between is the caller's to retry."""
        pages = self.pages(gvr, namespace, label_selector=label_selector, limit=limit)
        return [_parsed(item) async for page in pages for item in page.items]

    async def pages(
        self,
        gvr: GVR,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> AsyncGenerator[Page, None]:
        """A consistent list in pages; every page shows the state at the first one's version."""
        path = paths.collection(gvr, namespace)
        params = {"limit": str(limit)}
        if label_selector:
            params["labelSelector"] = label_selector
        if field_selector:
            params["fieldSelector"] = field_selector
        while True:
            response = await self._connection.request(
                "GET",
                path,
                params=params,
                headers={"Accept-Encoding": "identity", **self._acting_as},
            )
            page, token = page_format.parse(response.content)
            yield page
            if not token:
                return
            params["continue"] = token

    async def create(
        self, gvr: GVR, obj: Object, *, field_manager: str, dry_run: bool = False
    ) -> Object:
        path = paths.collection(gvr, _namespace_of(obj))
        return await self._write("POST", path, obj, _JSON, _options(field_manager, dry_run))

    async def replace(
        self, gvr: GVR, obj: Object, *, field_manager: str, subresource: str = ""
    ) -> Object:
        """Write the whole object; with its resourceVersion, only over what was read."""
        return await self._write(
            "PUT", _path_of(gvr, obj, subresource), obj, _JSON, _options(field_manager)
        )

    async def apply(
        self,
        gvr: GVR,
        obj: Object,
        *,
        field_manager: str,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply; without `force`, fields of others are a Conflict."""
        params = _options(field_manager, dry_run) | {"force": "true" if force else "false"}
        return await self._write("PATCH", _path_of(gvr, obj, subresource), obj, _APPLY, params)

    async def merge_patch(
        self,
        gvr: GVR,
        name: str,
        patch: Object,
        namespace: str = "",
        *,
        field_manager: str,
        subresource: str = "",
    ) -> Object:
        path = paths.item(gvr, name, namespace, subresource)
        return await self._write("PATCH", path, patch, _MERGE_PATCH, _options(field_manager))

    async def json_patch(
        self,
        gvr: GVR,
        name: str,
        patch: Sequence[Object],
        namespace: str = "",
        *,
        field_manager: str,
        subresource: str = "",
    ) -> Object:
        path = paths.item(gvr, name, namespace, subresource)
        return await self._write("PATCH", path, patch, _JSON_PATCH, _options(field_manager))

    async def delete(
        self,
        gvr: GVR,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
    ) -> None:
        """Delete exactly the object meant: another uid or version is a Conflict."""
        expected = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {field: value for field, value in expected.items() if value}
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            options["preconditions"] = preconditions
        if propagation:
            options["propagationPolicy"] = propagation
        await self._write("DELETE", paths.item(gvr, name, namespace), options, _JSON, {})

    async def text(self, path: str) -> str:
        """What a path that is no object says, such as /readyz."""
        response = await self._connection.request(
            "GET", path, headers={"Accept": "*/*", **self._acting_as}
        )
        return response.text

    async def document(self, path: str, *, accept: str = _JSON) -> tuple[Object, str]:
        """A JSON document that is no object, and its content type."""
        response = await self._connection.request(
            "GET", path, headers={"Accept": accept, **self._acting_as}
        )
        return _parsed(response.content), response.headers.get("content-type", "")

    async def _read(self, path: str) -> Object:
        response = await self._connection.request("GET", path, headers=self._acting_as)
        return _parsed(response.content)

    async def _write(
        self, method: str, path: str, body: Any, content_type: str, params: Mapping[str, str]
    ) -> Object:
        failpoint.reach("kube.write.before")
        if not self._connection.may_write():
            raise Fenced
        response = await self._connection.request(
            method,
            path,
            params=params,
            content=orjson.dumps(body),
            headers={"Content-Type": content_type, **self._acting_as},
        )
        failpoint.reach("kube.write.after")
        return _parsed(response.content)


def _options(field_manager: str, dry_run: bool = False) -> dict[str, str]:
    options = {"fieldManager": field_manager}
    return options | {"dryRun": "All"} if dry_run else options


def _namespace_of(obj: Object) -> str:
    return obj.get("metadata", {}).get("namespace") or ""


def _path_of(gvr: GVR, obj: Object, subresource: str) -> str:
    return paths.item(gvr, obj["metadata"]["name"], _namespace_of(obj), subresource)


def _parsed(body: bytes) -> Object:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(
            200, "Undecodable", f"{len(body)} bytes from the API server are not JSON"
        ) from error
    if not isinstance(parsed, dict):
        raise ApiError(200, "Undecodable", "the API server answered with something else")
    return parsed
