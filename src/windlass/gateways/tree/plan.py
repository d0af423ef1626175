"""A sync as data: every step that turns the tree on a gateway into the layout (APP-1).

A plan is computed without touching the target and is equal for equal inputs, in the cluster, on
the command line and after any restart (P10). It deletes nothing outside managed roots. A plan
with guards must not be applied: `check_guards` raises. `next_manifest` is the manifest that an
applied plan leaves behind.

Pure.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from windlass.gateways.tree import deletes, file_policy, obstacles, plan_steps, scan_rules
from windlass.gateways.tree.changes import Changes, RenderedDigest
from windlass.gateways.tree.deletes import DeleteSafety, PlanGuard, PlanInputs
from windlass.gateways.tree.file_policy import DEFAULT_CAPS, Caps
from windlass.gateways.tree.layout import Layout, OverriddenFile, SkippedFile
from windlass.gateways.tree.live_tree import LiveTree
from windlass.gateways.tree.manifest import ManagedRoot, Manifest, ManifestEntry
from windlass.gateways.tree.obstacles import Obstacles
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.tree.plan_steps import PlanStep
from windlass.gateways.tree.scan_rules import ScanOrder

PLAN_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class PlanTarget:
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
    roots: tuple[ManagedRoot, ...]
    ops: tuple[PlanStep, ...]
    skipped: tuple[SkippedFile, ...]
    overrides: tuple[OverriddenFile, ...]
    unused: tuple[str, ...]
    warnings: tuple[str, ...]
    guards: tuple[PlanGuard, ...]
    scans: tuple[str, ...]
    schema: int = PLAN_SCHEMA
    digest: str = ""

    def counts(self) -> dict[str, int]:
        """How many steps of each sort there are."""
        return dict(Counter(op.op for op in self.ops))


_encoder = msgspec.json.Encoder(order="sorted")


def to_json(plan: Plan) -> bytes:
    """The plan as text; equal plans give equal bytes."""
    return _encoder.encode(plan)


def check_guards(plan: Plan) -> None:
    """`Refused` for a plan that must not be carried out."""
    for guard in plan.guards:
        raise SyncRefused(guard.reason, "", guard.message)


def build_plan(
    layout: Layout,
    changes: Changes,
    rendered: Mapping[str, RenderedDigest],
    live: LiveTree,
    safety: DeleteSafety,
    *,
    manifest: Manifest | None,
    target: PlanTarget,
    caps: Caps = DEFAULT_CAPS,
) -> Plan:
    """The plan that brings `layout` about; all of `changes.render` must be rendered."""
    if changes.undecided:
        raise ValueError("changes must be settled before they can be planned")
    file_policy.check_sizes(_sizes(changes, rendered), caps)
    situation = PlanInputs(layout, manifest, live)
    puts = _put_steps(layout, changes, rendered)
    kept = () if _is_allowed(safety, target) else deletes.adopted_files(situation)
    doomed = deletes.files_to_delete(situation, safety, kept)
    first = obstacles.find_obstacles(situation, doomed, (put.path for put in puts))
    guards, lifted = _guards(situation, safety, {*doomed, *first.files}, puts, target)
    steps = _order_steps(situation, puts, doomed, first)
    noted = _plan_warnings(layout, changes, rendered, live)
    waiting = confirmation_warning(situation, safety, target)
    warnings = (*layout.warnings, *lifted, *noted, *([waiting] if waiting else ()))
    made = _assemble_plan(situation, target, steps, guards, warnings)
    return msgspec.structs.replace(made, digest=hashlib.sha256(to_json(made)).hexdigest())


def _assemble_plan(
    situation: PlanInputs,
    target: PlanTarget,
    steps: tuple[PlanStep, ...],
    guards: tuple[PlanGuard, ...],
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
        unused=layout.unused_excludes,
        warnings=warnings,
        guards=guards,
        scans=_scan_kinds(steps),
    )


def _sizes(changes: Changes, rendered: Mapping[str, RenderedDigest]) -> dict[str, int]:
    kept = {path: entry.size for path, entry in changes.kept.items()}
    return kept | {path: rendered[path].size for path in changes.render}


def _put_steps(
    layout: Layout, changes: Changes, rendered: Mapping[str, RenderedDigest]
) -> list[PlanStep]:
    """A put for every rendered content that the disk does not have already (APP-10)."""
    return [
        plan_steps.put_step(layout.files[path], rendered[path], changes.causes[path])
        for path in changes.render
        if changes.comparison.live_sha256(path) != rendered[path].sha256
    ]


def _guards(
    situation: PlanInputs,
    safety: DeleteSafety,
    going: Collection[str],
    puts: Iterable[PlanStep],
    target: PlanTarget,
) -> tuple[tuple[PlanGuard, ...], tuple[str, ...]]:
    """The guards that hold, and a warning for each that a person lifted."""
    moved = deletes.moved_files(situation, going, Counter(put.blob for put in puts))
    really = [path for path in going if path not in moved]
    found = deletes.mass_delete_guard(situation, safety, really, commit=target.commit)
    if found is None:
        return (), ()
    if _is_allowed(safety, target):
        return (), (f"allowed for this commit: {len(really)} files are deleted",)
    return (found,), ()


def _is_allowed(safety: DeleteSafety, target: PlanTarget) -> bool:
    """Whether a person allowed this commit to delete, under this routing."""
    return safety.allowed == deletes.DeleteAllowance(target.commit, target.routing_hash)


def confirmation_warning(situation: PlanInputs, safety: DeleteSafety, target: PlanTarget) -> str:
    """What to say about adopted files that wait for a person's word; empty without any."""
    if _is_allowed(safety, target):
        return ""
    left = deletes.files_to_confirm(situation, safety, deletes.adopted_files(situation))
    return deletes.confirmation_warning(left, commit=target.commit) if left else ""


def _order_steps(
    situation: PlanInputs, puts: list[PlanStep], doomed: Mapping[str, str], first: Obstacles
) -> tuple[PlanStep, ...]:
    there = situation.live_tree.directories - first.directories
    later = {path: why for path, why in doomed.items() if path not in first.files}
    return (
        *plan_steps.delete_steps(first.files),
        *plan_steps.rmdir_steps(first.directories, "a file is wanted here"),
        *plan_steps.add_missing_directories(plan_steps.sort_puts(puts, situation.layout), there),
        *plan_steps.delete_steps(later),
        *plan_steps.rmdir_steps(
            obstacles.directories_left_empty(situation, later, first), "nothing is left in it"
        ),
    )


def _plan_warnings(
    layout: Layout, changes: Changes, rendered: Mapping[str, RenderedDigest], live: LiveTree
) -> Iterable[str]:
    links = sorted(path for path, kind in live.others.items() if kind != "protected")
    if links:
        yield f"{len(links)} symlinks or special files are left alone, the first is {links[0]}"
    if layout.system_name is not None and not _has_system_name(changes, rendered):
        yield "SystemNameNotFound: no planned config.json has a systemName to set"


def _has_system_name(changes: Changes, rendered: Mapping[str, RenderedDigest]) -> bool:
    if any(entry.named for entry in changes.kept.values()):
        return True
    return any(rendered[path].named for path in changes.render)


def _scan_kinds(steps: Iterable[PlanStep]) -> tuple[str, ...]:
    """SCN-1: what the gateway has to read again; in which order is not the plan's to say."""
    kinds = scan_rules.required_scans(op.path for op in steps if op.op in ("put", "delete"))
    return tuple(kind.value for kind in scan_rules.sort_scans(kinds, ScanOrder.PROJECTS_CONFIG))


def next_manifest(
    layout: Layout,
    changes: Changes,
    rendered: Mapping[str, RenderedDigest],
    *,
    target: PlanTarget,
    tree: str = "",
    adopted: tuple[str, ...] = (),
) -> Manifest:
    """The manifest after the plan; files that the plan writes have no stat in it yet."""
    files = dict(changes.kept)
    for path in changes.restat:
        files[path] = msgspec.structs.replace(files[path], stat=changes.comparison.stats[path])
    for path in changes.render:
        files[path] = _manifest_entry(path, layout, changes, rendered[path])
    return Manifest(
        commit=target.commit,
        tree=tree,
        profile_hash=target.profile_hash,
        routing_hash=target.routing_hash,
        roots=layout.roots,
        files=files,
        excludes=layout.excludes.patterns,
        adopted=adopted,
    )


def _manifest_entry(
    path: str, layout: Layout, changes: Changes, digest: RenderedDigest
) -> ManifestEntry:
    wanted = layout.files[path]
    adopted = changes.comparison.live_sha256(path) == digest.sha256
    return ManifestEntry(
        sha256=digest.sha256,
        size=digest.size,
        blob=wanted.blob,
        recipe=changes.recipe(wanted)[1],
        stat=changes.comparison.stats[path] if adopted else None,
        transforms=digest.transforms,
        named=digest.named,
        about=digest.about,
    )
