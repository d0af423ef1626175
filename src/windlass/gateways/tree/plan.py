"""The plan of a sync: every step that turns the tree on a gateway into the layout (APP-1).

Built by the agent's sync, and by the command line. A plan is computed without touching the target
and is equal for equal inputs, also after any restart (P10). It deletes nothing outside managed
roots, of now or of the last manifest. A plan with guards must not be applied: `check_guards`
raises. `next_manifest` is the manifest that an applied plan leaves behind.

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
from windlass.gateways.tree.deletes import DeleteSafety, DeletesRefused, PlanGuard, PlanInputs
from windlass.gateways.tree.file_policy import DEFAULT_CAPS, Caps
from windlass.gateways.tree.layout import Layout, OverriddenFile, SkippedFile
from windlass.gateways.tree.live_tree import LiveTree
from windlass.gateways.tree.manifest import ManagedRoot, Manifest, ManifestEntry
from windlass.gateways.tree.obstacles import Obstacles
from windlass.gateways.tree.plan_steps import PlanStep
from windlass.gateways.tree.scan_rules import ScanOrder
from windlass.objects.names import format_count

PLAN_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class PlanTarget:
    """The gateway, commit and routing that a plan is for."""

    gateway: str
    commit: str
    profile_hash: str = ""
    routing_hash: str = ""


class Plan(msgspec.Struct, frozen=True, rename="camel"):
    """All steps of one sync in the order to run them, and what users should know about it."""

    gateway: str  # name
    from_commit: str  # of the last manifest; empty before the first sync
    to_commit: str  # the desired one
    profile_hash: str  # routing of the gateway
    roots: tuple[ManagedRoot, ...]  # managed after the sync, sorted
    ops: tuple[PlanStep, ...]  # in execution order
    skipped: tuple[SkippedFile, ...]  # mapped, but not synced
    overrides: tuple[OverriddenFile, ...]  # files that another mapping replaced
    unused: tuple[str, ...]  # exclude patterns that match no file of the commit
    warnings: tuple[str, ...]  # for users
    guards: tuple[PlanGuard, ...]  # a plan with any must not be applied
    scans: tuple[str, ...]  # kinds of scans that the gateway needs afterwards
    schema: int = PLAN_SCHEMA  # of the JSON
    digest: str = ""  # SHA-256 of the plan with an empty digest

    def counts(self) -> dict[str, int]:
        """The number of steps per kind of step."""
        return dict(Counter(op.op for op in self.ops))


_encoder = msgspec.json.Encoder(order="sorted")


def to_json(plan: Plan) -> bytes:
    """The plan as JSON; equal plans give equal bytes."""
    return _encoder.encode(plan)


def check_guards(plan: Plan) -> None:
    """Raise `DeletesRefused` for a plan that must not be applied."""
    for guard in plan.guards:
        raise DeletesRefused(guard)


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
    """The plan that leads to `layout`; all of `changes.render` must be rendered."""
    if changes.undecided:
        raise ValueError("changes must be settled before they can be planned")
    file_policy.check_sizes(_sizes(changes, rendered), caps)
    inputs = PlanInputs(layout, manifest, live)
    puts = _put_steps(layout, changes, rendered)
    kept = _unapproved_files(deletes.adopted_files(inputs), safety, target)
    deleted = deletes.files_to_delete(inputs, safety, kept)
    blocking = obstacles.find_obstacles(inputs, deleted, (put.path for put in puts))
    guards, lifted_warnings = _guards(inputs, safety, {*deleted, *blocking.files}, puts, target)
    steps = _order_steps(inputs, puts, deleted, blocking)
    confirmation = _confirmation_warning(files_to_confirm(inputs, safety, steps), safety, target)
    # First what a user may have to decide: a status shows the first warning only.
    warnings = (
        *([confirmation] if confirmation else ()),
        *lasting_warnings(layout, changes, rendered, live),
        *lifted_warnings,
    )
    plan = _assemble_plan(inputs, target, steps, guards, warnings)
    return msgspec.structs.replace(plan, digest=hashlib.sha256(to_json(plan)).hexdigest())


def _assemble_plan(
    inputs: PlanInputs,
    target: PlanTarget,
    steps: tuple[PlanStep, ...],
    guards: tuple[PlanGuard, ...],
    warnings: tuple[str, ...],
) -> Plan:
    layout, manifest = inputs.layout, inputs.manifest
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
    inputs: PlanInputs,
    safety: DeleteSafety,
    deleted: Collection[str],
    puts: Iterable[PlanStep],
    target: PlanTarget,
) -> tuple[tuple[PlanGuard, ...], tuple[str, ...]]:
    """The guards in force, and a warning for each one that was lifted by an allowance."""
    moved = deletes.moved_files(inputs, deleted, Counter(put.blob for put in puts))
    counted = [path for path in deleted if path not in moved]
    guard = deletes.mass_delete_guard(
        inputs, safety, counted, commit=target.commit, is_early=_names_commit(safety, target)
    )
    if guard is None:
        return (), ()
    if _is_allowed(safety, target):
        return (), (f"deletion of {format_count(len(counted), 'file')} is allowed for this commit",)
    return (guard,), ()


def _is_allowed(safety: DeleteSafety, target: PlanTarget) -> bool:
    """Whether this commit is allowed to delete files, under this routing."""
    allowed = safety.allowed
    return allowed is not None and allowed.covers(target.commit, target.routing_hash)


def _unapproved_files(
    adopted: frozenset[str], safety: DeleteSafety, target: PlanTarget
) -> frozenset[str]:
    """The files of `adopted` that no allowance covers."""
    allowed = safety.allowed
    if allowed is None or not _is_allowed(safety, target):
        return adopted
    return adopted - allowed.adopted if allowed.adopted is not None else frozenset()


def _names_commit(safety: DeleteSafety, target: PlanTarget) -> bool:
    """Whether an annotation names the commit already, so that setting it is no remedy.

    An allowance for all adopted files is none of an annotation.
    """
    allowed = safety.allowed
    return allowed is not None and allowed.adopted is not None and allowed.commit == target.commit


def files_to_confirm(
    inputs: PlanInputs, safety: DeleteSafety, steps: Iterable[PlanStep]
) -> list[str]:
    """The adopted files that `steps` keep until their deletion is allowed, in path order."""
    return deletes.files_to_confirm(inputs, safety, deletes.adoption_record(inputs, steps))


def _confirmation_warning(
    unconfirmed: Collection[str], safety: DeleteSafety, target: PlanTarget
) -> str:
    """The warning about `unconfirmed` files; empty without any."""
    if not unconfirmed:
        return ""
    is_early = _names_commit(safety, target)
    return deletes.confirmation_warning(unconfirmed, commit=target.commit, is_early=is_early)


def _order_steps(
    inputs: PlanInputs, puts: list[PlanStep], deleted: Mapping[str, str], blocking: Obstacles
) -> tuple[PlanStep, ...]:
    existing = inputs.live_tree.directories - blocking.directories
    later = {path: why for path, why in deleted.items() if path not in blocking.files}
    return (
        *plan_steps.delete_steps(blocking.files),
        *plan_steps.rmdir_steps(blocking.directories, "the commit has a file here"),
        *plan_steps.add_missing_directories(plan_steps.sort_puts(puts, inputs.layout), existing),
        *plan_steps.delete_steps(later),
        *plan_steps.rmdir_steps(obstacles.directories_left_empty(inputs, later, blocking), "empty"),
    )


def lasting_warnings(
    layout: Layout, changes: Changes, rendered: Mapping[str, RenderedDigest], live: LiveTree
) -> Iterable[str]:
    """The warnings of a plan that stay true while its tree is on the disk."""
    yield from layout.warnings
    ignored = sorted(path for path, kind in live.others.items() if kind != "protected")
    if ignored:
        yield (
            f"{format_count(len(ignored), 'symlink or special file', 'symlinks or special files')} "
            f"ignored, first: {ignored[0]}"
        )
    if layout.system_name is not None and not _has_system_name(changes, rendered):
        yield "SystemNameNotFound: no planned config.json contains systemName"


def _has_system_name(changes: Changes, rendered: Mapping[str, RenderedDigest]) -> bool:
    if any(entry.named for entry in changes.kept.values()):
        return True
    return any(rendered[path].named for path in changes.render)


def _scan_kinds(steps: Iterable[PlanStep]) -> tuple[str, ...]:
    """The scans that the steps require (SCN-1); the policy decides their order, not the plan."""
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
        omitted=tuple(sorted(layout.omitted)),
    )


def _manifest_entry(
    path: str, layout: Layout, changes: Changes, digest: RenderedDigest
) -> ManifestEntry:
    file = layout.files[path]
    is_on_disk = changes.comparison.live_sha256(path) == digest.sha256
    return ManifestEntry(
        sha256=digest.sha256,
        size=digest.size,
        blob=file.blob,
        recipe=changes.recipe(file)[1],
        stat=changes.comparison.stats[path] if is_on_disk else None,
        transforms=digest.transforms,
        named=digest.named,
        about=digest.about,
    )
