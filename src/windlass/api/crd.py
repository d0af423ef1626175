"""The CustomResourceDefinition of a kind."""

from __future__ import annotations

from typing import get_type_hints

from windlass.api import schema
from windlass.api.group import VERSION
from windlass.api.kind import Column, Kind
from windlass.objects.names import GVR, Object

CRDS = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions")


def document(kind: Kind) -> Object:
    """The CRD to apply."""
    return {
        "apiVersion": CRDS.api_version,
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": kind.crd_name,
            "labels": {"app.kubernetes.io/name": "windlass"},
        },
        "spec": {
            "group": kind.resource.group.name,
            "names": _names(kind),
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(kind)],
        },
    }


def _names(kind: Kind) -> Object:
    return {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.singular,
        "shortNames": list(kind.short_names),
        "categories": list(kind.categories),
    }


def _version(kind: Kind) -> Object:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": _root(kind)},
    }


def _column(column: Column) -> Object:
    found: Object = {
        "name": column.name,
        "type": column.type,
        "description": column.description,
        "jsonPath": column.path,
    }
    if column.wide:
        found["priority"] = 1
    return found


def _root(kind: Kind) -> Object:
    parts = get_type_hints(kind.resource)
    spec, status = parts["spec"], parts["status"]
    return {
        "description": kind.description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of the schema."},
            "kind": {"type": "string", "description": "Name of the kind."},
            "metadata": {"type": "object"},
            "spec": {"description": _sentence(spec)} | schema.of(spec),
            "status": {"description": f"{_sentence(status)} Written by windlass."}
            | schema.of(status),
        },
    } | schema.rules(kind.resource.NAME_CONSTRAINTS)


def _sentence(part: type) -> str:
    return (part.__doc__ or "").strip()
