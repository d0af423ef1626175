"""When hooks of a chart are applied."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.support.environments import manifests as written
from tests.support.environments.manifests import OWNER, TARGET
from windlass.environments import inventory as ledgers
from windlass.environments.bundle import bundle as bundles
from windlass.environments.bundle import hooks
from windlass.environments.bundle.bundle import HOOK_OF, Bundle
from windlass.environments.inventory import ReleaseState, is_finished, ran_for_earlier_revision
from windlass.environments.render.manifests import ManifestObject
from windlass.objects.names import Object

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


def _hook(name: str, events: str, weight: str = "0") -> Object:
    obj = written.job(name)
    obj["metadata"]["annotations"] = {
        hooks.HOOK_ANNOTATION: events,
        hooks.WEIGHT_ANNOTATION: weight,
    }
    return obj


def _bundle(*objects: Object, team: str = "") -> Bundle:
    target = replace(TARGET, owner=replace(OWNER, team=team or OWNER.team))
    return bundles.build_bundle(
        [ManifestObject(obj, "x", hooks.parse_hook(obj)) for obj in objects], target
    )


def _names(bundle: Bundle, when: hooks.HookPhase, *, is_upgrade: bool) -> list[str]:
    return [member.name for member in bundle.hooks_at(when, is_upgrade=is_upgrade)]


@pytest.mark.parametrize(
    ("events", "install", "upgrade"),
    [
        ("pre-install", "preDeploy", None),
        ("pre-install,pre-upgrade", "preDeploy", "preDeploy"),
        (" Post-Install , pre-upgrade", "postDeploy", "preDeploy"),
        ("post-upgrade", None, "postDeploy"),
        ("pre-delete,post-install", "postDeploy", None),
    ],
)
def test_a_job_runs_at_its_moment(events: str, install: str | None, upgrade: str | None) -> None:
    """Install is the first revision, upgrade every later one."""
    hook = hooks.parse_hook(_hook("a", events))
    assert hook is not None
    assert (hook.at_install, hook.at_upgrade) == (install, upgrade)


def test_hooks_run_by_weight_then_by_name() -> None:
    """A weight that is no number counts as none, as helm has it."""
    rows = [("d", "1"), ("c", "x"), ("b", "-5"), ("a", "10"), ("e", "0")]
    bundle = _bundle(written.deployment(), *(_hook(name, "pre-install", w) for name, w in rows))
    assert _names(bundle, "preDeploy", is_upgrade=False) == ["b", "c", "e", "d", "a"]
    assert _names(bundle, "preDeploy", is_upgrade=True) == []
    assert _names(bundle, "postDeploy", is_upgrade=False) == []
    assert [member.name for member in bundle.members] == ["web"]


def test_hooks_that_never_run_are_left_out_and_named() -> None:
    """Tests, deletions and rollbacks; and one Job cannot run twice in one revision."""
    for event in ("test", "pre-delete", "post-rollback", "test-success", "made-up"):
        obj = _hook("a", event)
        assert hooks.is_skipped(obj)
        assert list(hooks.skipped_hooks(obj)) == [f"Job/a is not run as a {event} hook"]
    both = _hook("a", "pre-install,pre-delete")
    assert not hooks.is_skipped(both)
    assert list(hooks.skipped_hooks(both)) == ["Job/a is not run as a pre-delete hook"]
    twice = list(hooks.skipped_hooks(_hook("a", "post-install,pre-install")))
    assert twice == [
        "Job/a is not run as a post-install hook, because it runs as a pre-install hook"
    ]
    plain = written.deployment()
    assert not hooks.is_skipped(plain)
    assert list(hooks.skipped_hooks(plain)) == []


def _map(name: str, events: str, weight: str = "0", kind: str = "ConfigMap") -> Object:
    obj = written.make_object("v1", kind, name, data={})
    obj["metadata"]["annotations"] = {
        hooks.HOOK_ANNOTATION: events,
        hooks.WEIGHT_ANNOTATION: weight,
    }
    return obj


def test_hooks_of_other_kinds_are_ordered_too() -> None:
    """At one weight, objects that Jobs and Pods may need come first; later weights come later."""
    pod = written.make_object("v1", "Pod", "b", spec=written.pod_spec())
    pod["metadata"]["annotations"] = {hooks.HOOK_ANNOTATION: "pre-install"}
    bundle = _bundle(
        _hook("a", "pre-install"),
        pod,
        _map("z", "pre-install"),
        _map("y", "pre-install", kind="Secret"),
        _map("late", "pre-install", "1"),
        _map("other", "post-upgrade"),
        written.deployment(),
    )
    assert _names(bundle, "preDeploy", is_upgrade=False) == ["z", "y", "a", "b", "late"]
    assert _names(bundle, "postDeploy", is_upgrade=True) == ["other"]
    assert [member.name for member in bundle.members] == ["web"]
    broken = written.make_object("v1", "ConfigMap", "a", metadata={"name": "a", "annotations": [1]})
    assert hooks.parse_hook(broken) is None


def test_a_hook_pod_is_recreated_and_a_config_map_is_not() -> None:
    """Jobs and Pods run for one revision; the rest is applied in place."""
    pod = written.make_object("v1", "Pod", "a", spec=written.pod_spec())
    pod["metadata"]["annotations"] = {hooks.HOOK_ANNOTATION: "pre-upgrade"}
    plain = _map("m", "pre-upgrade")
    first, second = _bundle(pod, plain, written.deployment()), _bundle(pod, plain)
    (old, ran), (new, runs) = first.hooks, second.hooks
    assert (old.name, ran.name) == ("m", "a")
    assert ran.object["metadata"]["annotations"][HOOK_OF] == first.digest[:16]
    assert runs.applied_hash != ran.applied_hash
    assert new.applied_hash == old.applied_hash


def test_a_hook_is_another_job_in_every_other_bundle() -> None:
    """Any change runs it again; another team, or the same bundle again, does not."""
    hook = _hook("a", "pre-install,pre-upgrade")
    hook["spec"]["ttlSecondsAfterFinished"] = 0
    first, same = _bundle(hook, written.deployment()), _bundle(hook, written.deployment())
    moved, new = _bundle(hook, written.deployment(), team="b"), _bundle(hook, written.service())
    (one,) = first.hooks
    assert one.object["spec"]["template"]["metadata"]["annotations"][HOOK_OF] == first.digest[:16]
    assert "ttlSecondsAfterFinished" not in one.object["spec"]
    assert same == first
    assert moved.digest == first.digest
    assert moved.hooks[0].applied_hash == one.applied_hash
    assert new.hooks[0].applied_hash != one.applied_hash


def test_a_hook_that_ended_is_done_in_its_revision_alone() -> None:
    """The ledger knows it, with its uid; the next revision is an upgrade once one was ready."""
    hook = _hook("a", "pre-install,pre-upgrade")
    first, second = _bundle(hook, written.deployment()), _bundle(hook, written.service())
    begun = ledgers.begin_revision(ReleaseState(), first, NOW)
    (member,) = first.hooks
    live = {**member.object, "metadata": {**member.object["metadata"], "uid": "u"}}
    ended = {(member.gvr.group, member.kind, member.name): member.applied_hash}
    noted = ledgers.record_hook_end(begun, live, ended)
    assert is_finished(noted.inventory, member)
    assert ("a", "u") in {(entry.name, entry.uid) for entry in noted.inventory}
    assert not is_finished(noted.inventory, second.hooks[0])
    assert not ledgers.begin_revision(noted, second, NOW).revision.is_upgrade
    ready = ledgers.record_rollout(noted, {}, is_ready=True, now=NOW)
    assert not ready.revision.is_upgrade
    later = ledgers.begin_revision(ready, second, NOW)
    assert later.revision.is_upgrade
    back = ledgers.begin_revision(later, first, NOW)
    assert back.revision.is_upgrade
    assert not is_finished(back.inventory, member)
    assert ran_for_earlier_revision(back.inventory, live)
    recreated = {**live, "metadata": {**live["metadata"], "uid": "v"}}
    assert not ran_for_earlier_revision(back.inventory, recreated)
    assert not ran_for_earlier_revision(
        ledgers.record_hook_end(back, recreated, ended).inventory, recreated
    )
    assert not ran_for_earlier_revision(noted.inventory, live)
    assert is_finished(ledgers.begin_revision(ready, first, NOW).inventory, member)
