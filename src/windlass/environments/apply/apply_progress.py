"""State of one apply run: its inputs, the result of each object, of each stage, and of the run.

Plain values that `bundle_applier` passes from stage to stage and the reconciler reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.environments.apply.namespace_client import NamespaceClient
from windlass.environments.apply.refusals import ApplyRefusal
from windlass.environments.audit_log import Correction
from windlass.environments.bundle.bundle import Bundle, Member
from windlass.environments.bundle.kinds import Stage
from windlass.environments.inventory import ReleaseState
from windlass.environments.ownership import Ownership
from windlass.environments.step import StepResult
from windlass.objects.names import Object

ApplyStep = Literal["preDeploy", "prepare", "workloads", "postDeploy"]


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What came of applying: the kinds that were written, who was put right, who went.

    `step` is how far it came.
    """

    result: StepResult | None
    written: tuple[str, ...] = ()
    corrections: tuple[Correction, ...] = ()
    pruned: tuple[str, ...] = ()
    step: ApplyStep = "workloads"


@dataclass(frozen=True, slots=True)
class MemberResult:
    """One object of a stage: there, or refused."""

    member: Member
    live: Object | None = None
    refusal: ApplyRefusal | None = None
    is_written: bool = False
    is_drift: bool = False


@dataclass(frozen=True, slots=True)
class ApplyRun:
    """One bundle on its way into one namespace; `known` is the ledger before it."""

    client: NamespaceClient
    owner: Ownership
    bundle: Bundle
    digest: str
    previous_state: ReleaseState
    state: ReleaseState
    autoscaled: frozenset[tuple[str, str]]
    is_retried: bool

    def was_applied(self, member: Member) -> bool:
        """Whether this very wish had been applied in this revision before."""
        identity = (member.gvr.group, member.kind, member.name)
        is_listed = any(
            row.uid and row.identity == identity for row in self.previous_state.inventory
        )
        return is_listed and self.previous_state.revision.digest == self.digest


@dataclass(frozen=True, slots=True)
class StageResult:
    """How far stages or hooks came; a hook may be what `held` them."""

    state: ReleaseState
    results: tuple[MemberResult, ...] = ()
    blocked_by: StepResult | None = None

    @property
    def refused_members(self) -> list[MemberResult]:
        return [one for one in self.results if one.refusal is not None]

    @property
    def ends_run(self) -> bool:
        return self.blocked_by is not None or bool(self.refused_members)


def step(reached: StageResult) -> ApplyStep:
    """Where stages that did not come to their end stopped."""
    if reached.blocked_by is not None or any(
        one.member.hook is not None for one in reached.refused_members
    ):
        return "preDeploy"
    is_prepared = all(one.member.stage >= Stage.WORKLOADS for one in reached.refused_members)
    return "workloads" if is_prepared else "prepare"
