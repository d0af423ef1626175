"""Adds ownership labels and annotations to every object of a bundle.

| Where | Labels of the operator | What else |
|---|---|---|
| the object | all of them | its annotations name its owner |
| templates of pods and Jobs | those that never change | the rest would restart pods |
| templates of volume claims | none | a claim outlives its Environment's labels |
| selectors | as in the templates | or nothing would be selected |

The operator's keys win everywhere; those that a project sets itself are removed, and so are
fields of the API server. PROJECT_KEYS are the annotations with which a project may control us.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from windlass.environments import ownership
from windlass.environments.bundle import kinds
from windlass.environments.ownership import Ownership
from windlass.objects.names import JSON, Object

PRUNE = "catalyst.dev/prune"
"""Annotation: `true` has an object pruned although objects of its kind are retained."""

RECREATE = "catalyst.dev/recreate"
"""Annotation: `true` has an object deleted and created again where an update is refused."""

PROJECT_KEYS = frozenset({PRUNE, RECREATE})

_SERVER_FIELDS = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)

Edit = Callable[[JSON], JSON]


def label_object(obj: Object, owner: Ownership, namespace: str) -> Object:
    """An object of an allowed kind with the labels of its Environment, in its namespace."""
    metadata = project_metadata(obj.get("metadata") or {})
    metadata["namespace"] = namespace
    metadata["labels"] = {**metadata["labels"], **owner.labels}
    metadata["annotations"] = {**metadata["annotations"], **owner.annotations}
    labeled = _align_selector(_label_templates(_clean_claims(obj), owner), owner)
    return {**labeled, "metadata": metadata}


def project_metadata(metadata: Object) -> Object:
    """Metadata without fields of the API server and keys of the operator."""
    own = {
        name: value
        for name, value in metadata.items()
        if name not in _SERVER_FIELDS and value is not None
    }
    own["labels"] = _project_keys(metadata.get("labels") or {})
    own["annotations"] = _project_keys(metadata.get("annotations") or {})
    return own


def is_operator_key(key: str) -> bool:
    """Whether only the operator may set a label or annotation."""
    return key.startswith(ownership.OPERATOR_PREFIXES) and key not in PROJECT_KEYS


def edit_at(value: JSON, path: Sequence[str], change: Edit) -> JSON:
    """A copy of `value` with `change` applied at `path`; `value` itself where that is missing."""
    if not path:
        return change(value) if value is not None else None
    head, *rest = path
    if not isinstance(value, dict) or head not in value:
        return value
    return {**value, head: edit_at(value[head], rest, change)}


def _label_templates(obj: Object, owner: Ownership) -> Object:
    for path in kinds.template_paths(obj):
        obj = edit_at(obj, path, lambda template: _label_template(template, owner))
    return obj


def _label_template(template: Object, owner: Ownership) -> Object:
    metadata = project_metadata(template.get("metadata") or {})
    metadata.pop("namespace", None)
    metadata["labels"] = {**metadata["labels"], **owner.pod_labels}
    return {**template, "metadata": metadata}


def _clean_claims(obj: Object) -> Object:
    """Remove the operator's keys from claim templates: claims outlive the Environment."""
    cleaned: Object = edit_at(obj, ("spec", "volumeClaimTemplates"), _for_each(_clean_claim))
    allowed = kinds.allowed_kind(obj)
    if allowed is None or allowed.template is None:
        return cleaned
    cleaned_volumes: Object = edit_at(
        cleaned, (*allowed.template, "spec", "volumes"), _for_each(_clean_volume)
    )
    return cleaned_volumes


def _clean_volume(volume: JSON) -> JSON:
    return edit_at(volume, ("ephemeral", "volumeClaimTemplate"), _clean_claim)


def _clean_claim(template: JSON) -> JSON:
    return edit_at(
        template, ("metadata",), lambda metadata: _without_empty(project_metadata(metadata))
    )


def _without_empty(metadata: Object) -> Object:
    return {name: value for name, value in metadata.items() if value and name != "namespace"}


def _for_each(change: Edit) -> Edit:
    return lambda items: [change(item) for item in items]


def _align_selector(obj: Object, owner: Ownership) -> Object:
    """Set the operator's labels in the selector to the values that the pods get."""
    path, pod_labels = kinds.selector_path(obj), owner.pod_labels
    if not path:
        return obj
    aligned: Object = edit_at(
        obj, path, lambda labels: {name: pod_labels.get(name, labels[name]) for name in labels}
    )
    return aligned


def _project_keys(entries: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in entries.items()
        if value is not None and not is_operator_key(name)
    }
