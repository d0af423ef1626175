"""What is declared in the install room and in the capabilities agrees."""

from __future__ import annotations

from windlass.api.install import rbac
from windlass.api.install.environment_objects import ALLOWED_KINDS
from windlass.api.kinds import ignitionsync
from windlass.gateways.wire import agent_objects


def test_the_applier_may_write_every_kind_of_a_bundle() -> None:
    """Exactly the kinds that a bundle may contain are in the role it is applied with."""
    ((role,),) = (
        documents
        for name, documents in rbac.documents_by_file().items()
        if name == "environment-applier"
    )
    granted = {
        (group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    wanted = {(allowed.gvr.group, allowed.gvr.resource) for allowed in ALLOWED_KINDS.values()}
    assert granted == wanted


def test_the_operator_policy_allows_the_names_of_gateways() -> None:
    """The names that the gateways capability gives its objects."""
    names = (
        agent_objects.metadata_name("x"),
        agent_objects.summary_name("x"),
        agent_objects.status_name("0123-4567-89ab"),
        agent_objects.role_name("x"),
    )
    assert all(name.startswith(ignitionsync.OWNED_PREFIX) for name in names)
