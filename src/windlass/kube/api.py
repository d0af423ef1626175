"""Client for objects on the API server as plain dictionaries: get, list, write, delete.

Writes name a field manager, so that every field has an owner. Right before a write the connection
decides whether this process may still write. Nothing is retried here: an ApiError carries what
happened, and its caller decides.

`parse_page` decodes one page of a list and leaves its items as bytes. Items of built-in types come
without kind and apiVersion; both follow from the list and are put in front, so that a listed object
and a watched one are alike. An item that no parser reads stays as it is, and does not spoil the
page for the others.

`collection_path` and `object_path` build request paths. Every segment is percent-encoded, and a
segment that could escape its position (empty, `.`, `..`, with a slash) is refused before a request
is made of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec
import orjson

from windlass.base import failpoint
from windlass.base.errors import Stalled
from windlass.kube import lenient_json
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError, LeaseNotHeld, NotFound
from windlass.kube.lenient_json import Unbalanced
from windlass.objects.names import GVR, Identity, Object


def collection_path(gvr: GVR, namespace: str = "") -> str:
    """The path of all objects of a type, in one namespace or in all."""
    inside = f"/namespaces/{_segment(namespace)}" if namespace else ""
    root = f"/apis/{_segment(gvr.group)}" if gvr.group else "/api"
    return f"{root}/{_segment(gvr.version)}{inside}/{_segment(gvr.resource)}"


def object_path(gvr: GVR, name: str, namespace: str = "", subresource: str = "") -> str:
    """The path of one object, or of one of its subresources."""
    below = f"/{_segment(subresource)}" if subresource else ""
    return f"{collection_path(gvr, namespace)}/{_segment(name)}{below}"


def _segment(text: str) -> str:
    if text in {"", ".", ".."} or "/" in text:
        raise Stalled("InvalidName", f"{text[:64]!r} is not a valid object name")
    return quote(text, safe="")


@dataclass(frozen=True, slots=True)
class Page:
    """Items of one page, and the version of the whole list."""

    items: tuple[bytes, ...]
    resource_version: str


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, rename="camel"):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None
    kind: str = ""
    api_version: str = ""


class _Type(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""


_list = msgspec.json.Decoder(_List)
_type = msgspec.json.Decoder(_Type)
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def parse_page(body: bytes) -> tuple[Page, str]:
    """The page in a response body, and the continue token of the next one, or empty."""
    try:
        page, raw = _decode_list(body)
    except (*_DECODE_ERRORS, Unbalanced) as error:
        raise ApiError(200, "Undecodable", f"a page of {len(body)} bytes is not a list") from error
    prefix = _type_prefix(page)
    items = tuple(_with_type(item, prefix) for item in raw)
    return Page(items, page.metadata.resource_version), page.metadata.continue_


def _decode_list(body: bytes) -> tuple[_List, list[bytes]]:
    try:
        page = _list.decode(body)
    except _DECODE_ERRORS:
        without, items = lenient_json.cut_array(body, b"items")
        return _list.decode(without), items
    return page, [bytes(item) for item in page.items or ()]


def _type_prefix(page: _List) -> bytes:
    kind = page.kind.removesuffix("List")
    if not kind or kind == page.kind:
        return b""
    return orjson.dumps({"apiVersion": page.api_version, "kind": kind})[:-1] + b","


def _with_type(item: bytes, prefix: bytes) -> bytes:
    try:
        has_type = bool(_type.decode(item).kind)
    except _DECODE_ERRORS:
        return item
    if has_type or not prefix or not item.startswith(b'{"'):
        return item
    return prefix + item[1:]


_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_APPLY = "application/apply-patch+yaml"  # JSON is YAML


class Api:
    """Create, read, update and delete over one connection.

    With `acting_as` every request impersonates that user, for authorization and audit; the user of
    the connection needs the right to impersonate it.
    """

    def __init__(self, connection: Connection, *, acting_as: str = "") -> None:
        if acting_as and connection.impersonates:
            # The server would combine this user with the groups of the kubeconfig's `as`.
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
        return await self._read(object_path(gvr, name, namespace, subresource))

    async def is_deleted(self, identity: Identity) -> bool:
        """Whether the server answers that exactly this object does not exist.

        The 404 of a type that is not served names no object, and no other answer proves anything.
        """
        try:
            await self.get(identity.gvr, identity.name, identity.namespace)
        except NotFound as error:
            return f'"{identity.name}" not found' in error.message
        except ApiError:
            return False
        return False

    async def list(
        self, gvr: GVR, namespace: str = "", *, label_selector: str = "", limit: int = 500
    ) -> list[Object]:
        """All objects of a type; the caller retries a 410 in between."""
        pages = self.pages(gvr, namespace, label_selector=label_selector, limit=limit)
        return [_decode_object(item) async for page in pages for item in page.items]

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
        path = collection_path(gvr, namespace)
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
            page, token = parse_page(response.content)
            yield page
            if not token:
                return
            params["continue"] = token

    async def create(
        self, gvr: GVR, obj: Object, *, field_manager: str, dry_run: bool = False
    ) -> Object:
        path = collection_path(gvr, _namespace_of(obj))
        return await self._write("POST", path, obj, _JSON, _options(field_manager, dry_run))

    async def replace(
        self, gvr: GVR, obj: Object, *, field_manager: str, subresource: str = ""
    ) -> Object:
        """Write the whole object; with a resourceVersion, a newer version is a Conflict."""
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
        """Server-side apply; without `force`, fields of other managers are a Conflict."""
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
        path = object_path(gvr, name, namespace, subresource)
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
        path = object_path(gvr, name, namespace, subresource)
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
    ) -> Object:
        """Delete an object; another uid or version than given is a Conflict.

        The answer is the object while finalizers keep it, else it or a Status.
        """
        expected = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {field: value for field, value in expected.items() if value}
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            options["preconditions"] = preconditions
        if propagation:
            options["propagationPolicy"] = propagation
        return await self._write("DELETE", object_path(gvr, name, namespace), options, _JSON, {})

    async def text(self, path: str) -> str:
        """The text at a path that is not an object, such as /readyz."""
        response = await self._connection.request(
            "GET", path, headers={"Accept": "*/*", **self._acting_as}
        )
        return response.text

    async def document(self, path: str, *, accept: str = _JSON) -> Object:
        """A JSON document that is not an object."""
        response = await self._connection.request(
            "GET", path, headers={"Accept": accept, **self._acting_as}
        )
        return _decode_object(response.content)

    async def _read(self, path: str) -> Object:
        response = await self._connection.request("GET", path, headers=self._acting_as)
        return _decode_object(response.content)

    async def _write(
        self, method: str, path: str, body: Any, content_type: str, params: Mapping[str, str]
    ) -> Object:
        failpoint.reach("kube.write.before")
        if not self._connection.may_write():
            raise LeaseNotHeld
        response = await self._connection.request(
            method,
            path,
            params=params,
            content=orjson.dumps(body),
            headers={"Content-Type": content_type, **self._acting_as},
        )
        failpoint.reach("kube.write.after")
        return _decode_object(response.content)


def _options(field_manager: str, dry_run: bool = False) -> dict[str, str]:
    options = {"fieldManager": field_manager}
    return options | {"dryRun": "All"} if dry_run else options


def _namespace_of(obj: Object) -> str:
    return obj.get("metadata", {}).get("namespace") or ""


def _path_of(gvr: GVR, obj: Object, subresource: str) -> str:
    return object_path(gvr, obj["metadata"]["name"], _namespace_of(obj), subresource)


def _decode_object(body: bytes) -> Object:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(
            200, "Undecodable", f"invalid JSON in {len(body)} bytes from the API server"
        ) from error
    if not isinstance(parsed, dict):
        raise ApiError(200, "Undecodable", "the response of the API server is not an object")
    return parsed
