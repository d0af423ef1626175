"""Where objects live on the API server.

Every segment is percent-encoded, and a segment that could leave its place (empty,
`.`, `..`, with a slash) is refused before a request is made of it.
"""

from __future__ import annotations

from urllib.parse import quote

from windlass.base.errors import Stalled
from windlass.objects.names import GVR


def group_version(gvr: GVR) -> str:
    """The discovery document of a type's group version."""
    if gvr.group:
        return f"/apis/{_segment(gvr.group)}/{_segment(gvr.version)}"
    return f"/api/{_segment(gvr.version)}"


def collection(gvr: GVR, namespace: str = "") -> str:
    """All objects of a type: in one namespace, or everywhere."""
    inside = f"/namespaces/{_segment(namespace)}" if namespace else ""
    return f"{group_version(gvr)}{inside}/{_segment(gvr.resource)}"


def item(gvr: GVR, name: str, namespace: str = "", subresource: str = "") -> str:
    """One object, or one of its subresources."""
    below = f"/{_segment(subresource)}" if subresource else ""
    return f"{collection(gvr, namespace)}/{_segment(name)}{below}"


def _segment(text: str) -> str:
    if text in {"", ".", ".."} or "/" in text:
        raise Stalled("InvalidName", f"{text[:64]!r} cannot be a name on the API server")
    return quote(text, safe="")
