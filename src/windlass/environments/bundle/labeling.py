"""Adds the ownership labels and annotations to everything that is applied.

| Where | Labels of the operator | What else |
|---|---|---|
| the object | all of them | its annotations name its owner |
| templates of pods and Jobs | those that never change | the rest would restart pods |
| templates of volume claims | none | a claim outlives its Environment's labels |
| selectors | as in the templates | or nothing would be selected |

The operator's keys win everywhere; those that a project brings itself are dropped, and so
is what only a server sets. What a project may set by annotation is in PROJECT_KEYS.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from windlass.environments import ownership
from windlass.environments.bundle import kinds
from windlass.environments.ownership import Ownership
from windlass.objects.names import JSON, Object

PRUNE = "catalyst.dev/prune"
RECREATE = "catalyst.dev/recreate"
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
    """An object of an allowed kind as it belongs to an Environment."""
    metadata = project_metadata(obj.get("metadata") or {})
    metadata["namespace"] = namespace
    metadata["labels"] = {**metadata["labels"], **owner.labels}
    metadata["annotations"] = {**metadata["annotations"], **owner.annotations}
    inside = _align_selector(_label_templates(_clean_claims(obj), owner), owner)
    return {**inside, "metadata": metadata}


def project_metadata(metadata: Object) -> Object:
    """Metadata without what the server or the operator says."""
    kept = {
        name: value
        for name, value in metadata.items()
        if name not in _SERVER_FIELDS and value is not None
    }
    kept["labels"] = _project_keys(metadata.get("labels") or {})
    kept["annotations"] = _project_keys(metadata.get("annotations") or {})
    return kept


def is_operator_key(key: str) -> bool:
    """Whether only the operator says a label or annotation."""
    return key.startswith(ownership.OPERATOR_PREFIXES) and key not in PROJECT_KEYS


def edit_at(value: JSON, path: Sequence[str], change: Edit) -> JSON:
    """`value` with `change` made to what stands at `path`; the same where nothing does."""
    if not path:
        return change(value) if value is not None else None
    head, *rest = path
    if not isinstance(value, dict) or head not in value:
        return value
    return {**value, head: edit_at(value[head], rest, change)}


def _label_templates(obj: Object, owner: Ownership) -> Object:
    found = kinds.allowed_kind(obj)
    for path in found.templates if found is not None else ():
        obj = edit_at(obj, path, lambda template: _label_template(template, owner))
    return obj


def _label_template(template: Object, owner: Ownership) -> Object:
    metadata = project_metadata(template.get("metadata") or {})
    metadata.pop("namespace", None)
    metadata["labels"] = {**metadata["labels"], **owner.pod_labels}
    return {**template, "metadata": metadata}


def _clean_claims(obj: Object) -> Object:
    """Claims that others make from templates in this object carry nothing of ours."""
    cleaned: Object = edit_at(obj, ("spec", "volumeClaimTemplates"), _for_each(_clean_claim))
    found = kinds.allowed_kind(obj)
    if found is None or found.template is None:
        return cleaned
    made: Object = edit_at(cleaned, (*found.template, "spec", "volumes"), _for_each(_clean_volume))
    return made


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
    """Selectors meet the labels that pods really have."""
    path, ours = kinds.SELECTORS.get(str(obj.get("kind"))), owner.pod_labels
    if path is None:
        return obj
    met: Object = edit_at(
        obj, path, lambda labels: {name: ours.get(name, labels[name]) for name in labels}
    )
    return met


def _project_keys(said: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in said.items()
        if value is not None and not is_operator_key(name)
    }
