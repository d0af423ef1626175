"""Lists that break, lie or expire, through a proxy that the whole operator uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fault import history
from tests.fault.candidate import Candidate, operator_kubeconfig
from tests.fault.conftest import FLAGS
from tests.fault.proxied import EmptyList, Proxied, proxied
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
GONE = ProxyResponse(410, "too old resource version: 1 (2)", "Expired")

Match = Callable[[ProxiedRequest], bool]


@pytest.fixture(scope="module")
def line(desk: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    """The proxy between the operator of this file and the API server."""
    with proxied(operator_kubeconfig(desk), tmp_path_factory.mktemp("proxy")) as found:
        yield found


@pytest.fixture(scope="module")
def operator(
    desk: LocalCluster, line: Proxied, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Candidate]:
    """An operator that sees the cluster through the proxy."""
    directory = tmp_path_factory.mktemp("operator")
    found = Candidate(desk, directory, line.kubeconfig, *FLAGS, "--page-size=1")
    found.start()
    yield found
    assert found.is_alive
    found.kill()


@pytest.fixture
def mirrored(
    operator: Candidate, line: Proxied, mirrored: MirroredNamespace
) -> Iterator[MirroredNamespace]:
    """A namespace whose three ConfigMaps and one Service are in Git."""
    alice = mirrored.person("alice")
    alice.apply(*(mirrored.config_map(name, a="1") for name in ("one", "two", "three")))
    alice.apply(_service(mirrored, "web"))
    mirrored.configured(RULE)
    eventually(lambda: len(mirrored.files()) == 4, "four files", seconds=40.0)
    yield mirrored
    line.proxy.heal()


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


def _begin_anew(mirrored: MirroredNamespace) -> None:
    """Remove and make our objects again: everything is listed once more."""
    for kind, name in (("gitdestination", "destination"), ("watchrule", "rule")):
        admin_user(mirrored).delete(kind, name)
    mirrored.configured(RULE, wait=False)


@pytest.mark.scenario("A90")
def test_a_refused_list_removes_nothing(mirrored: MirroredNamespace, line: Proxied) -> None:
    """The destination says what it could not see; other types go on."""
    line.proxy.fault(ProxyResponse(500, "not now", ""), when=_snapshots(mirrored), times=None)
    _begin_anew(mirrored)
    _assert_kept_until_healed(mirrored, line)


@pytest.mark.scenario("A90")
@pytest.mark.parametrize("status", [403, 500])
def test_a_refused_list_in_mid_life_is_said(
    status: int, mirrored: MirroredNamespace, line: Proxied
) -> None:
    """A destination that was synced is not while a snapshot it needs is incomplete."""
    assert mirrored.condition("gitdestination", "destination", "Synced")["status"] == "True"
    line.proxy.fault(ProxyResponse(status, "not now", ""), when=_snapshots(mirrored), times=None)
    line.proxy.fault(GONE, when=_resumes(mirrored))
    line.close_streams(_maps(mirrored))
    _assert_kept_until_healed(mirrored, line)
    mirrored.await_condition("gitdestination", "destination", "Synced", type_="Synced")
    told = [
        row["message"] for row in admin_user(mirrored).list("events") if row["reason"] == DENIED
    ]
    text = f"v1/configmaps in {mirrored.namespace} cannot be listed or watched"
    assert [text in message for message in told] == ([True] if status == 403 else [])


@pytest.mark.scenario("A90")
def test_a_list_that_stops_at_page_two_removes_nothing(
    mirrored: MirroredNamespace, line: Proxied
) -> None:
    """Half a list proves nothing about the other half."""
    line.proxy.hide_watchlist()
    line.proxy.fault(
        ConnectionDrop(after_bytes=40),
        when=lambda seen: _maps(mirrored)(seen) and seen.is_next_page,
        times=None,
    )
    _begin_anew(mirrored)
    _assert_kept_until_healed(mirrored, line)


def _assert_kept_until_healed(mirrored: MirroredNamespace, line: Proxied) -> None:
    alice = mirrored.person("alice")
    alice.delete("configmap", "two")
    alice.apply(_service(mirrored, "other"))
    row = mirrored.await_condition(
        "gitdestination", "destination", "SnapshotIncomplete", type_="Synced", seconds=40.0
    )
    assert "configmaps" in row["message"]
    other = f"v1/services/{mirrored.namespace}/other.yaml"
    eventually(lambda: other in mirrored.files(), "the other type goes on", seconds=40.0)
    kept = mirrored.files().keys()
    assert {_path(mirrored, name) for name in ("one", "two", "three")} <= kept
    line.proxy.heal()
    eventually(lambda: _path(mirrored, "two") not in mirrored.files(), "the end", seconds=60.0)
    assert _path(mirrored, "one") in mirrored.files()
    history.assert_sound(mirrored)


@pytest.mark.scenario("A90", "A91")
def test_an_empty_list_is_not_believed(mirrored: MirroredNamespace, line: Proxied) -> None:
    """Each file's object is asked for by name: only the one that is really gone goes."""
    line.proxy.hide_watchlist()
    lists = _maps(mirrored)
    line.proxy.fault(EmptyList(), when=lambda seen: lists(seen) and not seen.is_watch, times=None)
    mirrored.person("alice").delete("configmap", "two")
    _begin_anew(mirrored)
    eventually(lambda: _path(mirrored, "two") not in mirrored.files(), "two goes", seconds=40.0)
    assert {_path(mirrored, name) for name in ("one", "three")} <= mirrored.files().keys()


@pytest.mark.scenario("A90", "A28")
def test_an_empty_list_of_rules_removes_nothing(mirrored: MirroredNamespace, line: Proxied) -> None:
    """A rule that is listed no more is asked for by name before its files go."""
    kept = mirrored.files()

    def is_list(seen: ProxiedRequest) -> bool:
        return seen.path.endswith("/watchrules") and not seen.is_watch

    def is_watch(seen: ProxiedRequest) -> bool:
        return seen.path.endswith("/watchrules") and seen.is_watch

    def is_question(seen: ProxiedRequest) -> bool:
        return seen.path.endswith(f"/namespaces/{mirrored.namespace}/watchrules/rule")

    line.proxy.hide_watchlist()
    line.proxy.fault(EmptyList(), when=is_list, times=None)
    line.proxy.fault(GONE, when=is_watch)
    line.close_streams(is_watch)
    # Asked three times, seconds apart: longer than a deleted rule takes.
    eventually(lambda: len([*filter(is_question, line.proxy.seen)]) >= 3, "asked", seconds=60.0)
    assert mirrored.files() == kept
    line.proxy.heal()
    mirrored.await_condition("watchrule", "rule", "Ready", seconds=60.0)
    admin_user(mirrored).delete("watchrule", "rule")
    eventually(lambda: not mirrored.files(), "files of the deleted rule gone", seconds=60.0)


@pytest.mark.scenario("A92")
@pytest.mark.parametrize("form", ["status", "event", "continue"])
def test_an_expired_version_costs_one_commit(
    form: str, mirrored: MirroredNamespace, line: Proxied
) -> None:
    """What was deleted, changed and created in the gap arrives after a new snapshot."""
    before = len(mirrored.commits())
    line.proxy.fault(ProxyResponse(503), when=_resumes(mirrored), times=None)
    line.close_streams(_maps(mirrored))
    eventually(lambda: _asked_again(mirrored, line), "a refused resume", seconds=40.0)
    alice = mirrored.person("alice")
    alice.delete("configmap", "two")
    alice.apply(mirrored.config_map("three", a="3"), mirrored.config_map("four", a="4"))
    line.proxy.heal()
    _expire(form, mirrored, line)
    eventually(lambda: _caught_up(mirrored), "the state after the gap", seconds=60.0)
    history.assert_sound(mirrored)
    # A list that broke may have brought something already; that is not held back for ever.
    assert len(mirrored.commits()) <= before + (2 if form == "continue" else 1)


def _asked_again(mirrored: MirroredNamespace, line: Proxied) -> bool:
    return any(_resumes(mirrored)(seen) for seen in line.proxy.seen[-20:])


def _expire(form: str, mirrored: MirroredNamespace, line: Proxied) -> None:
    if form == "event":
        expired = StreamFault(after_lines=0, after_seconds=0.2, then="error", answer=GONE)
        line.proxy.fault(expired, when=_resumes(mirrored))
        return
    line.proxy.fault(GONE, when=_resumes(mirrored))
    if form == "continue":
        line.proxy.hide_watchlist()
        line.proxy.fault(GONE, when=lambda seen: _maps(mirrored)(seen) and seen.is_next_page)


def _caught_up(mirrored: MirroredNamespace) -> bool:
    found = mirrored.files()
    return (
        _path(mirrored, "two") not in found
        and 'a: "3"' in found.get(_path(mirrored, "three"), "")
        and _path(mirrored, "four") in found
    )


@pytest.mark.scenario("A94")
def test_watches_that_close_at_once_lead_to_a_new_snapshot(
    mirrored: MirroredNamespace, line: Proxied
) -> None:
    """A server that hides a stale version behind 200 is not asked in a hot loop."""
    hidden = StreamFault(after_lines=0, after_seconds=0.01, then="close")
    line.proxy.fault(hidden, when=_resumes(mirrored), times=None)
    seen = len(line.proxy.seen)
    line.close_streams(_maps(mirrored))
    mirrored.person("alice").delete("configmap", "two")
    eventually(lambda: _path(mirrored, "two") not in mirrored.files(), "two goes", seconds=60.0)
    asked = [one for one in line.proxy.seen[seen:] if _maps(mirrored)(one)]
    assert len(asked) <= 20
