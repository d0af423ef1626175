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

    finding: StepResult | None
    written: tuple[str, ...] = ()
    corrected: tuple[Correction, ...] = ()
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

    hand: NamespaceClient
    owner: Ownership
    bundle: Bundle
    digest: str
    known: ReleaseState
    begun: ReleaseState
    driven: frozenset[tuple[str, str]]
    is_retried: bool

    def was_there(self, member: Member) -> bool:
        """Whether this very wish had been applied in this revision before."""
        identity = (member.gvr.group, member.kind, member.name)
        is_listed = any(row.uid and row.identity == identity for row in self.known.inventory)
        return is_listed and self.known.revision.digest == self.digest


@dataclass(frozen=True, slots=True)
class StageResult:
    """How far stages or hooks came; a hook may be what `held` them."""

    ledger: ReleaseState
    done: tuple[MemberResult, ...] = ()
    held: StepResult | None = None

    @property
    def refused(self) -> list[MemberResult]:
        return [one for one in self.done if one.refusal is not None]

    @property
    def ends(self) -> bool:
        return self.held is not None or bool(self.refused)


def step(reached: StageResult) -> ApplyStep:
    """Where stages that did not come to their end stopped."""
    if reached.held is not None or any(one.member.hook is not None for one in reached.refused):
        return "preDeploy"
    is_prepared = all(one.member.stage >= Stage.WORKLOADS for one in reached.refused)
    return "workloads" if is_prepared else "prepare"
