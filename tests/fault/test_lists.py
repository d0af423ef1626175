"""Lists that break, are wrong or expire, through a proxy that the whole operator uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fault import history
from tests.fault.candidate import Candidate, operator_kubeconfig
from tests.fault.conftest import FLAGS
from tests.fault.running_proxy import EmptyList, RunningProxy, running_proxy
from tests.support.kube.watch_proxy import (
    ConnectionDrop,
    ProxiedRequest,
    ProxyResponse,
    StreamFault,
)
from tests.support.processes.operator import eventually
from tests.support.reverser.api_users import admin_user
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

RULE = {"resources": ["configmaps", "services"]}
DENIED = "TypeForbidden"
EXPIRED = ProxyResponse(410, "too old resource version: 1 (2)", "Expired")

Match = Callable[[ProxiedRequest], bool]


@pytest.fixture(scope="module")
def api_proxy(
    fault_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningProxy]:
    """The proxy between the operator of this file and the API server."""
    with running_proxy(
        operator_kubeconfig(fault_cluster), tmp_path_factory.mktemp("proxy")
    ) as started:
        yield started


@pytest.fixture(scope="module")
def operator(
    fault_cluster: LocalCluster, api_proxy: RunningProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Candidate]:
    """An operator that reaches the cluster through the proxy."""
    directory = tmp_path_factory.mktemp("operator")
    started = Candidate(fault_cluster, directory, api_proxy.kubeconfig, *FLAGS, "--page-size=1")
    started.start()
    yield started
    assert started.is_alive
    started.kill()


@pytest.fixture
def mirrored(
    operator: Candidate, api_proxy: RunningProxy, mirrored: MirroredNamespace
) -> Iterator[MirroredNamespace]:
    """A namespace whose three ConfigMaps and one Service are in Git."""
    alice = mirrored.user("alice")
    alice.apply(*(mirrored.config_map(name, a="1") for name in ("one", "two", "three")))
    alice.apply(_service(mirrored, "web"))
    mirrored.configured(RULE)
    eventually(lambda: len(mirrored.files()) == 4, "four files", seconds=40.0)
    yield mirrored
    api_proxy.proxy.heal()


def _maps(mirrored: MirroredNamespace) -> Match:
    return lambda seen: seen.path.endswith(f"/namespaces/{mirrored.namespace}/configmaps")


def _resumes(mirrored: MirroredNamespace) -> Match:
    return lambda seen: _maps(mirrored)(seen) and seen.is_resume


def _snapshots(mirrored: MirroredNamespace) -> Match:
    return lambda seen: _maps(mirrored)(seen) and not seen.is_resume


def _path(mirrored: MirroredNamespace, name: str) -> str:
    return f"v1/configmaps/{mirrored.namespace}/{name}.yaml"


def _service(mirrored: MirroredNamespace, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": mirrored.namespace},
        "spec": {"ports": [{"port": 80}]},
    }


def _recreate_mirror(mirrored: MirroredNamespace) -> None:
    """Delete and create our objects again: everything is listed once more."""
    for kind, name in (("gitdestination", "destination"), ("watchrule", "rule")):
        admin_user(mirrored).delete(kind, name)
    mirrored.configured(RULE, wait=False)


@pytest.mark.scenario("A90")
def test_a_refused_list_removes_nothing(
    mirrored: MirroredNamespace, api_proxy: RunningProxy
) -> None:
    """The destination names the unlisted type; other types are still mirrored."""
    api_proxy.proxy.fault(ProxyResponse(500, "not now", ""), when=_snapshots(mirrored), times=None)
    _recreate_mirror(mirrored)
    _assert_kept_until_healed(mirrored, api_proxy)


@pytest.mark.scenario("A90")
@pytest.mark.parametrize("status", [403, 500])
def test_a_list_refused_after_the_first_sync_is_reported(
    status: int, mirrored: MirroredNamespace, api_proxy: RunningProxy
) -> None:
    """A synced destination is not synced while a snapshot it needs is incomplete."""
    # Before its rule was resolved it was synced already, without any rule.
    mirrored.await_condition("gitdestination", "destination", "Synced", type_="Synced")
    api_proxy.proxy.fault(
        ProxyResponse(status, "not now", ""), when=_snapshots(mirrored), times=None
    )
    api_proxy.proxy.fault(EXPIRED, when=_resumes(mirrored))
    api_proxy.close_streams(_maps(mirrored))
    _assert_kept_until_healed(mirrored, api_proxy)
    mirrored.await_condition("gitdestination", "destination", "Synced", type_="Synced")
    if status != 403:
        assert _denials(mirrored) == []
        return
    [message] = eventually(lambda: _denials(mirrored), "the Event")
    assert f"v1/configmaps in {mirrored.namespace} cannot be listed or watched" in message


def _denials(mirrored: MirroredNamespace) -> list[str]:
    """The texts of the Events about types that may not be listed or watched."""
    rows = admin_user(mirrored).list("events")
    return [row["message"] for row in rows if row["reason"] == DENIED]


@pytest.mark.scenario("A90")
def test_a_list_that_stops_at_page_two_removes_nothing(
    mirrored: MirroredNamespace, api_proxy: RunningProxy
) -> None:
    """Half a list proves nothing about the other half."""
    api_proxy.proxy.hide_watchlist()
    api_proxy.proxy.fault(
        ConnectionDrop(after_bytes=40),
        when=lambda seen: _maps(mirrored)(seen) and seen.is_next_page,
        times=None,
    )
    _recreate_mirror(mirrored)
    _assert_kept_until_healed(mirrored, api_proxy)


def _assert_kept_until_healed(mirrored: MirroredNamespace, api_proxy: RunningProxy) -> None:
    row = mirrored.await_condition(
        "gitdestination", "destination", "SnapshotIncomplete", type_="Synced", seconds=40.0
    )
    assert "configmaps" in row["message"]
    # Only now no stream of before is open, which would show the deletion.
    alice = mirrored.user("alice")
    alice.delete("configmap", "two")
    alice.apply(_service(mirrored, "other"))
    other = f"v1/services/{mirrored.namespace}/other.yaml"
    eventually(lambda: other in mirrored.files(), "the other type goes on", seconds=40.0)
    files_before = mirrored.files().keys()
    assert {_path(mirrored, name) for name in ("one", "two", "three")} <= files_before
    api_proxy.proxy.heal()
    eventually(lambda: _path(mirrored, "two") not in mirrored.files(), "the end", seconds=60.0)
    assert _path(mirrored, "one") in mirrored.files()
    history.assert_sound(mirrored)


@pytest.mark.scenario("A90", "A91")
def test_an_empty_list_is_verified(mirrored: MirroredNamespace, api_proxy: RunningProxy) -> None:
    """Each file's object is read by name: only a deleted one is removed."""
    api_proxy.proxy.hide_watchlist()
    lists = _maps(mirrored)
    api_proxy.proxy.fault(
        EmptyList(), when=lambda seen: lists(seen) and not seen.is_watch, times=None
    )
    mirrored.user("alice").delete("configmap", "two")
    _recreate_mirror(mirrored)
    eventually(lambda: _path(mirrored, "two") not in mirrored.files(), "two goes", seconds=40.0)
    assert {_path(mirrored, name) for name in ("one", "three")} <= mirrored.files().keys()


@pytest.mark.scenario("A90", "A28")
def test_an_empty_list_of_rules_removes_nothing(
    mirrored: MirroredNamespace, api_proxy: RunningProxy
) -> None:
    """A rule that is no longer listed is read by name before its files are removed."""
    files_before = mirrored.files()

    def is_list(seen: ProxiedRequest) -> bool:
        return seen.path.endswith("/watchrules") and not seen.is_watch

    def is_watch(seen: ProxiedRequest) -> bool:
        return seen.path.endswith("/watchrules") and seen.is_watch

    def is_get(seen: ProxiedRequest) -> bool:
        return seen.path.endswith(f"/namespaces/{mirrored.namespace}/watchrules/rule")

    api_proxy.proxy.hide_watchlist()
    api_proxy.proxy.fault(EmptyList(), when=is_list, times=None)
    api_proxy.proxy.fault(EXPIRED, when=is_watch)
    api_proxy.close_streams(is_watch)
    # Asked three times, seconds apart: longer than a deleted rule takes.
    eventually(lambda: len([*filter(is_get, api_proxy.proxy.seen)]) >= 3, "asked", seconds=60.0)
    assert mirrored.files() == files_before
    api_proxy.proxy.heal()
    mirrored.await_condition("watchrule", "rule", "Ready", seconds=60.0)
    admin_user(mirrored).delete("watchrule", "rule")
    eventually(lambda: not mirrored.files(), "files of the deleted rule gone", seconds=60.0)


@pytest.mark.scenario("A92")
@pytest.mark.parametrize("form", ["status", "event", "continue"])
def test_an_expired_version_costs_one_commit(
    form: str, mirrored: MirroredNamespace, operator: Candidate, api_proxy: RunningProxy
) -> None:
    """What was deleted, changed and created in the gap arrives after a new snapshot."""
    before, seen = len(mirrored.commits()), len(api_proxy.proxy.seen)
    api_proxy.proxy.fault(ProxyResponse(503), when=_resumes(mirrored), times=None)
    api_proxy.close_streams(_maps(mirrored))
    eventually(
        lambda: any(map(_resumes(mirrored), api_proxy.proxy.seen[seen:])),
        "a refused resume",
        seconds=40.0,
    )
    alice = mirrored.user("alice")
    alice.delete("configmap", "two")
    alice.apply(mirrored.config_map("three", a="3"), mirrored.config_map("four", a="4"))
    logged = len(operator.log.read_text())
    api_proxy.proxy.heal()
    _expire(form, mirrored, api_proxy)
    eventually(lambda: _is_caught_up(mirrored), "the state after the gap", seconds=60.0)
    history.assert_sound(mirrored)
    # A list that broke may have brought something already; that is not held back for ever.
    late = history.late_snapshots(operator, logged, mirrored)
    assert len(mirrored.commits()) <= before + (2 if form == "continue" else 1) + late


def _expire(form: str, mirrored: MirroredNamespace, api_proxy: RunningProxy) -> None:
    if form == "event":
        expired = StreamFault(after_lines=0, after_seconds=0.2, then="error", answer=EXPIRED)
        api_proxy.proxy.fault(expired, when=_resumes(mirrored))
        return
    api_proxy.proxy.fault(EXPIRED, when=_resumes(mirrored))
    if form == "continue":
        api_proxy.proxy.hide_watchlist()
        api_proxy.proxy.fault(
            EXPIRED, when=lambda seen: _maps(mirrored)(seen) and seen.is_next_page
        )


def _is_caught_up(mirrored: MirroredNamespace) -> bool:
    started = mirrored.files()
    return (
        _path(mirrored, "two") not in started
        and 'a: "3"' in started.get(_path(mirrored, "three"), "")
        and _path(mirrored, "four") in started
    )


@pytest.mark.scenario("A94")
def test_watches_that_close_at_once_lead_to_a_new_snapshot(
    mirrored: MirroredNamespace, api_proxy: RunningProxy
) -> None:
    """A server that hides a stale version behind 200 is not requested in a hot loop."""
    hidden = StreamFault(after_lines=0, after_seconds=0.01, then="close")
    api_proxy.proxy.fault(hidden, when=_resumes(mirrored), times=None)
    seen = len(api_proxy.proxy.seen)
    api_proxy.close_streams(_maps(mirrored))
    mirrored.user("alice").delete("configmap", "two")
    eventually(lambda: _path(mirrored, "two") not in mirrored.files(), "two goes", seconds=60.0)
    requests = [request for request in api_proxy.proxy.seen[seen:] if _maps(mirrored)(request)]
    assert len(requests) <= 20
