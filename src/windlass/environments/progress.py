"""How far a bundle came on its way into a namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.environments.corrections import Correction
from windlass.environments.decide.bundle import Bundle, Member
from windlass.environments.decide.kinds import Stage
from windlass.environments.decide.ledger import Ledger
from windlass.environments.decide.marks import Marks
from windlass.environments.decide.step import Finding
from windlass.environments.hand import Hand
from windlass.environments.refusals import Refusal
from windlass.objects.names import Object

Step = Literal["preDeploy", "prepare", "workloads", "postDeploy"]


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of applying: the kinds that were written, who was put right, who went.

    `step` is how far it came.
    """

    finding: Finding | None
    written: tuple[str, ...] = ()
    corrected: tuple[Correction, ...] = ()
    pruned: tuple[str, ...] = ()
    step: Step = "workloads"


@dataclass(frozen=True, slots=True)
class Done:
    """One object of a stage: there, or refused."""

    member: Member
    live: Object | None = None
    refusal: Refusal | None = None
    is_written: bool = False
    is_drift: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """One bundle on its way into one namespace; `known` is the ledger before it."""

    hand: Hand
    owner: Marks
    bundle: Bundle
    digest: str
    known: Ledger
    begun: Ledger
    driven: frozenset[tuple[str, str]]
    is_retried: bool

    def was_there(self, member: Member) -> bool:
        """Whether this very wish had been applied in this revision before."""
        identity = (member.gvr.group, member.kind, member.name)
        is_listed = any(row.uid and row.identity == identity for row in self.known.inventory)
        return is_listed and self.known.revision.digest == self.digest


@dataclass(frozen=True, slots=True)
class Reached:
    """How far stages or hooks came; a hook may be what `held` them."""

    ledger: Ledger
    done: tuple[Done, ...] = ()
    held: Finding | None = None

    @property
    def refused(self) -> list[Done]:
        return [one for one in self.done if one.refusal is not None]

    @property
    def ends(self) -> bool:
        return self.held is not None or bool(self.refused)


def step(reached: Reached) -> Step:
    """Where stages that did not come to their end stopped."""
    if reached.held is not None or any(one.member.hook is not None for one in reached.refused):
        return "preDeploy"
    is_prepared = all(one.member.stage >= Stage.WORKLOADS for one in reached.refused)
    return "workloads" if is_prepared else "prepare"
