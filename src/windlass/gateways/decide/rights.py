"""What the agents of one IgnitionSync may do (GDS-7).

They read the metadata ConfigMap and write the status ConfigMaps of pods, each by its name.
A rule without names would mean every ConfigMap of the namespace, so it is never made. No
rights on Secrets, pods or events, none to create anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.gateways.decide import owned
from windlass.gateways.decide.owned import Owner
from windlass.objects.names import Object

_GROUP = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
_REPORT = ("get", "patch")


def role(owner: Owner, status_names: Iterable[str]) -> Object:
    """The Role of the agents."""
    rules = [_rule(_READ, [owned.metadata_name(owner.name)])]
    names = sorted(set(status_names))
    if names:
        rules.append(_rule(_REPORT, names))
    return _document(owner, "Role", {"rules": rules})


def binding(owner: Owner, accounts: Iterable[str]) -> Object:
    """Its RoleBinding to the service accounts of the gateways' pods."""
    subjects = [
        {"kind": "ServiceAccount", "name": account, "namespace": owner.namespace}
        for account in sorted(set(accounts))
    ]
    reference = {"apiGroup": _GROUP, "kind": "Role", "name": owned.rights_name(owner.name)}
    body: Object = {"roleRef": reference}
    return _document(owner, "RoleBinding", body | ({"subjects": subjects} if subjects else {}))


def _document(owner: Owner, kind: str, body: Object) -> Object:
    head = owned.head(owner, owned.rights_name(owner.name))
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": head, **body}


def _rule(verbs: tuple[str, ...], names: list[str]) -> Object:
    assert names, "a rule without names would mean every ConfigMap"
    return {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": names,
        "verbs": list(verbs),
    }
