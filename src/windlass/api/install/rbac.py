"""Everything that grants or bounds rights in an installation, in the order to apply it.

The namespace and service account, the operator policies, then the roles of each capability.
Each file can be left out on its own. The operator's roles are bound to the given subjects; roles
for people work by aggregation; roles for one namespace are bound there, by the operator.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.api.install import cluster_roles, operator_policies
from windlass.api.install.cluster_roles import WatchMode
from windlass.api.install.installation import Installation
from windlass.objects.names import Object


def documents(
    subjects: Sequence[Object] | None = None,
    *,
    installation: Installation | None = None,
    watch: WatchMode = "selected",
) -> list[Object]:
    """All objects in the order to apply; subjects default to the service account."""
    by_file = documents_by_file(subjects, installation=installation, watch=watch)
    return [document for documents_of_file in by_file.values() for document in documents_of_file]


def documents_by_file(
    subjects: Sequence[Object] | None = None,
    *,
    installation: Installation | None = None,
    watch: WatchMode = "selected",
) -> dict[str, list[Object]]:
    """The same objects by file name, so that each file can be left out on its own."""
    installation = installation or Installation()
    bound_subjects = list(subjects) if subjects is not None else [installation.service_account]
    by_file = {"00-namespace": _namespace_documents(installation, with_account=subjects is None)}
    # Policies before roles, in this order and in that of the file names: no right is ever granted
    # that no policy bounds.
    by_file |= operator_policies.policies_by_file(installation, bound_subjects)
    by_file |= cluster_roles.reverser_roles(installation, bound_subjects, watch)
    by_file |= cluster_roles.gateways_roles(installation, bound_subjects)
    return by_file | cluster_roles.environments_roles(installation, bound_subjects)


def user_subject(name: str) -> Object:
    """A user as the subject of a binding: a person, or the operator run from a local machine."""
    return {"kind": "User", "apiGroup": cluster_roles.RBAC_GROUP, "name": name}


def _namespace_documents(installation: Installation, *, with_account: bool) -> list[Object]:
    purpose = "Namespace of windlass itself."
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": cluster_roles.object_metadata(installation, installation.namespace, purpose),
    }
    metadata = cluster_roles.object_metadata(
        installation, installation.release, "Account of the operator."
    )
    metadata["namespace"] = installation.namespace
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    return [namespace, account] if with_account else [namespace]
