"""Takes `creationTimestamp: null` out of the metadata of embedded templates.

Serving it or not depends on the version of the API server, never on anybody's wish. A
template is what stands below a key named `template`, `jobTemplate`,
`volumeClaimTemplates` and the like, and the `spec` of a kind named `...Template`.
Objects without that text are told apart at the speed of the JSON encoder and not walked.
"""

from __future__ import annotations

import orjson

from windlass.objects.names import JSON, Object

_FIELD = "creationTimestamp"
_MARK = b'"creationTimestamp":null'


def strip(type_: tuple[str, str], result: Object) -> None:
    """Changes the top level of `result` in place; what lies below is copied where it changes."""
    if not _may_hold(result):
        return
    embedding = type_[1].endswith("Template")
    for key, value in result.items():
        if key != "metadata":
            result[key] = _stripped(value, _is_template(key) or (embedding and key == "spec"))


def _may_hold(result: Object) -> bool:
    try:
        return _MARK in orjson.dumps(result)
    except (TypeError, ValueError):
        return True


def _is_template(key: str) -> bool:
    return key.endswith(("emplate", "emplates"))


def _stripped(node: JSON, template: bool) -> JSON:
    """`node` itself where nothing changes below it, else a copy."""
    if isinstance(node, list):
        items = [_stripped(item, template) for item in node]
        return items if any(new is not old for new, old in zip(items, node, strict=True)) else node
    if not isinstance(node, dict):
        return node
    fresh = {key: _stripped(value, _is_template(key)) for key, value in node.items()}
    metadata = fresh.get("metadata")
    if template and isinstance(metadata, dict) and metadata.get(_FIELD, "") is None:
        fresh["metadata"] = {key: value for key, value in metadata.items() if key != _FIELD}
    return fresh if any(fresh[key] is not node[key] for key in node) else node
