"""State of one apply run: its inputs, the result of each object, of each stage, and of the run.

Plain values that `bundle_applier` passes from stage to stage and `environment_reconciler` reports,
and what is remembered from one run to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from windlass.api.install.environment_objects import Stage
from windlass.environments.apply.namespace_client import NamespaceClient
from windlass.environments.apply.refusals import ApplyRefusal
from windlass.environments.audit_log import Correction
from windlass.environments.bundle.bundle import Bundle, Member
from windlass.environments.inventory import ReleaseState
from windlass.environments.ownership import Ownership
from windlass.environments.step import StepResult
from windlass.objects.names import Object

ApplyStep = Literal["preDeploy", "prepare", "workloads", "postDeploy"]


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of an apply run."""

    result: StepResult | None  # why it stopped; None = everything is applied
    written: tuple[str, ...] = ()  # the kind of each object that was written
    corrections: tuple[Correction, ...] = ()  # objects with drift
    pruned: tuple[str, ...] = ()  # deleted objects, as Kind/name
    step: ApplyStep = "workloads"  # the step that `result` belongs to


@dataclass(frozen=True, slots=True)
class WrittenSecret:
    """The answer of the API server to our write of a Secret."""

    object: Object
    at: float  # monotonic time
    digest: str  # of the bundle it was written for


@dataclass(slots=True)
class ApplyMemory:
    """What is remembered of the applied objects of one namespace, from one run to the next."""

    # Writes as the applier of the namespace; None before the first run.
    client: NamespaceClient | None = None
    # By name: Secrets are not watched, so our own writes are remembered.
    secrets: dict[str, WrittenSecret] = field(default_factory=dict)
    # Monotonic time of the first 403 in a row; None = not denied.
    denied_since: float | None = None
    # Monotonic time since when a revision that was ready no longer is; None = it is.
    unready_since: float | None = None


@dataclass(frozen=True, slots=True)
class MemberResult:
    """The result for one object of a stage: applied or refused."""

    member: Member
    live: Object | None = None  # as the API server has it now; None = refused
    refusal: ApplyRefusal | None = None  # None = applied
    is_written: bool = False  # the object changed by this run
    is_drift: bool = False  # it was written because others had changed or deleted it


@dataclass(frozen=True, slots=True)
class ApplyRun:
    """The inputs of applying one bundle to one namespace; they do not change during the run."""

    client: NamespaceClient  # writes as the applier of the namespace
    owner: Ownership  # the Environment that everything is applied for
    bundle: Bundle  # what to apply
    digest: str  # of the bundle
    previous_state: ReleaseState  # before this run
    state: ReleaseState  # with all members of the bundle listed, as it is stored now
    autoscaled: frozenset[tuple[str, str]]  # kind and name of workloads with an autoscaler
    is_retried: bool  # a retry was requested: failed hooks run again
    memory: ApplyMemory  # of the namespace

    def was_applied(self, member: Member) -> bool:
        """Whether the member has been applied in this revision before."""
        identity = (member.gvr.group, member.kind, member.name)
        is_listed = any(
            row.uid and row.identity == identity for row in self.previous_state.inventory
        )
        return is_listed and self.previous_state.revision.digest == self.digest


@dataclass(frozen=True, slots=True)
class StageResult:
    """The result of some stages or hooks."""

    state: ReleaseState  # with the hooks that completed
    results: tuple[MemberResult, ...] = ()
    blocked_by: StepResult | None = None  # a hook that runs or failed; None = none

    @property
    def refused_members(self) -> list[MemberResult]:
        return [result for result in self.results if result.refusal is not None]

    @property
    def ends_run(self) -> bool:
        return self.blocked_by is not None or bool(self.refused_members)


def stopped_step(stages: StageResult) -> ApplyStep:
    """The step at which stages ended early."""
    if stages.blocked_by is not None or any(
        result.member.hook is not None for result in stages.refused_members
    ):
        return "preDeploy"
    is_prepared = all(result.member.stage >= Stage.WORKLOADS for result in stages.refused_members)
    return "workloads" if is_prepared else "prepare"
