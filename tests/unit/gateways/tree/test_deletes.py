"""What may be deleted, and when a person has to say so first."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.support.gateways.sync_model import Commit, GatewayModel, annotated_pod
from windlass.gateways.tree import plan as plans
from windlass.gateways.tree.deletes import DeleteAllowance, DeletePolicy, DeleteSafety, is_api_token
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire.routing import Routing, RoutingMapping, RoutingProfile, hash_routing


def _gateway(*mapped: tuple[str, str], safety: DeleteSafety | None = None) -> GatewayModel:
    profile = RoutingProfile(tuple(RoutingMapping(source, to) for source, to in mapped))
    return GatewayModel(annotated_pod(), Routing({"default": profile}), safety or DeleteSafety())


def _many(count: int, start: int = 0) -> dict[str, bytes]:
    return {f"s/{number:03}": b"%d" % number for number in range(start, start + count)}


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
    """APP-9: all, ours, or none."""
    gateway = _gateway(("s", "x"), safety=DeleteSafety(policy))
    gateway.sync(Commit({"s/gone": b"1", "s/stays": b"2"}))
    gateway.disk.write("x/extra", b"live")
    done = gateway.sync(Commit({"s/stays": b"2"}))
    assert done.paths("delete") == expected


@pytest.mark.parametrize("policy", ["Mirror", "Manifest", "Never"])
def test_a_root_that_left_the_plan_loses_only_what_is_ours(policy: DeletePolicy) -> None:
    """Whatever the policy; a file of the gateway keeps the directory."""
    gateway = _gateway(("s", "x"), ("t", "y"), ("u", "z/deep"), safety=DeleteSafety(policy))
    gateway.sync(Commit({"s/a": b"1", "t/a": b"2", "u/a": b"3"}))
    gateway.disk.write("y/live", b"live")
    gateway.routing = _gateway(("s", "x")).routing
    done = gateway.sync(Commit({"s/a": b"1", "t/a": b"2", "u/a": b"3"}))
    assert done.steps == [("delete", "y/a"), ("delete", "z/deep/a"), ("rmdir", "z/deep")]


def test_adopted_files_wait_for_a_word_however_few_they_are() -> None:
    """Those of the first sync and of a directory that is managed later; the sync goes on."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit({"s/a": b"1", "t/a": b"2"}))
    gateway.disk.write("y/live", b"live")
    gateway.routing = _gateway(("s", "x"), ("t", "y")).routing
    assert gateway.sync(Commit({"s/a": b"1", "t/a": b"2"})).paths("delete") == []
    gateway.disk.write("y/later", b"made while managed")
    later = Commit({"s/a": b"1", "t/a": b"3"})
    done = gateway.sync(later)
    assert done.steps == [("put", "y/a"), ("delete", "y/later")]
    assert done.plan.guards == ()
    assert done.plan.warnings == (
        "1 file existed before the directory was synced and is kept: y/live. To delete it, "
        f'annotate with ignition-sync.io/allow-mass-delete="{later.id}"; to keep it without this '
        "warning, exclude it",
    )
    gateway.safety = DeleteSafety(allowed=DeleteAllowance(later.id, hash_routing(gateway.routing)))
    assert gateway.sync(later).paths("delete") == ["y/live"]
    assert gateway.manifest is not None
    assert gateway.manifest.adopted == ()


def test_an_adopted_file_is_managed_once_a_commit_brings_it() -> None:
    """From then on Git decides, also that it goes."""
    gateway = _gateway(("s", "x"))
    gateway.disk.write("x/live", b"live")
    gateway.sync(Commit({"s/a": b"1"}))
    gateway.sync(Commit({"s/a": b"1", "s/live": b"2"}))
    assert gateway.sync(Commit({"s/a": b"1"})).paths("delete") == ["x/live"]


def test_excluded_files_are_adopted_too() -> None:
    """An exclude that goes leaves them as they are."""
    gateway = _gateway(("s", "x"))
    profiles = gateway.routing.profiles
    gateway.disk.write("x/live", b"live")
    gateway.routing = Routing(profiles, exclude_patterns=("x/live",))
    assert gateway.sync(Commit({"s/a": b"1"})).plan.warnings == ()
    gateway.routing = Routing(profiles)
    done = gateway.sync(Commit({"s/a": b"2"}))
    assert (done.paths("delete"), len(done.plan.warnings)) == ([], 1)


def test_without_a_record_every_unmanaged_file_counts_as_adopted() -> None:
    """An earlier version wrote the manifest: nobody knows where the file came from."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit({"s/a": b"1", "s/b": b"1"}))
    gateway.disk.write("x/live", b"live")
    assert gateway.manifest is not None
    gateway.manifest = msgspec.structs.replace(gateway.manifest, adopted=None)
    done = gateway.sync(Commit({"s/a": b"2"}))
    assert done.paths("delete") == ["x/b"]
    assert gateway.manifest.adopted == ("x/live",)
    gateway.disk.write("x/later", b"made after the upgrade")
    assert gateway.sync(Commit({"s/a": b"3"})).paths("delete") == ["x/later"]


@pytest.mark.parametrize("policy", ["Manifest", "Never"])
def test_other_policies_delete_no_unmanaged_file_and_say_nothing(policy: DeletePolicy) -> None:
    """There is nothing to wait for."""
    gateway = _gateway(("s", "x"), safety=DeleteSafety(policy))
    gateway.disk.write("x/live", b"live")
    gateway.sync(Commit({"s/a": b"1"}))
    assert gateway.sync(Commit({"s/a": b"2"})).plan.warnings == ()


def test_the_token_we_scan_with_is_never_deleted() -> None:
    """Amendment 7: the gateway made it, and without it no scan works."""
    mine = "config/resources/core/ignition/api-token/windlass/config.json"
    other = "config/resources/core/ignition/api-token/other/config.json"
    gateway = _gateway(("s", "config/resources/core"), safety=DeleteSafety(api_token="windlass"))
    gateway.sync(Commit({"s/a": b"1"}))
    for path in (mine, other):
        gateway.disk.write(path, b"live")
    assert gateway.sync(Commit({"s/a": b"2"})).paths("delete") == [other]
    assert not is_api_token("config/resources/core/ignition/api-token/x", "")
    assert not is_api_token("projects/core/ignition/api-token/windlass", "windlass")


@pytest.mark.scenario("G42")
def test_a_commit_that_deletes_most_files_asks_first() -> None:
    """The message has the count, the first paths and the exact word to say."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit(_many(100)))
    less = Commit(_many(40))
    done = gateway.plan(less)
    assert len(done.paths("delete")) == 60
    with pytest.raises(SyncRefused) as caught:
        plans.check_guards(done.plan)
    assert caught.value.reason == "MassDeleteGuard"
    message = caught.value.message
    assert message.startswith("60 files would be deleted")
    assert "x/040, x/041, x/042, x/043, x/044, ..." in message
    assert f'ignition-sync.io/allow-mass-delete="{less.id}"' in message


def test_the_word_to_say_is_never_cut_off() -> None:
    """However long the paths are, the whole message fits into a report."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit({f"s/{'long/' * 30}{number}": b"%d" % number for number in range(20)}))
    less = Commit({"s/stays": b""})
    with pytest.raises(SyncRefused) as caught:
        plans.check_guards(gateway.plan(less).plan)
    assert len(caught.value.message) <= 512
    assert caught.value.message.endswith(f'allow-mass-delete="{less.id}"')


@pytest.mark.scenario("G42")
def test_the_word_is_good_for_one_commit_and_routing() -> None:
    """An allowance for anything else changes nothing."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit(_many(100)))
    less = Commit(_many(40))
    routed = hash_routing(gateway.routing)
    for allowance in (DeleteAllowance("other", routed), DeleteAllowance(less.id, "other")):
        gateway.safety = replace(gateway.safety, allowed=allowance)
        assert gateway.plan(less).plan.guards
    gateway.safety = replace(gateway.safety, allowed=DeleteAllowance(less.id, routed))
    done = gateway.sync(less)
    assert done.plan.guards == ()
    assert "deletion of 60 files is allowed" in done.plan.warnings[-1]
    assert len(gateway.disk.files) == 40


@pytest.mark.parametrize(
    ("before", "after", "held"), [(40, 30, False), (40, 29, True), (12, 3, False), (12, 2, True)]
)
def test_a_share_counts_from_ten_deletes_on(before: int, after: int, held: bool) -> None:
    """A quarter may go, and a few may go whatever share they are."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit(_many(before)))
    assert bool(gateway.plan(Commit(_many(after))).plan.guards) is held


def test_a_number_counts_whatever_the_share() -> None:
    """MaxDeletes alone holds a small share of a large tree."""
    gateway = _gateway(("s", "x"), safety=DeleteSafety(max_deletes=2))
    gateway.sync(Commit(_many(100)))
    assert not gateway.plan(Commit(_many(98))).plan.guards
    assert (
        "exceeding safety.maxDeletes (2)" in gateway.plan(Commit(_many(97))).plan.guards[0].message
    )


def test_a_managed_directory_does_not_become_empty_by_accident() -> None:
    """Also when its source vanished from the commit; a root taken out of the CR may go."""
    gateway = _gateway(("s", "x"), ("t", "y"))
    gateway.sync(Commit({"s/a": b"1", "t/a": b"2"}))
    assert "leaving y empty" in gateway.plan(Commit({"s/a": b"1"})).plan.guards[0].message
    gateway.routing = Routing(gateway.routing.profiles, exclude_patterns=("y/new",))
    assert gateway.plan(Commit({"s/a": b"1", "t/new": b"3"})).plan.guards != ()
    gateway.routing = _gateway(("s", "x")).routing
    assert gateway.plan(Commit({"s/a": b"1"})).plan.guards == ()


def test_a_move_is_no_delete_but_one_file_hides_one_only() -> None:
    """Equal small files do not explain each other away."""
    gateway = _gateway(("s", "x"), safety=DeleteSafety(max_deletes=5))
    gateway.sync(Commit({**{f"s/old/{n}": b"%d" % n for n in range(20)}, "s/k": b"k"}))
    moved = Commit({**{f"s/new/{n}": b"%d" % n for n in range(20)}, "s/k": b"k"})
    assert gateway.plan(moved).plan.guards == ()
    same = _gateway(("s", "x"), safety=DeleteSafety(max_deletes=5))
    same.sync(Commit({**{f"s/old/{n}": b"" for n in range(20)}, "s/k": b"k"}))
    assert same.plan(Commit({"s/new": b"", "s/k": b"k"})).plan.guards


def test_excluding_a_managed_file_leaves_it_where_it_is() -> None:
    """PRO-2: neither written nor deleted, and no longer ours."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit({"s/a": b"1", "s/b": b"1"}))
    gateway.routing = Routing(gateway.routing.profiles, exclude_patterns=("x/a",))
    assert gateway.sync(Commit({"s/a": b"2", "s/b": b"1"})).steps == []
    assert gateway.disk.files["x/a"] == b"1"
    assert gateway.manifest is not None
    assert "x/a" not in gateway.manifest.files
