"""Turns an admission request into a record of who asked for what.

The uid comes from the object, never from the request's name, which is empty in bulk
deletes. The content is kept as a digest of the cleaned object only; the bodies of
Secrets are hashed with a key, so that not even equality with a guess can be tested.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.objects.names import Object
from windlass.reverser.decide import author, decode, digest, sanitise, secrets
from windlass.reverser.witness.frames import Witnessed
from windlass.web.admission import AdmissionRequest


@dataclass(frozen=True, slots=True)
class Oath:
    """What every record of this process is made with."""

    digest_key: bytes
    sensitive: frozenset[str]


def witnessed(request: AdmissionRequest, oath: Oath, time: float) -> Witnessed | None:
    """The record of a request; None for what can never become a change.

    The namespace is the object's: that of the request is its own name for a Namespace.
    """
    if request.dry_run or (request.subresource and request.operation != "UPDATE"):
        return None
    new = _object(request.object)
    old = _object(request.old_object)
    uid = _metadata(new or old, "uid")
    if not uid:
        return None
    # The body of a scale is no whole object; that of every other subresource is.
    scale = request.subresource == "scale"
    return Witnessed(
        time=time,
        user=request.user,
        email=_claim(request, author.EMAIL_CLAIM),
        display_name=_claim(request, author.DISPLAY_NAME_CLAIM),
        operation=request.operation,
        group=request.gvr.group,
        version=request.gvr.version,
        resource=request.gvr.resource,
        subresource=request.subresource,
        namespace=_metadata(new or old, "namespace"),
        name=_metadata(new or old, "name"),
        uid=uid,
        old_resource_version=_metadata(old, "resourceVersion"),
        content=None if scale or new is None else _content(request, new, oath),
        replicas=_replicas(new) if scale else None,
    )


def _object(raw: bytes) -> Object | None:
    if not raw:
        return None
    try:
        return decode.decode(raw)
    except decode.Undecodable:
        return None


def _metadata(obj: Object | None, name: str) -> str:
    metadata = obj.get("metadata") if obj is not None else None
    value = metadata.get(name) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def _content(request: AdmissionRequest, obj: Object, oath: Oath) -> bytes:
    key = oath.digest_key if secrets.is_sensitive(request.gvr, oath.sensitive) else b""
    return digest.digest(sanitise.cleaned(obj), key=key)


def _replicas(obj: Object | None) -> int | None:
    spec = obj.get("spec") if obj is not None else None
    value = spec.get("replicas", 0) if isinstance(spec, dict) else None
    return value if isinstance(value, int) else None


def _claim(request: AdmissionRequest, name: str) -> str:
    values = request.extra.get(name, ())
    return values[0] if values else ""
