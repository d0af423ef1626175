"""A gateway's data directory as a dictionary, and all steps of a sync over it.

`DiskModel` applies plans as an agent does, without a disk; `Commit` is a repository of plain
bytes. `sync` calls every planning module in the order of the engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from windlass.gateways.render import file_renderer
from windlass.gateways.render.file_renderer import RenderRecipe
from windlass.gateways.tree import changes as changing
from windlass.gateways.tree import deletes, plan, selection
from windlass.gateways.tree import layout as layouts
from windlass.gateways.tree import live_tree as live_trees
from windlass.gateways.tree import plan as plans
from windlass.gateways.tree.changes import Changes, RenderedDigest
from windlass.gateways.tree.deletes import DeleteSafety, PlanInputs
from windlass.gateways.tree.gateway_pod import GatewayPod
from windlass.gateways.tree.layout import Layout
from windlass.gateways.tree.live_tree import LiveTree, OtherKind
from windlass.gateways.tree.manifest import FileStat, Manifest
from windlass.gateways.tree.path_rules import is_protected, parents
from windlass.gateways.tree.plan import Plan, PlanTarget
from windlass.gateways.tree.selection import GatewaySelection, SourceRevision
from windlass.gateways.wire.routing import ANNOTATION_PREFIX, Routing, hash_profile, hash_routing
from windlass.git.store import Entry

FILE_MODE = 0o100644


def blob_id(content: bytes) -> str:
    """A stand-in for Git's id of a blob."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def annotated_pod(name: str = "site-0", **annotations: str) -> GatewayPod:
    """A pod with our annotations; underscores stand for dashes."""
    prefixed = {
        ANNOTATION_PREFIX + key.replace("_", "-"): value for key, value in annotations.items()
    }
    return GatewayPod(name, "plant", prefixed, {"app.kubernetes.io/name": "site"})


@dataclass(slots=True)
class Commit:
    """The files of one commit; `modes` has those that are not regular files."""

    files: Mapping[str, bytes]
    modes: Mapping[str, int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return blob_id(repr(sorted(self.files.items())).encode())

    @property
    def listing(self) -> dict[str, Entry]:
        return {
            path: Entry(self.modes.get(path, FILE_MODE), blob_id(content))
            for path, content in self.files.items()
        }


@dataclass(slots=True)
class DiskModel:
    """Files and directories; every write gives a file a stat it never had before."""

    files: dict[str, bytes] = field(default_factory=dict)
    stats: dict[str, FileStat] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)
    others: dict[str, OtherKind] = field(default_factory=dict)
    writes: int = 0

    def write(self, path: str, content: bytes) -> None:
        """Write a file, with the directories above it."""
        self.directories.update(parents(path))
        self.replace(path, content)

    def replace(self, path: str, content: bytes) -> None:
        """Write a file into an existing directory."""
        assert path not in self.directories
        assert path not in self.others
        assert all(folder in self.directories for folder in parents(path)), path
        self.writes += 1
        self.files[path] = content
        self.stats[path] = FileStat(len(content), self.writes, self.writes)

    def survey(self, layout: Layout, manifest: Manifest | None) -> LiveTree:
        """The live tree, as a survey of the managed roots finds it."""
        scope = live_trees.survey_scope(layout.roots, manifest)
        walk, stat_only = frozenset(scope.walk), frozenset(scope.stat_only)

        def is_surveyed(path: str) -> bool:
            return not is_protected(path) and (
                path in stat_only or live_trees.is_within(path, walk)
            )

        others = {path: kind for path, kind in self.others.items() if is_surveyed(path)}
        others |= {path: "protected" for path in self._protected() if not is_surveyed(path)}
        return LiveTree(
            files={path: stat for path, stat in self.stats.items() if is_surveyed(path)},
            directories=frozenset(path for path in self.directories if is_surveyed(path)),
            others=others,
        )

    def apply(self, plan: Plan, staged: Mapping[str, bytes]) -> None:
        for op in plan.ops:
            if op.op == "mkdir":
                assert op.path not in self.files
                assert all(folder in self.directories for folder in parents(op.path))
                self.directories.add(op.path)
            elif op.op == "put":
                assert hashlib.sha256(staged[op.path]).hexdigest() == op.sha256
                self.replace(op.path, staged[op.path])
            elif op.op == "delete":
                del self.files[op.path], self.stats[op.path]
            else:
                self._remove(op.path)

    def _remove(self, folder: str) -> None:
        inside = (*self.files, *self.directories, *self.others)
        assert not [path for path in inside if path.startswith(f"{folder}/")], folder
        self.directories.remove(folder)

    def _protected(self) -> set[str]:
        return {path for path in (*self.files, *self.directories) if is_protected(path)}


@dataclass(slots=True)
class SyncResult:
    """All results of one sync."""

    selection: GatewaySelection
    layout: Layout
    changes: Changes
    rendered: dict[str, RenderedDigest]
    staged: dict[str, bytes]
    plan: Plan
    target: PlanTarget
    situation: PlanInputs

    @property
    def steps(self) -> list[tuple[str, str]]:
        return [(op.op, op.path) for op in self.plan.ops]

    def paths(self, op: str) -> list[str]:
        return [step.path for step in self.plan.ops if step.op == op]


@dataclass(slots=True)
class GatewayModel:
    """One gateway with its disk and the manifest of its last sync."""

    pod: GatewayPod
    routing: Routing = field(default_factory=Routing)
    safety: DeleteSafety = field(default_factory=DeleteSafety)
    disk: DiskModel = field(default_factory=DiskModel)
    manifest: Manifest | None = None

    def plan(self, commit: Commit) -> SyncResult:
        """The plan for a commit; changes nothing."""
        selected = selection.select(
            self.routing, self.pod, SourceRevision(commit.id, "main", 1), cr_name="site"
        )
        layout = layouts.layout_for_selection(commit.listing, selected)
        live = self.disk.survey(layout, self.manifest)
        unclear = changing.paths_to_hash(layout, self.manifest, live.files)
        hashes = {path: hashlib.sha256(self.disk.files[path]).hexdigest() for path in unclear}
        changes = changing.find_changes(layout, self.manifest, live.files, hashes)
        staged: dict[str, bytes] = {}
        rendered = _render(commit, layout, changes, staged)
        changes = changing.resolve_undecided(changes, layout, rendered)
        rendered = _render(commit, layout, changes, staged)
        target = self._target(commit)
        plan = plans.build_plan(
            layout, changes, rendered, live, self.safety, manifest=self.manifest, target=target
        )
        situation = PlanInputs(layout, self.manifest, live)
        return SyncResult(selected, layout, changes, rendered, staged, plan, target, situation)

    def sync(self, commit: Commit) -> SyncResult:
        """Plan and apply, as the agent does."""
        result = self.plan(commit)
        plans.check_guards(result.plan)
        self.disk.apply(result.plan, result.staged)
        manifest = plan.next_manifest(
            result.layout,
            result.changes,
            result.rendered,
            target=result.target,
            adopted=deletes.adoption_record(result.situation, result.plan.ops),
        )
        for path in result.paths("put"):
            entry = manifest.files[path]
            assert entry.stat is None
            manifest.files[path] = msgspec.structs.replace(entry, stat=self.disk.stats[path])
        self.manifest = manifest
        return result

    def _target(self, commit: Commit) -> PlanTarget:
        routing_hash = hash_routing(self.routing)
        profile_hash = hash_profile(routing_hash, self.pod.annotations, self.pod.labels)
        return PlanTarget("site", commit.id, profile_hash, routing_hash)


def _render(
    commit: Commit, layout: Layout, changes: Changes, staged: dict[str, bytes]
) -> dict[str, RenderedDigest]:
    digests = {}
    for path in changes.render:
        planned = layout.files[path]
        recipe, _ = changes.recipe(planned)
        output = file_renderer.render_file(
            commit.files[planned.source], path, recipe or RenderRecipe()
        )
        staged[path] = output.content
        sha256 = hashlib.sha256(output.content).hexdigest()
        has_system_name = output.system_names > 0
        digests[path] = RenderedDigest(
            sha256, len(output.content), output.transforms, has_system_name
        )
    return digests
