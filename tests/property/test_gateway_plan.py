"""A plan produces exactly the layout, whatever is committed, mapped and on the disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.gateways.sync_model import (
    Commit,
    DiskModel,
    GatewayModel,
    SyncResult,
    annotated_pod,
)
from tests.support.strategies.batched import balanced_column, rows
from windlass.gateways.tree import live_tree as live_trees
from windlass.gateways.tree import manifest as manifests
from windlass.gateways.tree import plan as plans
from windlass.gateways.tree.deletes import DeleteAllowance, DeletePolicy, DeleteSafety
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.path_rules import SyncRefused, is_protected, parents
from windlass.gateways.wire.routing import (
    NormalizeRules,
    Routing,
    RoutingMapping,
    RoutingProfile,
    hash_routing,
)

FOLDERS = ("a", "b", "x", "projects")
NAMES = (*FOLDERS, "config.json", "resource.json", "db", ".resources", "skip")
TREES = [["/".join(parts) for parts in product(*[FOLDERS] * depth, NAMES)] for depth in range(3)]
CONTENTS = (
    b"",
    b"1",
    b'{"systemName":"n"}',
    b'{"attributes":{"lastModificationSignature":"s"}}',
    b"{}",
)
SOURCES = (".", "a", "b", "projects", "x/a")
DESTINATIONS = (".", "a", "a/", "x/b", "projects", "./projects/", "x")
policies: st.SearchStrategy[DeletePolicy] = st.sampled_from(["Mirror", "Manifest", "Never"])
EXCLUDED = "**/skip"
EXCLUDING = GlobSet([EXCLUDED])


def _clean(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """A tree cannot have a file and a directory of one name."""
    folders = {folder for path in files for folder in parents(path)}
    return {path: content for path, content in files.items() if path not in folders}


def _routing(drawn: list[tuple[str, str, bool]]) -> Routing:
    return Routing(
        profiles={
            "default": RoutingProfile(mappings=tuple(RoutingMapping(*row[:2]) for row in drawn))
        },
        exclude_patterns=(EXCLUDED,),
        normalize=NormalizeRules(system_name=drawn[0][2]),
    )


file_sets = rows(balanced_column(*TREES), CONTENTS, max_size=12).map(dict).map(_clean)
routings = rows(SOURCES, DESTINATIONS, [False, True], min_size=1, max_size=3).map(_routing)


def _gateway(routing: Routing, policy: DeletePolicy, existing: Mapping[str, bytes]) -> GatewayModel:
    disk = DiskModel()
    for path, content in existing.items():
        disk.write(path, content)
    return GatewayModel(annotated_pod(), routing, DeleteSafety(policy), disk)


def _sync_or_none(gateway: GatewayModel, commit: Commit) -> SyncResult | None:
    """One sync that may empty its roots; None if it was refused and changed nothing."""
    before = dict(gateway.disk.stats), set(gateway.disk.directories)
    allowed = DeleteAllowance(commit.id, hash_routing(gateway.routing), None)
    gateway.safety = replace(gateway.safety, allowed=allowed)
    try:
        return gateway.sync(commit)
    except SyncRefused:
        assert before == (gateway.disk.stats, gateway.disk.directories)
        return None


def _plan_or_refusal(gateway: GatewayModel, commit: Commit) -> bytes:
    """The plan as text, or the refusal."""
    try:
        return plans.to_json(gateway.plan(commit).plan)
    except SyncRefused as refused:
        return str(refused).encode()


def _is_excluded(path: str) -> bool:
    return is_protected(path) or EXCLUDING.match(path) is not None


@settings(deadline=None)
@given(routings, policies, file_sets, st.lists(file_sets, min_size=1, max_size=4))
def test_a_sync_produces_exactly_the_layout(
    routing: Routing,
    policy: DeletePolicy,
    existing: dict[str, bytes],
    commits: list[dict[str, bytes]],
) -> None:
    """Planned paths have their content; other files in managed directories follow the policy."""
    gateway = _gateway(routing, policy, existing)
    for files in commits:
        manifest, before = gateway.manifest, dict(gateway.disk.files)
        result = _sync_or_none(gateway, Commit(files))
        if result is None:
            continue
        after = gateway.disk.files
        for path, planned in result.layout.files.items():
            assert after[path] == result.staged.get(path, before.get(path))
            assert not _is_excluded(path)
            assert planned.blob
        deleted = before.keys() - after.keys()
        manifest_files = manifest.files.keys() if manifest is not None else set()
        managed = result.layout.managed_directories
        for path in deleted:
            inside = live_trees.is_within(path, managed)
            assert path in manifest_files or (
                inside and manifest is not None and policy == "Mirror"
            )
        if policy == "Mirror" and manifest is not None:
            mirrored = managed.intersection(manifest.directories)
            remaining = {path for path in after if live_trees.is_within(path, mirrored)}
            assert (
                not {path for path in remaining if not _is_excluded(path)}
                - result.layout.files.keys()
            )


@settings(deadline=None)
@given(routings, policies, file_sets, st.lists(file_sets, min_size=1, max_size=4))
def test_unmanaged_files_are_unchanged(
    routing: Routing,
    policy: DeletePolicy,
    existing: dict[str, bytes],
    commits: list[dict[str, bytes]],
) -> None:
    """Excluded and protected files and everything outside roots keep bytes and times."""
    gateway = _gateway(routing, policy, existing)
    before = dict(gateway.disk.stats)
    managed: set[str] = set()
    single: set[str] = set()
    for files in commits:
        result = _sync_or_none(gateway, Commit(files))
        if result is not None:
            managed |= result.layout.managed_directories
            single |= {root.path for root in result.layout.roots}
    for path, stat in before.items():
        inside = path in single or live_trees.is_within(path, frozenset(managed))
        if _is_excluded(path) or not inside:
            assert gateway.disk.stats[path] == stat


@settings(deadline=None)
@given(routings, policies, file_sets, file_sets)
def test_the_first_sync_deletes_nothing(
    routing: Routing, policy: DeletePolicy, existing: dict[str, bytes], files: dict[str, bytes]
) -> None:
    """Adoption only adds and overwrites."""
    gateway = _gateway(routing, policy, existing)
    result = _sync_or_none(gateway, Commit(files))
    assume(result is not None)
    assert result is not None
    assert not {"delete", "rmdir"} & {op.op for op in result.plan.ops}


@settings(deadline=None)
@given(routings, policies, file_sets, st.lists(file_sets, min_size=1, max_size=4))
def test_existing_files_are_deleted_only_with_an_allowance(
    routing: Routing,
    policy: DeletePolicy,
    existing: dict[str, bytes],
    commits: list[dict[str, bytes]],
) -> None:
    """Unless a commit contained the file, no later one deletes it."""
    gateway = _gateway(routing, policy, existing)
    committed: set[str] = set()
    for files in commits:
        try:
            result = gateway.sync(Commit(files))
        except SyncRefused:
            continue
        committed |= result.layout.files.keys()
        assert existing.keys() - committed <= gateway.disk.files.keys()


@settings(deadline=None)
@given(routings, file_sets, st.lists(file_sets, min_size=1, max_size=4), file_sets)
def test_an_allowance_deletes_no_existing_file_that_it_does_not_name(
    routing: Routing,
    existing: dict[str, bytes],
    commits: list[dict[str, bytes]],
    named: dict[str, bytes],
) -> None:
    """However often commits are synced with it; unless a commit contained the file."""
    gateway = _gateway(routing, "Mirror", existing)
    committed: set[str] = set()
    for files in (files for files in commits for _ in range(2)):
        commit = Commit(files)
        allowed = DeleteAllowance(commit.id, hash_routing(gateway.routing), frozenset(named))
        gateway.safety = replace(gateway.safety, allowed=allowed)
        try:
            result = gateway.sync(commit)
        except SyncRefused:
            continue
        committed |= result.layout.files.keys()
        assert existing.keys() - committed - named.keys() <= gateway.disk.files.keys()


@settings(deadline=None)
@given(routings, policies, file_sets, st.lists(file_sets, min_size=1, max_size=3))
def test_a_second_sync_has_nothing_to_do(
    routing: Routing,
    policy: DeletePolicy,
    existing: dict[str, bytes],
    commits: list[dict[str, bytes]],
) -> None:
    """After a sync the same commit needs no render and, once adopted, no step."""
    gateway = _gateway(routing, policy, existing)
    for files in commits:
        if _sync_or_none(gateway, Commit(files)) is None:
            continue
        second = _sync_or_none(gateway, Commit(files))
        assert second is not None
        assert second.changes.render == ()
        assert {op.op for op in second.plan.ops} <= {"delete", "rmdir"}
        third = gateway.plan(Commit(files))
        assert third.plan.ops == ()
        assert third.plan.scans == ()


@settings(deadline=None)
@given(routings, file_sets, file_sets, rows(range(64), [None, *CONTENTS], max_size=40))
def test_manual_edits_are_reverted(
    routing: Routing,
    files: dict[str, bytes],
    later: dict[str, bytes],
    edits: list[tuple[int, bytes | None]],
) -> None:
    """The next sync of any commit restores all managed files."""
    gateway = _gateway(routing, "Mirror", {})
    assume(_sync_or_none(gateway, Commit(files)) is not None)
    synced = sorted(gateway.disk.files)
    for path, content in {
        synced[number % len(synced)]: text for number, text in edits if synced
    }.items():
        if content is not None:
            gateway.disk.replace(path, content)
        else:
            del gateway.disk.files[path], gateway.disk.stats[path]
    edited = _sync_or_none(gateway, Commit(later))
    fresh = _gateway(routing, "Mirror", {})
    expected = _sync_or_none(fresh, Commit(later))
    if edited is not None and expected is not None:
        assert gateway.disk.files == fresh.disk.files


@settings(deadline=None)
@given(routings, file_sets, file_sets, file_sets)
def test_equal_inputs_give_equal_plans(
    routing: Routing,
    existing: dict[str, bytes],
    first_files: dict[str, bytes],
    second_files: dict[str, bytes],
) -> None:
    """The order of files in a listing or manifest changes no byte of a plan."""
    gateway = _gateway(routing, "Mirror", existing)
    assume(_sync_or_none(gateway, Commit(first_files)) is not None)
    first = _plan_or_refusal(gateway, Commit(second_files))
    assert gateway.manifest is not None
    gateway.manifest = manifests.decode(manifests.encode(gateway.manifest))
    assert _plan_or_refusal(gateway, Commit(dict(reversed(second_files.items())))) == first


@settings(deadline=None)
@given(file_sets, st.sampled_from(["moved", "elsewhere/deep"]))
def test_a_move_is_not_a_delete(files: dict[str, bytes], folder: str) -> None:
    """A tree that moves as a whole within its root passes the strictest guard."""
    committed = {f"s/projects/{path}": content for path, content in files.items()}
    assume(committed and not any(is_protected(path) for path in committed))
    gateway = GatewayModel(
        annotated_pod(service_path="s"), safety=DeleteSafety(max_deletes=1, max_delete_percent=1)
    )
    assume(_sync_or_none(gateway, Commit({**committed, "s/projects/stays": b"?"})) is not None)
    moved = {
        path.replace("projects/", f"projects/{folder}/", 1): committed[path] for path in committed
    }
    result = gateway.plan(Commit({**moved, "s/projects/stays": b"?"}))
    assert result.plan.guards == ()
