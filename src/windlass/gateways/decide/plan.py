"""A sync as data: every step that turns the tree on a gateway into the layout (APP-1).

A plan is computed without touching the target and is equal for equal inputs, in the
cluster, at the desk and after any restart (GP10). It deletes nothing outside managed
roots. A plan with guards must not be carried out: `check` says so.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from windlass.gateways.decide import adoption, deletes, emptied, obstacles, ops, policing, scans
from windlass.gateways.decide.changes import Changes, Digest
from windlass.gateways.decide.deletes import Guard, Safety
from windlass.gateways.decide.layout import Layout, Override, Skipped
from windlass.gateways.decide.live import Live
from windlass.gateways.decide.manifest import Manifest, Root
from windlass.gateways.decide.obstacles import Obstacles
from windlass.gateways.decide.ops import Op
from windlass.gateways.decide.policing import DEFAULT_CAPS, Caps
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.scans import ScanOrder
from windlass.gateways.decide.situation import Situation

__all__ = ["Digest", "Live", "Op", "Plan", "Safety", "Target", "check", "plan", "to_json"]

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Target:
    """What a plan is for."""

    gateway: str
    commit: str
    profile_hash: str = ""
    routing_hash: str = ""


class Plan(msgspec.Struct, frozen=True, rename="camel"):
    """All steps of one sync in the order to take them, and what a person should know."""

    gateway: str
    from_commit: str
    to_commit: str
    profile_hash: str
    roots: tuple[Root, ...]
    ops: tuple[Op, ...]
    skipped: tuple[Skipped, ...]
    overrides: tuple[Override, ...]
    unused: tuple[str, ...]
    warnings: tuple[str, ...]
    guards: tuple[Guard, ...]
    scans: tuple[str, ...]
    schema: int = SCHEMA
    digest: str = ""

    def counts(self) -> dict[str, int]:
        """How many steps of each sort there are."""
        return dict(Counter(op.op for op in self.ops))


_encoder = msgspec.json.Encoder(order="sorted")


def to_json(plan: Plan) -> bytes:
    """The plan as text; equal plans give equal bytes."""
    return _encoder.encode(plan)


def check(plan: Plan) -> None:
    """`Refused` for a plan that must not be carried out."""
    for guard in plan.guards:
        raise Refused(guard.reason, "", guard.message)


def plan(
    layout: Layout,
    changes: Changes,
    rendered: Mapping[str, Digest],
    live: Live,
    safety: Safety,
    *,
    manifest: Manifest | None,
    target: Target,
    caps: Caps = DEFAULT_CAPS,
) -> Plan:
    """The plan that brings `layout` about; all of `changes.render` must be rendered."""
    if changes.undecided:
        raise ValueError("changes must be settled before they can be planned")
    policing.check_sizes(_sizes(changes, rendered), caps)
    situation = Situation(layout, manifest, live)
    puts = _puts(layout, changes, rendered)
    kept = () if _is_allowed(safety, target) else adoption.adopted(situation)
    doomed = deletes.doomed(situation, safety, kept)
    first = obstacles.obstacles(situation, doomed, (put.path for put in puts))
    guards, lifted = _guards(situation, safety, {*doomed, *first.files}, puts, target)
    steps = _steps(situation, puts, doomed, first)
    noted = _noted(layout, changes, rendered, live)
    waiting = kept_back(situation, safety, target)
    warnings = (*layout.warnings, *lifted, *noted, *([waiting] if waiting else ()))
    made = _described(situation, target, steps, guards, warnings)
    return msgspec.structs.replace(made, digest=hashlib.sha256(to_json(made)).hexdigest())


def _described(
    situation: Situation,
    target: Target,
    steps: tuple[Op, ...],
    guards: tuple[Guard, ...],
    warnings: tuple[str, ...],
) -> Plan:
    layout, manifest = situation.layout, situation.manifest
    return Plan(
        gateway=target.gateway,
        from_commit=manifest.commit if manifest is not None else "",
        to_commit=target.commit,
        profile_hash=target.profile_hash,
        roots=layout.roots,
        ops=steps,
        skipped=layout.skipped,
        overrides=layout.overrides,
        unused=layout.unused,
        warnings=warnings,
        guards=guards,
        scans=_scans(steps),
    )


def _sizes(changes: Changes, rendered: Mapping[str, Digest]) -> dict[str, int]:
    kept = {path: entry.size for path, entry in changes.kept.items()}
    return kept | {path: rendered[path].size for path in changes.render}


def _puts(layout: Layout, changes: Changes, rendered: Mapping[str, Digest]) -> list[Op]:
    """A put for every rendered content that the disk does not have already (APP-10)."""
    return [
        ops.put(layout.files[path], rendered[path], changes.causes[path])
        for path in changes.render
        if changes.compared.live_sha256(path) != rendered[path].sha256
    ]


def _guards(
    situation: Situation,
    safety: Safety,
    going: Collection[str],
    puts: Iterable[Op],
    target: Target,
) -> tuple[tuple[Guard, ...], tuple[str, ...]]:
    """The guards that hold, and a warning for each that a person lifted."""
    moved = deletes.moved(situation, going, Counter(put.blob for put in puts))
    really = [path for path in going if path not in moved]
    found = deletes.guard(situation, safety, really, commit=target.commit)
    if found is None:
        return (), ()
    if _is_allowed(safety, target):
        return (), (f"allowed for this commit: {len(really)} files are deleted",)
    return (found,), ()


def _is_allowed(safety: Safety, target: Target) -> bool:
    """Whether a person allowed this commit to delete, under this routing."""
    return safety.allowed == deletes.Allowance(target.commit, target.routing_hash)


def kept_back(situation: Situation, safety: Safety, target: Target) -> str:
    """What to say about adopted files that wait for a person's word; empty without any."""
    if _is_allowed(safety, target):
        return ""
    left = deletes.kept_back(situation, safety, adoption.adopted(situation))
    return deletes.kept_warning(left, commit=target.commit) if left else ""


def _steps(
    situation: Situation, puts: list[Op], doomed: Mapping[str, str], first: Obstacles
) -> tuple[Op, ...]:
    there = situation.live.directories - first.directories
    later = {path: why for path, why in doomed.items() if path not in first.files}
    return (
        *ops.deletes(first.files),
        *ops.removals(first.directories, "a file is wanted here"),
        *ops.with_directories(ops.in_put_order(puts, situation.layout), there),
        *ops.deletes(later),
        *ops.removals(emptied.emptied(situation, later, first), "nothing is left in it"),
    )


def _noted(
    layout: Layout, changes: Changes, rendered: Mapping[str, Digest], live: Live
) -> Iterable[str]:
    links = sorted(path for path, kind in live.others.items() if kind != "protected")
    if links:
        yield f"{len(links)} symlinks or special files are left alone, the first is {links[0]}"
    if layout.system_name is not None and not _has_system_name(changes, rendered):
        yield "SystemNameNotFound: no planned config.json has a systemName to set"


def _has_system_name(changes: Changes, rendered: Mapping[str, Digest]) -> bool:
    if any(entry.named for entry in changes.kept.values()):
        return True
    return any(rendered[path].named for path in changes.render)


def _scans(steps: Iterable[Op]) -> tuple[str, ...]:
    """SCN-1: what the gateway has to read again; in which order is not the plan's to say."""
    kinds = scans.wanted(op.path for op in steps if op.op in ("put", "delete"))
    return tuple(kind.value for kind in scans.ordered(kinds, ScanOrder.PROJECTS_CONFIG))
