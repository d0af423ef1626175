"""Checks that the operator policy (ValidatingAdmissionPolicy) is in force before any write.

The roles of the operator allow more than it may do: that it grants rights only in namespaces it
created is what the admission policy enforces. A policy counts some moments after it was
written, and not at all where it was never installed. So the operator tries, as a dry run,
something that the policy must refuse, and works only once it was refused *by the policy*. A
refusal by the roles proves nothing.
"""

from __future__ import annotations

import asyncio

import structlog

from windlass.api.install.installation import Installation
from windlass.environments import owned_objects
from windlass.environments.owned_cache import ROLE_BINDINGS
from windlass.environments.owned_objects import OperatorAccount
from windlass.environments.ownership import Ownership
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, Forbidden

_FOREIGN_NAMESPACE = "kube-system"
_FIRST_RETRY_SECONDS = 0.25
_MAX_RETRY_SECONDS = 10.0

_log = structlog.get_logger(__name__)


class OperatorPolicyCheck:
    """The one who looks whether the fence stands."""

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
        """What to tell while the fence does not stand."""
        return (
            "the fence is not in force yet; is the ValidatingAdmissionPolicy "
            f"{self._install.operator_policy} installed, with its binding?"
        )

    async def wait(self) -> None:
        """Until the fence is in force."""
        seconds = _FIRST_RETRY_SECONDS
        while not await self._is_refused():
            _log.warning("waiting for the fence", policy=self._install.operator_policy)
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, _MAX_RETRY_SECONDS)
        self.is_in_force = True

    async def _is_refused(self) -> bool:
        """Whether the fence keeps the operator from giving itself rights where it made nothing."""
        nobody = Ownership(uid="", namespace="", name="", project="")
        role = self._install.environment_manager_role
        trial = owned_objects.manager_binding(_FOREIGN_NAMESPACE, nobody, role, self._operator)
        del trial["metadata"]["labels"], trial["metadata"]["annotations"]
        try:
            await self._api.create(
                ROLE_BINDINGS, trial, field_manager=self._field_manager, dry_run=True
            )
        except Forbidden as error:
            return f"'{self._install.operator_policy}'" in error.message
        except ApiError as error:
            _log.info("the fence cannot be asked", reason=error.reason, message=error.message)
        return False
