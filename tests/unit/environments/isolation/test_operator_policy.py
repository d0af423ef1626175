"""The check that the operator policy is in force, before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.api.install.installation import Installation
from windlass.environments.isolation.operator_policy import OperatorPolicyCheck
from windlass.environments.owned_objects import OperatorAccount
from windlass.kube.errors import Forbidden, Unavailable

_REFUSED_BY_RBAC = Forbidden(403, "Forbidden", 'rolebindings is forbidden: User "w" cannot create')
_REFUSED_BY_POLICY = Forbidden(
    403,
    "Forbidden",
    'rolebindings "windlass-manager" is forbidden: ValidatingAdmissionPolicy '
    "'windlass-fence' with binding 'windlass-fence' denied request: the operator may only write",
)
_REFUSED_BY_ANOTHER_POLICY = Forbidden(
    403, "Forbidden", "ValidatingAdmissionPolicy 'other-windlass-fence' with binding 'x' denied"
)


class _Server:
    """An API server with a list of responses; None accepts the request."""

    def __init__(self, *responses: Exception | None) -> None:
        self.responses = list(responses)
        self.requested: list[dict[str, Any]] = []

    async def create(self, _: object, obj: Any, *, dry_run: bool, **__: object) -> Any:
        assert dry_run, "the check creates nothing"
        self.requested.append(obj)
        response = self.responses.pop(0)
        if response is not None:
            raise response
        return obj


def _check(server: Any) -> OperatorPolicyCheck:
    return OperatorPolicyCheck(
        server, operator=OperatorAccount("w"), install=Installation(), field_manager="test"
    )


@pytest.mark.looptime
async def test_only_a_refusal_by_the_operator_policy_counts() -> None:
    """Not one by RBAC, not an outage, and least of all a success."""
    server = _Server(
        _REFUSED_BY_RBAC,
        Unavailable(0, "Unreachable", "?"),
        None,
        _REFUSED_BY_ANOTHER_POLICY,
        _REFUSED_BY_POLICY,
    )
    check = _check(server)
    assert not check.is_in_force
    assert "windlass-fence" in check.pending_message
    await check.wait()
    assert check.is_in_force
    assert len(server.requested) == 5


@pytest.mark.looptime
async def test_the_check_tries_what_rbac_allows_and_the_policy_refuses() -> None:
    """A binding for itself in a namespace that it does not own."""
    server = _Server(_REFUSED_BY_POLICY)
    await _check(server).wait()
    [requested] = server.requested
    assert requested["metadata"] == {"name": "windlass-manager", "namespace": "kube-system"}
    assert requested["roleRef"]["name"] == "windlass-environment-manager"
