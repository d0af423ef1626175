"""References from one object to others: by name, or by the labels of pods.

A reference inside one namespace is always allowed; one that crosses a namespace needs a
grant by the object it names. A label selector has the semantics of Kubernetes, and only ever
selects pods in the namespace of its own object.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from windlass.api.schema.constraint import Constraint, schema_extra
from windlass.api.schema.scalars import (
    DataKey,
    DataKeyOrDefault,
    NamespaceName,
    NamespaceOrSame,
    ObjectName,
)


class SecretRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A Secret in the namespace of the object that names it."""

    name: Annotated[ObjectName, Meta(description="Name of the Secret.")]


class SecretKeyRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One key of a Secret in the namespace of the object that names it."""

    name: Annotated[ObjectName, Meta(description="Name of the Secret.")]
    key: Annotated[
        DataKeyOrDefault,
        Meta(
            description="Key in its data. Defaults to the first default key of this reference "
            "that exists."
        ),
    ] = ""


class CrossNamespaceRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object of ours, in this or, where it grants so, another namespace."""

    name: Annotated[ObjectName, Meta(description="Name of the object.")]
    namespace: Annotated[
        NamespaceOrSame,
        Meta(
            description="Namespace of the object. Defaults to the namespace of this one. "
            "Another namespace works only if the object there lists this one in its "
            "spec.allowedNamespaces."
        ),
    ] = ""

    def namespace_from(self, own: str) -> str:
        """The namespace of the object, for a reference from namespace `own`."""
        return self.namespace or own


class NamespacedRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object of ours, named from an object that has no namespace of its own."""

    name: Annotated[ObjectName, Meta(description="Name of the object.")]
    namespace: Annotated[
        NamespaceName,
        Meta(
            description="Namespace of the object. Required, because a cluster-scoped rule has no "
            "namespace of its own."
        ),
    ]

    def namespace_from(self, own: str) -> str:
        """The namespace of the object; `own` is ignored."""
        del own
        return self.namespace


SourceKind = Literal["ConfigMap", "Secret"]
_KIND_TEXT = "Whether the data is in a ConfigMap or in a Secret."
_NAME_TEXT = "Name of the ConfigMap or Secret, in the namespace of this object."
_KEY_TEXT = "Key in its data."


class KnownHostsRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A key of a ConfigMap or Secret with SSH host keys."""

    kind: Annotated[SourceKind, Meta(description=_KIND_TEXT)] = "ConfigMap"
    name: Annotated[ObjectName, Meta(description=_NAME_TEXT)]
    key: Annotated[DataKey, Meta(description=_KEY_TEXT)] = "known_hosts"


class CertificateRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A key of a ConfigMap or Secret with CA certificates."""

    kind: Annotated[SourceKind, Meta(description=_KIND_TEXT)] = "ConfigMap"
    name: Annotated[ObjectName, Meta(description=_NAME_TEXT)]
    key: Annotated[DataKey, Meta(description=_KEY_TEXT)] = "ca.crt"


_VALUE_PATTERN = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_KEY_PATTERN = (
    "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)

LabelKey = Annotated[str, Meta(min_length=1, max_length=317, pattern=_KEY_PATTERN)]
LabelValue = Annotated[str, Meta(max_length=63, pattern=_VALUE_PATTERN)]
LabelOperator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


def _has_fitting_values(requirement: LabelRequirement) -> bool:
    return bool(requirement.values) == (requirement.operator in ("In", "NotIn"))


class LabelRequirement(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One requirement of a label selector."""

    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        Constraint(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "must be set for In and NotIn, and must be empty for Exists and DoesNotExist",
            _has_fitting_values,
            "values",
        ),
    )

    key: Annotated[LabelKey, Meta(description="Name of the label.")]
    operator: Annotated[
        LabelOperator, Meta(description="How the value of the label is compared with the values.")
    ]
    values: Annotated[
        tuple[LabelValue, ...],
        Meta(
            description="The values to compare with, for In and NotIn.",
            max_length=32,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` meet the requirement; a missing label is in no list of values."""
        present = self.key in labels
        if self.operator == "Exists":
            return present
        if self.operator == "DoesNotExist":
            return not present
        return (present and labels[self.key] in self.values) == (self.operator == "In")


class LabelSelector(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Selects the pods that meet all requirements; without any, all pods."""

    match_labels: Annotated[
        Annotated[dict[LabelKey, LabelValue], Meta(max_length=32)] | None,
        Meta(description="Labels with the values they must have."),
    ] = None
    match_expressions: Annotated[
        tuple[LabelRequirement, ...],
        Meta(
            description="Requirements that equality cannot express.",
            max_length=32,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is selected."""
        equal = all(labels.get(key) == value for key, value in (self.match_labels or {}).items())
        return equal and all(requirement.holds(labels) for requirement in self.match_expressions)
