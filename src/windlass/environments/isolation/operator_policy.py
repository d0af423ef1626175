"""Checks that the operator policy (ValidatingAdmissionPolicy) is in force before any write.

The roles of the operator allow more than it may do: that it grants rights only in namespaces it
created is enforced by the admission policy. A policy takes effect some moments after it was
written, and never if it was not installed. So the operator tries, as a dry run, a write that the
policy must refuse, and starts only once it was refused *by the policy*. A refusal by the roles
proves nothing.

Called by `controller` before the first reconcile.
"""

from __future__ import annotations

import asyncio

import structlog

from windlass.api.install.installation import Installation
from windlass.environments import owned_objects
from windlass.environments.owned_objects import OperatorAccount
from windlass.environments.ownership import Ownership
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, Forbidden
from windlass.objects.resources import ROLE_BINDINGS

_FOREIGN_NAMESPACE = "kube-system"
_FIRST_RETRY_SECONDS = 0.25
_MAX_RETRY_SECONDS = 10.0

_log = structlog.get_logger(__name__)


class OperatorPolicyCheck:
    """Waits until the operator policy refuses what it must; `is_in_force` from then on."""

    def __init__(
        self, api: Api, *, operator: OperatorAccount, install: Installation, field_manager: str
    ) -> None:
        self._api = api
        self._operator = operator
        self._install = install
        self._field_manager = field_manager
        self.is_in_force = False

    @property
    def pending_message(self) -> str:
        """The message for the readiness endpoint while the policy is not in force."""
        return (
            "operator policy not in force; check that ValidatingAdmissionPolicy "
            f"{self._install.operator_policy} and its binding are installed (deploy/rbac)"
        )

    async def wait(self) -> None:
        """Return once the policy is in force; tries with backoff, for ever."""
        seconds = _FIRST_RETRY_SECONDS
        while not await self._is_refused():
            _log.warning("waiting for operator policy", policy=self._install.operator_policy)
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, _MAX_RETRY_SECONDS)
        self.is_in_force = True

    async def _is_refused(self) -> bool:
        """Whether the policy refuses a RoleBinding of the operator in a foreign namespace."""
        no_owner = Ownership(uid="", namespace="", name="", project="")
        role = self._install.environment_manager_role
        forbidden = owned_objects.manager_binding(
            _FOREIGN_NAMESPACE, no_owner, role, self._operator
        )
        # It belongs to no Environment, so it carries no ownership labels.
        del forbidden["metadata"]["labels"], forbidden["metadata"]["annotations"]
        try:
            await self._api.create(
                ROLE_BINDINGS, forbidden, field_manager=self._field_manager, dry_run=True
            )
        except Forbidden as error:
            return f"'{self._install.operator_policy}'" in error.message
        except ApiError as error:
            _log.info("cannot check operator policy", reason=error.reason, message=error.message)
        return False
