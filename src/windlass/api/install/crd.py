"""The CustomResourceDefinition of a kind, and a minimal sample object of it.

`windlass dev generate` writes both to files; tests and `windlass dev` apply them. Samples of one
API group work together.

Pure.
"""

from __future__ import annotations

from typing import get_type_hints

from windlass.api.schema import openapi
from windlass.api.schema.kind import Column, Kind
from windlass.api.schema.resource import VERSION
from windlass.objects.names import Object
from windlass.objects.resources import CUSTOM_RESOURCE_DEFINITIONS


def crd_manifest(kind: Kind) -> Object:
    """The CRD of a kind."""
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
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
        "schema": {"openAPIV3Schema": _root_schema(kind)},
    }


def _column(column: Column) -> Object:
    manifest: Object = {
        "name": column.name,
        "type": column.type,
        "description": column.description,
        "jsonPath": column.path,
    }
    if column.wide:
        manifest["priority"] = 1
    return manifest


def _root_schema(kind: Kind) -> Object:
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
            "spec": {"description": _description(spec)} | openapi.build_schema(spec),
            "status": {"description": f"{_description(status)} Written by windlass."}
            | openapi.build_schema(status),
        },
    } | openapi.cel_rules(kind.resource.NAME_CONSTRAINTS)


def _description(part: type) -> str:
    return (part.__doc__ or "").strip()


def sample_manifest(kind: Kind) -> Object:
    """The sample object of a kind."""
    return {"apiVersion": kind.gvk.api_version, "kind": kind.name} | kind.sample
