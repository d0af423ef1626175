"""Reads a live object into its clean form: sanitized, classified and hashed.

`ObjectReader` turns the bytes of a watch line into a `CleanObject`: the state a mirror
needs, without what the server or a controller added. An object that cannot be read without
guessing is an `UnreadableLiveObject`: it counts as live, its file stays as it is, and the stream
goes on.

Equal digests mean that nothing changed: 128 bits of BLAKE2b over compact JSON with sorted keys.
Objects that hold secrets are digested under a key, so the digest cannot be used to try out
guesses.

Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b

import orjson

from windlass.objects.names import GVR, Identity, Object
from windlass.reverser.attribution import webhook_coverage
from windlass.reverser.content import noise, object_decoder, sanitize, secret_redaction
from windlass.reverser.file_operation import Operation
from windlass.telemetry.reasons import SkipReason


@dataclass(frozen=True, slots=True)
class CleanObject:
    """What a watch line said of one object."""

    identity: Identity
    uid: str
    resource_version: str
    is_terminating: bool
    content: Object
    digest: bytes
    is_controller_owned: bool
    noise: str | None
    replicas: int | None
    is_bound: bool = False
    is_evicted: bool = False

    @property
    def is_excluded(self) -> bool:
        """Whether it is noise or its controller's."""
        return self.is_controller_owned or self.noise is not None

    def bypasses_admission(self, operation: Operation, *, was_bound: bool) -> bool:
        """Whether it came by `pods/binding` or `pods/eviction`, of which nobody is asked."""
        if operation == "DELETE":
            return self.is_evicted
        return operation == "UPDATE" and self.is_bound and not was_bound

    def skip_reason(self, *, include_owned: bool) -> SkipReason | None:
        """Why the object has no file where owned ones are wanted or not; None if it has one."""
        if self.noise is not None:
            is_own = self.noise == noise.OWN_OBJECT
            return SkipReason.OWN_OBJECT if is_own else SkipReason.NOISE
        if self.is_controller_owned and not include_owned:
            return SkipReason.CONTROLLER_OWNED
        return None

    @property
    def exclusion_text(self) -> str:
        """What it is that is not mirrored, for people."""
        if self.noise is not None:
            return noise.DESCRIPTIONS[self.noise]
        return "an object that its controller recreates" if self.is_controller_owned else ""


@dataclass(frozen=True, slots=True)
class UnreadableLiveObject:
    """An object whose content cannot be trusted; `identity` is None if even its name cannot."""

    identity: Identity | None
    reason: str


@dataclass(frozen=True, slots=True)
class ObjectReader:
    """How objects are looked at: whose content is hashed with a key, what is left out.

    `readable` are prefixes of annotations that stay readable on sensitive objects, beside
    those of `secrets.READABLE`.
    """

    digest_key: bytes
    sensitive: frozenset[str]
    own_objects: noise.OwnObjects = frozenset()
    noise_filter: bool = True
    readable_annotations: tuple[str, ...] = ()

    def redacts(self, gvr: GVR) -> bool:
        """Whether objects of that type leave the cluster as keyed digests only."""
        return secret_redaction.is_sensitive(gvr, self.sensitive)

    def redact(self, cleaned: Object, identity: Identity, salt: bytes) -> Object:
        """A cleaned object as it may leave the cluster."""
        if not self.redacts(identity.gvr):
            return cleaned
        return secret_redaction.redact_object(
            cleaned,
            identity,
            salt,
            (*secret_redaction.READABLE_ANNOTATIONS, *self.readable_annotations),
        )

    def read(self, gvr: GVR, kind: str, raw: bytes) -> CleanObject | UnreadableLiveObject:
        """The sighting in `raw`, an object of type `gvr`."""
        try:
            obj = object_decoder.decode_object(raw)
        except object_decoder.Undecodable as error:
            key = object_decoder.scan_name(raw)
            return UnreadableLiveObject(
                Identity(gvr, key.namespace, key.name) if key else None, str(error)
            )
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or not metadata.get("name"):
            return UnreadableLiveObject(None, "the object has no name")
        # The items of a list do not say what they are.
        obj["apiVersion"], obj["kind"] = gvr.api_version, kind
        return self._clean(gvr, obj, metadata)

    def _clean(self, gvr: GVR, obj: Object, metadata: Object) -> CleanObject:
        cleaned = sanitize.sanitize_object(obj)
        key = self.digest_key if self.redacts(gvr) else b""
        return CleanObject(
            identity=Identity(gvr, metadata.get("namespace", ""), metadata["name"]),
            uid=metadata.get("uid", ""),
            resource_version=metadata.get("resourceVersion", ""),
            is_terminating="deletionTimestamp" in metadata,
            content=cleaned,
            digest=content_digest(cleaned, key=key),
            is_controller_owned=sanitize.is_controller_owned(obj),
            noise=noise.noise_reason(obj, own=self.own_objects, filtered=self.noise_filter),
            replicas=_replicas(obj),
            is_bound=webhook_coverage.is_bound(gvr, obj),
            is_evicted=webhook_coverage.is_evicted(gvr, obj),
        )


def _replicas(obj: Object) -> int | None:
    spec = obj.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    return replicas if isinstance(replicas, int) else None


DIGEST_BYTES = 16


def content_digest(cleaned: Object, *, key: bytes = b"") -> bytes:
    """16 bytes that differ whenever two cleaned objects differ; `key` has at most 64 bytes."""
    return blake2b(_sorted_json(cleaned), digest_size=DIGEST_BYTES, key=key).digest()


def _sorted_json(cleaned: Object) -> bytes:
    try:
        return orjson.dumps(cleaned, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # orjson stops at 254 levels and 64-bit integers; the slow encoder does not.
        return json.dumps(cleaned, sort_keys=True, separators=(",", ":")).encode()
