"""Labels and annotations of everything that is applied.

| Where | Labels of the operator | What else |
|---|---|---|
| the object | all of them | its annotations say whose it is |
| templates of pods and Jobs | those that never change | the rest would start pods anew |
| templates of volume claims | none | a claim outlives its Environment's labels |
| selectors | as in the templates | or nothing would be selected |

The operator's keys win everywhere; those that a project brings itself are dropped, and so
is what only a server says. What a project may say by annotation is in KEPT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from windlass.environments.decide import kinds, marks
from windlass.environments.decide.marks import Marks
from windlass.objects.names import JSON, Object

PRUNE = "catalyst.dev/prune"
RECREATE = "catalyst.dev/recreate"
KEPT = frozenset({PRUNE, RECREATE})

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

Change = Callable[[JSON], JSON]


def marked(obj: Object, owner: Marks, namespace: str) -> Object:
    """An object of an allowed kind as it belongs to an Environment."""
    metadata = own_metadata(obj.get("metadata") or {})
    metadata["namespace"] = namespace
    metadata["labels"] = {**metadata["labels"], **owner.labels}
    metadata["annotations"] = {**metadata["annotations"], **owner.annotations}
    inside = _selecting(_templates(_claims(obj), owner), owner)
    return {**inside, "metadata": metadata}


def own_metadata(metadata: Object) -> Object:
    """Metadata without what the server or the operator says."""
    kept = {
        name: value
        for name, value in metadata.items()
        if name not in _SERVER_FIELDS and value is not None
    }
    kept["labels"] = _foreign(metadata.get("labels") or {})
    kept["annotations"] = _foreign(metadata.get("annotations") or {})
    return kept


def is_operators(key: str) -> bool:
    """Whether only the operator says a label or annotation."""
    return key.startswith(marks.OPERATORS) and key not in KEPT


def changed(value: JSON, path: Sequence[str], change: Change) -> JSON:
    """`value` with `change` made to what stands at `path`; the same where nothing does."""
    if not path:
        return change(value) if value is not None else None
    head, *rest = path
    if not isinstance(value, dict) or head not in value:
        return value
    return {**value, head: changed(value[head], rest, change)}


def _templates(obj: Object, owner: Marks) -> Object:
    found = kinds.allowed(obj)
    for path in found.templates if found is not None else ():
        obj = changed(obj, path, lambda template: _template(template, owner))
    return obj


def _template(template: Object, owner: Marks) -> Object:
    metadata = own_metadata(template.get("metadata") or {})
    metadata.pop("namespace", None)
    metadata["labels"] = {**metadata["labels"], **owner.selecting}
    return {**template, "metadata": metadata}


def _claims(obj: Object) -> Object:
    """Claims that others make from templates in this object carry nothing of ours."""
    cleaned: Object = changed(obj, ("spec", "volumeClaimTemplates"), _each(_unmarked))
    found = kinds.allowed(obj)
    if found is None or found.template is None:
        return cleaned
    made: Object = changed(cleaned, (*found.template, "spec", "volumes"), _each(_volume))
    return made


def _volume(volume: JSON) -> JSON:
    return changed(volume, ("ephemeral", "volumeClaimTemplate"), _unmarked)


def _unmarked(template: JSON) -> JSON:
    return changed(template, ("metadata",), lambda metadata: _bare(own_metadata(metadata)))


def _bare(metadata: Object) -> Object:
    return {name: value for name, value in metadata.items() if value and name != "namespace"}


def _each(change: Change) -> Change:
    return lambda items: [change(item) for item in items]


def _selecting(obj: Object, owner: Marks) -> Object:
    """Selectors meet the labels that pods really have."""
    path, ours = kinds.SELECTORS.get(str(obj.get("kind"))), owner.selecting
    if path is None:
        return obj
    met: Object = changed(
        obj, path, lambda labels: {name: ours.get(name, labels[name]) for name in labels}
    )
    return met


def _foreign(said: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in said.items() if value is not None and not is_operators(name)
    }
