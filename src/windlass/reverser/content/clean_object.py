"""Reads a live object into its clean form: sanitized, classified and hashed.

`ObjectReader` turns the bytes of a watch event or list item into a `CleanObject`: the state a
mirror needs, without what the server or a controller added. An object that cannot be read without
guessing is an `UnreadableLiveObject`: it counts as live, its file stays as it is, and the stream
goes on. The watch stream and the one-time dump use it.

Equal digests mean that nothing changed: 128 bits of BLAKE2b over compact JSON with sorted keys.
Sensitive objects are digested under a key, so that the digest cannot be used to verify guesses.

Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b

import orjson

from windlass.objects import yaml_emitter
from windlass.objects.names import GVR, Identity, Object
from windlass.reverser.attribution import webhook_coverage
from windlass.reverser.content import noise, object_decoder, sanitize, secret_redaction
from windlass.reverser.file_operation import Operation
from windlass.telemetry.reasons import SkipReason


@dataclass(frozen=True, slots=True)
class CleanObject:
    """One live object: its sanitized content, and what decides whether and how it is mirrored."""

    identity: Identity  # in the version of the watch
    uid: str  # empty if the server sent none
    resource_version: str  # opaque
    is_terminating: bool  # has a deletionTimestamp
    content: Object  # sanitized, not redacted
    digest: bytes  # of `content`, keyed for sensitive types
    is_controller_owned: bool  # a controller created it and would create it again
    noise: str | None  # sub-code of `noise.DESCRIPTIONS`; None = not noise
    replicas: int | None  # spec.replicas
    is_bound: bool = False  # a Pod with a node
    is_evicted: bool = False  # a Pod that the eviction API deletes

    @property
    def is_excluded(self) -> bool:
        """Whether it is noise or controller-owned."""
        return self.is_controller_owned or self.noise is not None

    def bypasses_admission(self, operation: Operation, *, was_bound: bool) -> bool:
        """Whether the change came by `pods/binding` or `pods/eviction`, which call no webhook.

        `was_bound` is `is_bound` before the change.
        """
        if operation == "DELETE":
            return self.is_evicted
        return operation == "UPDATE" and self.is_bound and not was_bound

    def skip_reason(self, *, include_owned: bool) -> SkipReason | None:
        """Why the object is not mirrored, None if it is; `include_owned` is that of its route."""
        if self.noise is not None:
            is_own = self.noise == noise.OWN_OBJECT
            return SkipReason.OWN_OBJECT if is_own else SkipReason.NOISE
        if self.is_controller_owned and not include_owned:
            return SkipReason.CONTROLLER_OWNED
        return None

    @property
    def exclusion_text(self) -> str:
        """What kind of excluded object it is, for commit bodies; empty if it is none."""
        if self.noise is not None:
            return noise.DESCRIPTIONS[self.noise]
        return "owned by a controller" if self.is_controller_owned else ""


@dataclass(frozen=True, slots=True)
class UnreadableLiveObject:
    """An object whose content cannot be trusted; `identity` is None if even its name cannot."""

    identity: Identity | None
    reason: str


@dataclass(frozen=True, slots=True)
class ObjectReader:
    """Reads and redacts objects according to the settings of the process."""

    digest_key: bytes  # of digests of sensitive objects, at most 64 bytes
    sensitive: frozenset[str]  # `[group/]resource` of types that are redacted, beside Secrets
    own_objects: noise.OwnObjects = frozenset()  # objects of windlass itself, never mirrored
    noise_filter: bool = True  # False: of all noise, only `own_objects` are left out
    # Annotation prefixes that stay readable on sensitive objects, beside
    # `secret_redaction.READABLE_ANNOTATIONS`.
    readable_annotations: tuple[str, ...] = ()

    def redacts(self, gvr: GVR) -> bool:
        """Whether objects of that type leave the cluster as keyed digests only."""
        return secret_redaction.is_sensitive(gvr, self.sensitive)

    def redact(self, cleaned: Object, identity: Identity, salt: bytes) -> Object:
        """A sanitized object as it may leave the cluster: with keyed digests if it is sensitive."""
        if not self.redacts(identity.gvr):
            return cleaned
        return secret_redaction.redact_object(
            cleaned,
            identity,
            salt,
            (*secret_redaction.READABLE_ANNOTATIONS, *self.readable_annotations),
        )

    def file_content(self, obj: CleanObject, salt: bytes) -> bytes:
        """The bytes of the object's file: canonical YAML, redacted under `salt` if sensitive."""
        return yaml_emitter.emit(self.redact(obj.content, obj.identity, salt))

    def read(self, gvr: GVR, kind: str, raw: bytes) -> CleanObject | UnreadableLiveObject:
        """The clean form of `raw`, the JSON of an object of that type."""
        try:
            obj = object_decoder.decode_object(raw)
        except object_decoder.Undecodable as error:
            key = object_decoder.scan_name(raw)
            return UnreadableLiveObject(
                Identity(gvr, key.namespace, key.name) if key else None, str(error)
            )
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or not metadata.get("name"):
            return UnreadableLiveObject(None, "the object has no metadata.name")
        # Items of a list lack apiVersion and kind.
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
    """16 bytes that differ whenever two sanitized objects differ; `key` has at most 64 bytes."""
    return blake2b(_sorted_json(cleaned), digest_size=DIGEST_BYTES, key=key).digest()


def _sorted_json(cleaned: Object) -> bytes:
    try:
        return orjson.dumps(cleaned, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # orjson stops at 254 levels and 64-bit integers; the slow encoder does not.
        return json.dumps(cleaned, sort_keys=True, separators=(",", ":")).encode()
