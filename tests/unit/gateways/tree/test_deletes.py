"""Which files may be deleted, and when an operator has to allow it first."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.support.gateways.sync_model import Commit, GatewayModel, annotated_pod
from windlass.gateways.tree import plan as plans
from windlass.gateways.tree.deletes import (
    DeleteAllowance,
    DeletePolicy,
    DeleteSafety,
    is_api_token,
    is_kept_token,
)
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire.routing import Routing, RoutingMapping, RoutingProfile, hash_routing


def _gateway(*mapped: tuple[str, str], safety: DeleteSafety | None = None) -> GatewayModel:
    profile = RoutingProfile(tuple(RoutingMapping(source, to) for source, to in mapped))
    return GatewayModel(annotated_pod(), Routing({"default": profile}), safety or DeleteSafety())


def _allowing(gateway: GatewayModel, commit: Commit, *adopted: str) -> DeleteSafety:
    """The gateway's rules with an allowance for a commit and the adopted files."""
    allowed = DeleteAllowance(commit.id, hash_routing(gateway.routing), frozenset(adopted))
    return replace(gateway.safety, allowed=allowed)


def _many(count: int, start: int = 0) -> dict[str, bytes]:
    return {f"s/{index:03}": b"%d" % index for index in range(start, start + count)}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("Mirror", ["x/extra", "x/gone"]),
        ("Manifest", ["x/gone"]),
        ("Never", []),
    ],
)
def test_the_policy_decides_in_managed_directories(
    policy: DeletePolicy, expected: list[str]
) -> None:
    """APP-9: all files, only managed ones, or none."""
    gateway = _gateway(("s", "x"), safety=DeleteSafety(policy))
    gateway.sync(Commit({"s/gone": b"1", "s/stays": b"2"}))
    gateway.disk.write("x/extra", b"live")
    result = gateway.sync(Commit({"s/stays": b"2"}))
    assert result.paths("delete") == expected


@pytest.mark.parametrize("policy", ["Mirror", "Manifest", "Never"])
def test_a_removed_root_loses_only_managed_files(policy: DeletePolicy) -> None:
    """Under every policy; a file of the gateway keeps the directory."""
    gateway = _gateway(("s", "x"), ("t", "y"), ("u", "z/deep"), safety=DeleteSafety(policy))
    gateway.sync(Commit({"s/a": b"1", "t/a": b"2", "u/a": b"3"}))
    gateway.disk.write("y/live", b"live")
    gateway.routing = _gateway(("s", "x")).routing
    result = gateway.sync(Commit({"s/a": b"1", "t/a": b"2", "u/a": b"3"}))
    assert result.steps == [("delete", "y/a"), ("delete", "z/deep/a"), ("rmdir", "z/deep")]


def test_adopted_files_are_deleted_only_with_an_allowance() -> None:
    """At the first sync and in a directory managed later; the sync continues."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit({"s/a": b"1", "t/a": b"2"}))
    gateway.disk.write("y/live", b"live")
    gateway.routing = _gateway(("s", "x"), ("t", "y")).routing
    assert gateway.sync(Commit({"s/a": b"1", "t/a": b"2"})).paths("delete") == []
    gateway.disk.write("y/later", b"made while managed")
    later = Commit({"s/a": b"1", "t/a": b"3"})
    result = gateway.sync(later)
    assert result.steps == [("put", "y/a"), ("delete", "y/later")]
    assert result.plan.guards == ()
    assert result.plan.warnings == (
        "1 file existed before the directory was synced and is kept: y/live. To delete it, "
        f'annotate with ignition-sync.io/allow-mass-delete="{later.id}"; to keep it without this '
        "warning, exclude it",
    )
    gateway.safety = _allowing(gateway, later, "y/live")
    assert gateway.sync(later).paths("delete") == ["y/live"]
    assert gateway.manifest is not None
    assert gateway.manifest.adopted == ()


def test_an_allowance_covers_the_adopted_files_that_it_names() -> None:
    """Others stay; the annotation names the commit already, so it has to be set once more."""
    gateway = _gateway(("s", "x"))
    commit = Commit({"s/a": b"1"})
    for name in ("asked", "later"):
        gateway.disk.write(f"x/{name}", b"live")
    gateway.sync(commit)
    gateway.safety = _allowing(gateway, commit, "x/asked")
    result = gateway.sync(commit)
    assert result.paths("delete") == ["x/asked"]
    assert result.plan.warnings == (
        "1 file existed before the directory was synced and is kept: x/later. To delete it, "
        "remove ignition-sync.io/allow-mass-delete, which was set before this message, wait until "
        "it changes, and set it again; to keep it without this warning, exclude it",
    )


def test_an_allowance_deletes_nothing_in_a_directory_that_becomes_managed() -> None:
    """Also one for all adopted files: nobody has seen yet which these are."""
    gateway = _gateway(("s", "x"))
    commit = Commit({"s/a": b"1"})
    gateway.disk.write("x/live", b"live")
    gateway.safety = DeleteSafety(
        allowed=DeleteAllowance(commit.id, hash_routing(gateway.routing), None)
    )
    result = gateway.sync(commit)
    assert result.paths("delete") == []
    assert (
        f'annotate with ignition-sync.io/allow-mass-delete="{commit.id}"'
        in (result.plan.warnings[0])
    )
    assert gateway.sync(commit).paths("delete") == ["x/live"]


def test_the_guard_names_the_adopted_files_that_its_allowance_deletes() -> None:
    """Not those of a directory that becomes managed: no allowance deletes them in this sync."""
    gateway = _gateway(("s", "x"))
    for number in range(3):
        gateway.disk.write(f"x/live{number}", b"live")
    gateway.disk.write("y/live", b"live")
    gateway.sync(Commit({**_many(40), "t/a": b""}))
    gateway.routing = _gateway(("s", "x"), ("t", "y")).routing
    smaller = Commit({**_many(10), "t/a": b""})
    (guard,) = gateway.plan(smaller).plan.guards
    assert guard.adopted == ("x/live0", "x/live1", "x/live2")
    assert guard.message == (
        "30 files would be deleted, exceeding spec.safety.maxDeletePercent (25) of 40 managed "
        "files: x/010, x/011, x/012, ..., and 3 files from before the directory was synced: "
        "x/live0, .... To allow it, annotate with "
        f'ignition-sync.io/allow-mass-delete="{smaller.id}"'
    )
    gateway.safety = _allowing(gateway, smaller, *guard.adopted)
    deleted = gateway.sync(smaller).paths("delete")
    assert len(deleted) == 33
    assert "y/live" in gateway.disk.files


def test_an_adopted_file_is_managed_once_a_commit_contains_it() -> None:
    """From then on Git decides, also about its deletion."""
    gateway = _gateway(("s", "x"))
    gateway.disk.write("x/live", b"live")
    gateway.sync(Commit({"s/a": b"1"}))
    gateway.sync(Commit({"s/a": b"1", "s/live": b"2"}))
    assert gateway.sync(Commit({"s/a": b"1"})).paths("delete") == ["x/live"]


def test_excluded_files_are_adopted_too() -> None:
    """Removing the exclude leaves them unchanged."""
    gateway = _gateway(("s", "x"))
    profiles = gateway.routing.profiles
    gateway.disk.write("x/live", b"live")
    gateway.routing = Routing(profiles, exclude_patterns=("x/live",))
    assert gateway.sync(Commit({"s/a": b"1"})).plan.warnings == ()
    gateway.routing = Routing(profiles)
    result = gateway.sync(Commit({"s/a": b"2"}))
    assert (result.paths("delete"), len(result.plan.warnings)) == ([], 1)


def test_without_a_record_every_unmanaged_file_counts_as_adopted() -> None:
    """An earlier version wrote the manifest, so the origin of the file is unknown."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit({"s/a": b"1", "s/b": b"1"}))
    gateway.disk.write("x/live", b"live")
    assert gateway.manifest is not None
    gateway.manifest = msgspec.structs.replace(gateway.manifest, adopted=None)
    result = gateway.sync(Commit({"s/a": b"2"}))
    assert result.paths("delete") == ["x/b"]
    assert gateway.manifest.adopted == ("x/live",)
    gateway.disk.write("x/later", b"made after the upgrade")
    assert gateway.sync(Commit({"s/a": b"3"})).paths("delete") == ["x/later"]


@pytest.mark.parametrize("policy", ["Manifest", "Never"])
def test_other_policies_delete_no_unmanaged_file_without_a_warning(policy: DeletePolicy) -> None:
    """No allowance is needed."""
    gateway = _gateway(("s", "x"), safety=DeleteSafety(policy))
    gateway.disk.write("x/live", b"live")
    gateway.sync(Commit({"s/a": b"1"}))
    assert gateway.sync(Commit({"s/a": b"2"})).plan.warnings == ()


def test_the_api_token_of_the_agent_is_never_deleted() -> None:
    """Amendment 7: the gateway created it, and scans need it."""
    own_token = "config/resources/core/ignition/api-token/windlass/config.json"
    other_token = "config/resources/core/ignition/api-token/other/config.json"
    gateway = _gateway(("s", "config/resources/core"), safety=DeleteSafety(api_token="windlass"))
    gateway.sync(Commit({"s/a": b"1"}))
    for path in (own_token, other_token):
        gateway.disk.write(path, b"live")
    assert gateway.sync(Commit({"s/a": b"2"})).paths("delete") == [other_token]
    assert not is_api_token("config/resources/core/ignition/api-token/x", "")
    assert not is_api_token("projects/core/ignition/api-token/windlass", "windlass")


def test_every_token_of_the_gateway_is_kept_while_the_name_to_scan_with_is_unknown() -> None:
    """Any of them may be the one that scans need; other files are deleted as ever."""
    token = "config/resources/core/ignition/api-token/agent/config.json"
    extra = "config/resources/core/ignition/props/config.json"
    gateway = _gateway(("s", "config/resources/core"))
    gateway.sync(Commit({"s/a": b"1"}))
    for path in (token, extra):
        gateway.disk.write(path, b"live")
    assert gateway.sync(Commit({"s/a": b"2"})).paths("delete") == [extra]


def test_git_revokes_a_token_also_while_the_name_to_scan_with_is_unknown() -> None:
    """A token that a commit brought and a later one dropped is deleted."""
    gateway = _gateway(("s", "config/resources/core"))
    gateway.sync(Commit({"s/a": b"1", "s/ignition/api-token/old/config.json": b"2"}))
    deleted = gateway.sync(Commit({"s/a": b"1"})).paths("delete")
    assert deleted == ["config/resources/core/ignition/api-token/old/config.json"]


def test_an_adopted_token_needs_no_confirmation_while_the_name_to_scan_with_is_unknown() -> None:
    """No allowance deletes it, so no warning asks for one."""
    token = "config/resources/core/ignition/api-token/agent/config.json"
    gateway = _gateway(("s", "config/resources/core"))
    gateway.disk.write(token, b"live")
    assert gateway.sync(Commit({"s/a": b"1"})).plan.warnings == ()


@pytest.mark.parametrize(
    "path",
    [
        "projects/core/ignition/api-token/agent/config.json",
        "config/resources/core/ignition/api-token",
        "config/resources/core/other/api-token/agent/config.json",
    ],
)
def test_only_files_of_token_resources_are_kept_without_a_name(path: str) -> None:
    """The folder of the tokens in a collection, and nothing that merely looks like it."""
    assert is_kept_token("config/resources/external/ignition/api-token/agent/config.json", "")
    assert not is_kept_token(path, "")


@pytest.mark.scenario("G42")
def test_a_commit_that_deletes_most_files_needs_an_allowance() -> None:
    """The message has the count, the first paths and the exact annotation."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit(_many(100)))
    smaller = Commit(_many(40))
    result = gateway.plan(smaller)
    assert len(result.paths("delete")) == 60
    with pytest.raises(SyncRefused) as caught:
        plans.check_guards(result.plan)
    assert caught.value.reason == "MassDeleteGuard"
    message = caught.value.message
    assert message.startswith("60 files would be deleted")
    assert "x/040, x/041, x/042, x/043, x/044, ..." in message
    assert f'ignition-sync.io/allow-mass-delete="{smaller.id}"' in message


def test_the_annotation_in_the_message_is_never_truncated() -> None:
    """However long the paths are, the whole message fits into a report."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit({f"s/{'long/' * 30}{number}": b"%d" % number for number in range(20)}))
    smaller = Commit({"s/stays": b""})
    with pytest.raises(SyncRefused) as caught:
        plans.check_guards(gateway.plan(smaller).plan)
    assert len(caught.value.message) <= 512
    assert caught.value.message.endswith(f'allow-mass-delete="{smaller.id}"')


@pytest.mark.parametrize("is_early", [False, True])
def test_no_message_about_adopted_files_is_truncated(*, is_early: bool) -> None:
    """Neither that of the guard nor the warning, with as many and as long paths as there may be."""
    gateway = _gateway(("s", "x"))
    paths = [f"{'long/' * 30}{number}" for number in range(20)]
    for path in paths:
        gateway.disk.write(f"x/{path}-live", b"live")
    gateway.sync(Commit({f"s/{path}": b"%d" % index for index, path in enumerate(paths)}))
    smaller = Commit({"s/stays": b""})
    if is_early:
        allowed = DeleteAllowance(smaller.id, "other", frozenset())
        gateway.safety = replace(gateway.safety, allowed=allowed)
    result = gateway.plan(smaller)
    (guard,) = result.plan.guards
    ending = "set it again" if is_early else f'allow-mass-delete="{smaller.id}"'
    assert guard.message.endswith(ending)
    # Room for numbers of seven digits instead of two.
    for message in (guard.message, *result.plan.warnings):
        assert len(message) + 3 * 5 <= 512


@pytest.mark.scenario("G42")
def test_an_allowance_is_valid_for_one_commit_and_routing() -> None:
    """An allowance for another commit or routing has no effect."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit(_many(100)))
    smaller = Commit(_many(40))
    routing_hash = hash_routing(gateway.routing)
    for commit, routing in (("other", routing_hash), (smaller.id, "other")):
        allowance = DeleteAllowance(commit, routing, None)
        gateway.safety = replace(gateway.safety, allowed=allowance)
        assert gateway.plan(smaller).plan.guards
    gateway.safety = _allowing(gateway, smaller)
    result = gateway.sync(smaller)
    assert result.plan.guards == ()
    assert "deletion of 60 files is allowed" in result.plan.warnings[-1]
    assert len(gateway.disk.files) == 40


@pytest.mark.parametrize(
    ("before", "after", "is_guarded"),
    [(40, 30, False), (40, 29, True), (12, 3, False), (12, 2, True)],
)
def test_the_share_applies_from_ten_deletes(before: int, after: int, is_guarded: bool) -> None:
    """A quarter may be deleted, and a few files whatever their share."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit(_many(before)))
    assert bool(gateway.plan(Commit(_many(after))).plan.guards) is is_guarded


def test_max_deletes_applies_whatever_the_share() -> None:
    """It blocks even a small share of a large tree."""
    gateway = _gateway(("s", "x"), safety=DeleteSafety(max_deletes=2))
    gateway.sync(Commit(_many(100)))
    assert not gateway.plan(Commit(_many(98))).plan.guards
    (guard,) = gateway.plan(Commit(_many(97))).plan.guards
    assert "exceeding spec.safety.maxDeletes (2)" in guard.message


def test_emptying_a_managed_directory_is_guarded() -> None:
    """Also if its source is missing in the commit; a root removed from the CR may be emptied."""
    gateway = _gateway(("s", "x"), ("t", "y"))
    gateway.sync(Commit({"s/a": b"1", "t/a": b"2"}))
    assert "leaving y empty" in gateway.plan(Commit({"s/a": b"1"})).plan.guards[0].message
    gateway.routing = Routing(gateway.routing.profiles, exclude_patterns=("y/new",))
    assert gateway.plan(Commit({"s/a": b"1", "t/new": b"3"})).plan.guards != ()
    gateway.routing = _gateway(("s", "x")).routing
    assert gateway.plan(Commit({"s/a": b"1"})).plan.guards == ()


def test_a_move_is_not_a_delete() -> None:
    """But one new file accounts for one deleted file of equal content only."""
    gateway = _gateway(("s", "x"), safety=DeleteSafety(max_deletes=5))
    gateway.sync(Commit({**{f"s/old/{n}": b"%d" % n for n in range(20)}, "s/k": b"k"}))
    moved = Commit({**{f"s/new/{n}": b"%d" % n for n in range(20)}, "s/k": b"k"})
    assert gateway.plan(moved).plan.guards == ()
    equal_files = _gateway(("s", "x"), safety=DeleteSafety(max_deletes=5))
    equal_files.sync(Commit({**{f"s/old/{n}": b"" for n in range(20)}, "s/k": b"k"}))
    assert equal_files.plan(Commit({"s/new": b"", "s/k": b"k"})).plan.guards


def test_excluding_a_managed_file_keeps_it() -> None:
    """PRO-2: neither written nor deleted, and no longer managed."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit({"s/a": b"1", "s/b": b"1"}))
    gateway.routing = Routing(gateway.routing.profiles, exclude_patterns=("x/a",))
    assert gateway.sync(Commit({"s/a": b"2", "s/b": b"1"})).steps == []
    assert gateway.disk.files["x/a"] == b"1"
    assert gateway.manifest is not None
    assert "x/a" not in gateway.manifest.files
