"""The rights of an installation: the roles of each capability, and the fence around them.

Each file can be left out on its own. What binds whom: the operator's roles bind the
subjects; roles for people work by aggregation; roles for one namespace are bound there,
by the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from windlass.api import fence, rbac_environments, rbac_gateways, rbac_reverser, role
from windlass.api.install import Install
from windlass.api.rbac_reverser import WatchMode
from windlass.objects.names import Object

Capability = Literal["reverser", "gateways", "environments"]
CAPABILITIES: tuple[Capability, ...] = ("reverser", "gateways", "environments")

RBAC_GROUP = role.RBAC_GROUP
PURPOSE = role.PURPOSE


def documents(
    subjects: Sequence[Object] | None = None,
    *,
    install: Install | None = None,
    watch: WatchMode = "selected",
    capabilities: Sequence[Capability] = CAPABILITIES,
) -> list[Object]:
    """Everything to apply, in an order that works; subjects default to the service account."""
    told = files(subjects, install=install, watch=watch, capabilities=capabilities)
    return [document for documents_ in told.values() for document in documents_]


def files(
    subjects: Sequence[Object] | None = None,
    *,
    install: Install | None = None,
    watch: WatchMode = "selected",
    capabilities: Sequence[Capability] = CAPABILITIES,
) -> dict[str, list[Object]]:
    """The same by file name, so that each can be left out on its own."""
    place = install or Install()
    who = list(subjects) if subjects is not None else [place.service_account]
    roles = {
        "reverser": rbac_reverser.files(place, who, watch),
        "gateways": rbac_gateways.files(place, who),
        "environments": rbac_environments.files(place, who),
    }
    found = {"00-namespace": _ground(place, with_account=subjects is None)}
    # Whoever applies them in this order, or in that of their names, never gives a right
    # that nothing fences in.
    found |= fence.files(place, who)
    for capability in capabilities:
        found |= roles[capability]
    return found


def user(name: str) -> Object:
    """A person or a desk process as the subject of a binding."""
    return {"kind": "User", "apiGroup": RBAC_GROUP, "name": name}


def _ground(place: Install, *, with_account: bool) -> list[Object]:
    purpose = "Holds what windlass itself consists of."
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": role.metadata(place, place.namespace, purpose),
    }
    metadata = role.metadata(place, place.release, "Who the operator is to the API server.")
    metadata["namespace"] = place.namespace
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    return [namespace, account] if with_account else [namespace]
