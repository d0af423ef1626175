"""Who wrote a field: answers from `metadata.managedFields`.

The API server records, per field manager, the set of fields it set. A value a person or
tool wrote is in such a set; a value the server's own allocators filled in is in none,
or only in that of a control plane component. A field is *claimed* if a manager outside
the control plane owns exactly that field (owning a parent says nothing: an empty parent
is also recorded).
"""

from __future__ import annotations

from windlass.objects.names import JSON, Object

CONTROL_PLANE = frozenset(
    (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "cloud-controller-manager",
        "kubelet",
        "openshift-controller-manager",
    )
)

FieldSet = dict[str, JSON]


def outside_sets(metadata: Object) -> list[FieldSet]:
    """The field sets of every manager that is no part of the control plane."""
    entries = metadata.get("managedFields")
    if not isinstance(entries, list):
        return []
    return [
        entry["fieldsV1"]
        for entry in entries
        if isinstance(entry, dict)
        and entry.get("manager") not in CONTROL_PLANE
        and isinstance(entry.get("fieldsV1"), dict)
    ]


def claimed(sets: list[FieldSet], *path: str) -> bool:
    """True if one of `sets` holds the field at `path` (`f:` names, `k:` list keys)."""
    return any(_holds(fields, path) for fields in sets)


def port_key(port: Object) -> str:
    """The list key of a Service port, as the API server writes it."""
    return f'k:{{"port":{port.get("port")},"protocol":"{port.get("protocol", "TCP")}"}}'


def name_key(item: Object) -> str:
    """The list key of a list whose items are told apart by name."""
    return f'k:{{"name":"{item.get("name")}"}}'


def _holds(fields: JSON, path: tuple[str, ...]) -> bool:
    for step in path:
        if not isinstance(fields, dict) or step not in fields:
            return False
        fields = fields[step]
    return True
