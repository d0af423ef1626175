"""One look at a live object, cleaned and hashed.

`Lens.look` turns the bytes of a watch line into a `Sighting`: the state a mirror
needs, and nothing that the server or a controller put there. An object that cannot
be looked at without guessing is `Blurred`: it counts as live, its file stays as it
is, and the stream goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.objects.names import GVR, Identity, Object
from windlass.reverser.decide import coverage, decode, digest, noise, sanitise, secrets
from windlass.reverser.decide.transition import Operation
from windlass.telemetry.reasons import SkipReason


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a watch line said of one object."""

    identity: Identity
    uid: str
    resource_version: str
    terminating: bool
    cleaned: Object
    digest: bytes
    controller_owned: bool
    noise: str | None
    replicas: int | None
    bound: bool = False
    evicted: bool = False

    @property
    def is_aside(self) -> bool:
        """Whether it is noise or its controller's."""
        return self.controller_owned or self.noise is not None

    def bypasses(self, operation: Operation, *, was_bound: bool) -> bool:
        """Whether it came by `pods/binding` or `pods/eviction`, of which nobody is asked."""
        if operation == "DELETE":
            return self.evicted
        return operation == "UPDATE" and self.bound and not was_bound

    def unwanted(self, *, include_owned: bool) -> SkipReason | None:
        """Why the object has no file where owned ones are wanted or not; None if it has one."""
        if self.noise is not None:
            is_own = self.noise == noise.OWN_OBJECT
            return SkipReason.OWN_OBJECT if is_own else SkipReason.NOISE
        if self.controller_owned and not include_owned:
            return SkipReason.CONTROLLER_OWNED
        return None

    @property
    def aside_because(self) -> str:
        """What it is that is not mirrored, for people."""
        if self.noise is not None:
            return noise.WORDS[self.noise]
        return "an object that its controller recreates" if self.controller_owned else ""


@dataclass(frozen=True, slots=True)
class Blurred:
    """An object whose content cannot be trusted; `identity` is None if even its name cannot."""

    identity: Identity | None
    reason: str


@dataclass(frozen=True, slots=True)
class Lens:
    """How objects are looked at: whose content is hashed with a key, what is left out.

    `readable` are prefixes of annotations that stay readable on sensitive objects, beside
    those of `secrets.READABLE`.
    """

    digest_key: bytes
    sensitive: frozenset[str]
    own: noise.Own = frozenset()
    noise_filter: bool = True
    readable: tuple[str, ...] = ()

    def redacts(self, gvr: GVR) -> bool:
        """Whether objects of that type leave the cluster as keyed digests only."""
        return secrets.is_sensitive(gvr, self.sensitive)

    def protected(self, cleaned: Object, identity: Identity, salt: bytes) -> Object:
        """A cleaned object as it may leave the cluster."""
        if not self.redacts(identity.gvr):
            return cleaned
        return secrets.redacted(cleaned, identity, salt, (*secrets.READABLE, *self.readable))

    def look(self, gvr: GVR, kind: str, raw: bytes) -> Sighting | Blurred:
        """The sighting in `raw`, an object of type `gvr`."""
        try:
            obj = decode.decode(raw)
        except decode.Undecodable as error:
            key = decode.name_of(raw)
            return Blurred(Identity(gvr, key.namespace, key.name) if key else None, str(error))
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or not metadata.get("name"):
            return Blurred(None, "the object has no name")
        # The items of a list do not say what they are.
        obj["apiVersion"], obj["kind"] = gvr.api_version, kind
        return self._sighting(gvr, obj, metadata)

    def _sighting(self, gvr: GVR, obj: Object, metadata: Object) -> Sighting:
        cleaned = sanitise.cleaned(obj)
        key = self.digest_key if self.redacts(gvr) else b""
        return Sighting(
            identity=Identity(gvr, metadata.get("namespace", ""), metadata["name"]),
            uid=metadata.get("uid", ""),
            resource_version=metadata.get("resourceVersion", ""),
            terminating="deletionTimestamp" in metadata,
            cleaned=cleaned,
            digest=digest.digest(cleaned, key=key),
            controller_owned=sanitise.controller_owned(obj),
            noise=noise.reason(obj, own=self.own, filtered=self.noise_filter),
            replicas=_replicas(obj),
            bound=coverage.is_bound(gvr, obj),
            evicted=coverage.is_evicted(gvr, obj),
        )


def _replicas(obj: Object) -> int | None:
    spec = obj.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    return replicas if isinstance(replicas, int) else None
