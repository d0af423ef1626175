"""References from one object to another.

A reference inside one namespace is always allowed; one that crosses a namespace needs a
grant by the object it names.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from windlass.api.scalar import DataKey, DataKeyOrUsual, NamespaceName, NamespaceOrOwn, ObjectName


class SecretRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A Secret in the namespace of the object that names it."""

    name: Annotated[ObjectName, Meta(description="Name of the Secret.")]


class SecretKeyRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One key of a Secret in the namespace of the object that names it."""

    name: Annotated[ObjectName, Meta(description="Name of the Secret.")]
    key: Annotated[
        DataKeyOrUsual,
        Meta(
            description="Key in its data. Left out, the first key that exists of those the "
            "description of the reference lists."
        ),
    ] = ""


class ObjectRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object of ours, in this or, where it grants so, another namespace."""

    name: Annotated[ObjectName, Meta(description="Name of the object.")]
    namespace: Annotated[
        NamespaceOrOwn,
        Meta(
            description="Namespace of the object; leave it out for the namespace of this one. "
            "Another namespace works only if the object there lists this one in its "
            "spec.allowedNamespaces."
        ),
    ] = ""

    def namespace_from(self, own: str) -> str:
        """The namespace meant, for a referrer that lives in `own`."""
        return self.namespace or own


class NamespacedRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object of ours, named from an object that has no namespace of its own."""

    name: Annotated[ObjectName, Meta(description="Name of the object.")]
    namespace: Annotated[
        NamespaceName,
        Meta(
            description="Namespace of the object. It must be given, because a cluster-scoped "
            "rule has no namespace of its own."
        ),
    ]

    def namespace_from(self, own: str) -> str:
        """The namespace meant; `own` plays no part."""
        del own
        return self.namespace


SourceKind = Literal["ConfigMap", "Secret"]
_KIND_TEXT = "Whether the data stands in a ConfigMap or in a Secret."
_NAME_TEXT = "Name of the ConfigMap or Secret, in the namespace of this object."
_KEY_TEXT = "Key in its data."


class KnownHostsRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where SSH host keys stand."""

    kind: Annotated[SourceKind, Meta(description=_KIND_TEXT)] = "ConfigMap"
    name: Annotated[ObjectName, Meta(description=_NAME_TEXT)]
    key: Annotated[DataKey, Meta(description=_KEY_TEXT)] = "known_hosts"


class CertificateRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where a bundle of CA certificates stands."""

    kind: Annotated[SourceKind, Meta(description=_KIND_TEXT)] = "ConfigMap"
    name: Annotated[ObjectName, Meta(description=_NAME_TEXT)]
    key: Annotated[DataKey, Meta(description=_KEY_TEXT)] = "ca.crt"
