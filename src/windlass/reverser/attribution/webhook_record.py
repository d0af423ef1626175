"""Builds the record of an admission request: user, object, and a digest of the content.

Runs in the webhook process, after the answer was sent. The uid comes from the object, never from
the request's name, which is empty in bulk deletes. The content is kept as a digest of the
sanitized object only; the bodies of Secrets are hashed with a key, so that not even equality with
a guess can be tested.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.objects.names import Object
from windlass.reverser.attribution import author
from windlass.reverser.attribution.webhook_frames import RecordFrame
from windlass.reverser.content import clean_object, object_decoder, sanitize, secret_redaction
from windlass.web.admission import AdmissionRequest


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """Digest key, and the types whose content is hashed with it."""

    digest_key: bytes
    sensitive: frozenset[str]


def build_record(
    request: AdmissionRequest, settings: RecordSettings, time: float, *, digest: bool = True
) -> RecordFrame | None:
    """The record of a request; None for one that can never become a change.

    The namespace is the object's: that of the request is its own name for a Namespace. A record
    without a `digest` takes a tenth of the time; it can be compared with no change, so it proves
    no author, but contradicts one.
    """
    if request.dry_run or (request.subresource and request.operation != "UPDATE"):
        return None
    new = _decode_body(request.object)
    old = _decode_body(request.old_object)
    uid = _metadata_text(new or old, "uid")
    if not uid:
        return None
    # The body of a scale request is a Scale; every other subresource sends the whole object.
    scale = request.subresource == "scale"
    return RecordFrame(
        time=time,
        user=request.user,
        email=_user_claim(request, author.EMAIL_CLAIM),
        display_name=_user_claim(request, author.DISPLAY_NAME_CLAIM),
        operation=request.operation,
        group=request.gvr.group,
        version=request.gvr.version,
        resource=request.gvr.resource,
        subresource=request.subresource,
        namespace=_metadata_text(new or old, "namespace"),
        name=_metadata_text(new or old, "name"),
        uid=uid,
        old_resource_version=_metadata_text(old, "resourceVersion"),
        content=_digest_content(request, new, settings) if digest and new and not scale else None,
        replicas=_replicas(new) if scale else None,
    )


def _decode_body(raw: bytes) -> Object | None:
    if not raw:
        return None
    try:
        return object_decoder.decode_object(raw)
    except object_decoder.Undecodable:
        return None


def _metadata_text(obj: Object | None, name: str) -> str:
    metadata = obj.get("metadata") if obj is not None else None
    value = metadata.get(name) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def _digest_content(request: AdmissionRequest, obj: Object, settings: RecordSettings) -> bytes:
    key = (
        settings.digest_key
        if secret_redaction.is_sensitive(request.gvr, settings.sensitive)
        else b""
    )
    return clean_object.content_digest(sanitize.sanitize_object(obj), key=key)


def _replicas(obj: Object | None) -> int | None:
    spec = obj.get("spec") if obj is not None else None
    value = spec.get("replicas", 0) if isinstance(spec, dict) else None
    return value if isinstance(value, int) else None


def _user_claim(request: AdmissionRequest, name: str) -> str:
    values = request.extra.get(name, ())
    return values[0] if values else ""
