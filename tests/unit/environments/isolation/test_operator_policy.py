"""Nothing begins before the fence is seen to be in force."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.api.install.installation import Installation
from windlass.environments.isolation.operator_policy import OperatorPolicyCheck
from windlass.environments.owned_objects import OperatorAccount
from windlass.kube.errors import Forbidden, Unavailable

_BY_ROLES = Forbidden(403, "Forbidden", 'rolebindings is forbidden: User "w" cannot create')
_BY_FENCE = Forbidden(
    403,
    "Forbidden",
    'rolebindings "windlass-manager" is forbidden: ValidatingAdmissionPolicy '
    "'windlass-fence' with binding 'windlass-fence' denied request: the operator may only write",
)
_BY_ANOTHER = Forbidden(
    403, "Forbidden", "ValidatingAdmissionPolicy 'other-windlass-fence' with binding 'x' denied"
)


class _Server:
    """Answers each question with the next of its answers; None lets it through."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    async def create(self, _: object, obj: Any, *, dry_run: bool, **__: object) -> Any:
        assert dry_run, "a question makes nothing"
        self.asked.append(obj)
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        return obj


def _guard(server: Any) -> OperatorPolicyCheck:
    return OperatorPolicyCheck(
        server, operator=OperatorAccount("w"), install=Installation(), field_manager="test"
    )


@pytest.mark.looptime
async def test_only_a_refusal_by_the_fence_itself_counts() -> None:
    """Not one by the roles, not an outage, and least of all a success."""
    server = _Server(_BY_ROLES, Unavailable(0, "Unreachable", "?"), None, _BY_ANOTHER, _BY_FENCE)
    guard = _guard(server)
    assert not guard.is_in_force
    assert "windlass-fence" in guard.pending_message
    await guard.wait()
    assert guard.is_in_force
    assert len(server.asked) == 5


@pytest.mark.looptime
async def test_it_asks_for_what_the_roles_allow_and_the_fence_must_not() -> None:
    """Rights for itself in a namespace that it never made."""
    server = _Server(_BY_FENCE)
    await _guard(server).wait()
    [asked] = server.asked
    assert asked["metadata"] == {"name": "windlass-manager", "namespace": "kube-system"}
    assert asked["roleRef"]["name"] == "windlass-environment-manager"
