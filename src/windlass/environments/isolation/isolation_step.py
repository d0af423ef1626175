"""Step policies: decides the isolation of an Environment, has it written, and reports it.

| Project | Maintained | PoliciesReady |
|---|---|---|
| usable | all of it | True once it is in force |
| usable, a quota or egress rule is refused | all that is allowed | False with the refusal |
| not usable | as it last was | True once it is in force |
| not usable, and not known since a restart | what needs no Project | Unknown |

Called by `environment_reconciler`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from windlass.environments import ownership, phase, step
from windlass.environments.audit_log import Correction
from windlass.environments.isolation.desired_isolation import DesiredIsolation, IsolationRefused
from windlass.environments.isolation.isolation_writer import (
    IsolationMemory,
    IsolationResult,
    IsolationSpec,
    IsolationWriter,
)
from windlass.environments.isolation.network_policies import ClusterNetwork
from windlass.environments.isolation.trust import UntrustedPolicy
from windlass.environments.memory import EnvironmentMemory
from windlass.environments.ownership import Ownership
from windlass.environments.preconditions import EnvironmentContext, UnknownProject
from windlass.environments.step import StepResult
from windlass.objects.names import Object

_NOT_ENFORCED = (
    "network policies are not enforced in this cluster "
    "(--environments-network-enforcement=absent), so pods are not isolated"
)
_MAINTAINED = (
    "RoleBindings, the default ServiceAccount and the policies default-policy, "
    "allow-same-namespace and allow-dns are maintained"
)


class IsolationStep:
    """Runs step policies of all Environments; `on_correction` is called for each drift."""

    def __init__(
        self,
        writer: IsolationWriter,
        network: ClusterNetwork,
        untrusted: UntrustedPolicy,
        on_correction: Callable[[Object, Correction], None],
    ) -> None:
        self._writer = writer
        self._network = network
        self._desired = DesiredIsolation(network, untrusted)
        self._on_correction = on_correction

    async def run(
        self, context: EnvironmentContext, namespace: str, memory: EnvironmentMemory
    ) -> tuple[IsolationSpec, IsolationResult]:
        """Maintain the isolation of a namespace; what is maintained, and the result of that."""
        refusal: IsolationRefused | None = None
        try:
            memory.isolation = self._desired.compute(context, memory.isolation)
        except IsolationRefused as error:
            refusal = error
            memory.isolation = self._desired.fall_back(context, memory.isolation)
        spec = memory.isolation.spec
        isolated = await self._ensure(
            context.object, namespace, context.owner, spec, memory.content.isolation
        )
        if refusal is not None:
            return spec, IsolationResult(_refused_result(refusal, isolated))
        result = step.with_note(isolated.result, isolated.note)
        if not result.ends_run and not self._network.is_enforced:
            result = step.with_warning(result, _NOT_ENFORCED)
        return spec, replace(isolated, result=result)

    async def run_without_project(
        self, unknown: UnknownProject, namespace: Object, memory: IsolationMemory
    ) -> StepResult:
        """Restore what of an isolation follows from the settings of the operator and the trust."""
        metadata, spec = namespace["metadata"], self._desired.without_project(unknown.environment)
        # The branch may be the Project's: it stays as it is, so that nothing is written for it.
        owner = replace(unknown.owner, branch=metadata["labels"].get(ownership.BRANCH) or "")
        isolated = await self._ensure(unknown.object, metadata["name"], owner, spec, memory)
        result = replace(isolated.result, condition=unknown.unchecked)
        return _with_notes(result, _MAINTAINED, _problem(isolated), isolated.note)

    async def _ensure(
        self,
        environment: Object,
        namespace: str,
        owner: Ownership,
        isolation: IsolationSpec,
        memory: IsolationMemory,
    ) -> IsolationResult:
        isolated = await self._writer.ensure(namespace, owner, isolation, memory)
        for correction in isolated.corrections:
            self._on_correction(environment, correction)
        return isolated


def _refused_result(error: IsolationRefused, isolated: IsolationResult) -> StepResult:
    """The refusal; the rest is maintained, as what runs inside has to stay isolated."""
    # Both are to be resolved: what is refused, and what keeps the rest from being in force.
    refused = step.failed(phase.POLICIES, error.reason, str(error))
    retried = isolated.result
    refused = replace(refused, requeue_after=retried.requeue_after, retry=retried.retry)
    return _with_notes(refused, _problem(isolated), isolated.note)


def _with_notes(result: StepResult, *notes: str) -> StepResult:
    return functools.reduce(step.with_note, notes, result)


def _problem(isolated: IsolationResult) -> str:
    """What keeps the maintained objects from being in force; empty if they are."""
    return isolated.result.condition.message if isolated.result.ends_run else ""
