"""The author of a commit is the user who made the change, or missing; never another user."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.cluster.api_client import ApiResponse
from tests.support.kube.rejecting_webhook import (
    REFUSED,
    RejectingApp,
    registered_webhook,
    running_webhook,
)
from tests.support.processes.operator import Operator, eventually
from tests.support.reverser import attribution_samples, forged_reviews
from tests.support.reverser.api_users import ApiUser, admin_user
from tests.support.reverser.author_proof import (
    UNRESOLVED,
    ExpectedAuthor,
    has_lost_records,
    prove_author,
    prove_authors,
)
from tests.support.reverser.central_repository import configure_mirror
from tests.support.reverser.mirrored_namespace import Commit, MirroredNamespace
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.objects.names import GVR
from windlass.web.admission import AdmissionRequest
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

CONFIG_MAPS = GVR("", "v1", "configmaps")
VALUES = 100


@pytest.mark.scenario("A57")
def test_a_hundred_updates_by_two_people_are_never_swapped(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """Each value that was committed has the author who wrote it, in the order it was written."""
    mirrored.configured({"resources": ["configmaps"]})

    def write_in_turns(number: int) -> list[ExpectedAuthor]:
        name = f"shared-{number}"
        mirrored.user("alice").apply(mirrored.config_map(name, value="start"))
        mirrored.await_change(f"[CREATE] v1/configmaps/{name}")
        written = asyncio.run(_write_in_turns(mirrored, name, VALUES))
        path = f"v1/configmaps/{mirrored.namespace}/{name}.yaml"
        eventually(lambda: f'value: "{VALUES - 1}"' in mirrored.file(path), "the last value")
        committed = _history(mirrored, path)[1:]
        values = [value for _, value in committed]
        assert values == sorted(set(values))
        expected = [(commit, written[value]) for commit, value in committed]
        lost = [row for row in expected if has_lost_records(row[0])]
        # What lost its record is a gap in the history; enough of it is proven all the same.
        proven = [row for row in expected if row not in lost]
        return proven if len(proven) >= VALUES // 2 else expected

    assert len(prove_authors(operator, write_in_turns)) >= VALUES // 2


def _history(mirrored: MirroredNamespace, path: str) -> list[tuple[Commit, int]]:
    """Each commit of a file and the value that it wrote, oldest first; the first wrote none."""
    text = mirrored.git(
        "log",
        "--reverse",
        "--format=%x1e%H%x1f",
        "--unified=0",
        "--patch",
        mirrored.branch,
        "--",
        f"{mirrored.folder}/{path}",
    )
    commits = {commit.sha: commit for commit in mirrored.commits()}
    rows = [row.split("\x1f") for row in text.split("\x1e")[1:]]
    return [(commits[sha], _written_value(patch)) for sha, patch in rows]


def _written_value(patch: str) -> int:
    text = patch.split("\n+  value: ")[1].split("\n")[0].strip('"')
    return -1 if text == "start" else int(text)


async def _write_in_turns(mirrored: MirroredNamespace, name: str, times: int) -> list[str]:
    """Who wrote which value, when alice and bob take turns."""
    names = ("alice", "bob")
    paths = [mirrored.cluster.user_kubeconfig(user, ("dev",)) for user in names]
    async with (
        Connection.open(kubeconfig=paths[0]) as alice,
        Connection.open(kubeconfig=paths[1]) as bob,
    ):
        apis = (Api(alice), Api(bob))
        for number in range(times):
            patch = {"data": {"value": str(number)}}
            await apis[number % 2].merge_patch(
                CONFIG_MAPS, name, patch, mirrored.namespace, field_manager="test"
            )
    return [names[number % 2] for number in range(times)]


@pytest.mark.scenario("A58")
def test_attempts_without_effect_are_not_credited(
    mirrored: MirroredNamespace, operator: Operator, cluster: LocalCluster
) -> None:
    """A dry run, a refused write, a conflict and a no-op by mallory; then bob really writes."""
    mirrored.configured({"resources": ["configmaps"]})
    bob, mallory = mirrored.user("bob"), mirrored.user("mallory")

    def update_after_attempts(number: int) -> str:
        name = f"prize-{number}"
        bob.apply(mirrored.config_map(name, owner="nobody"), server_side=True)
        mirrored.await_change(f"[CREATE] v1/configmaps/{name}")
        stale = bob.get("configmap", name)
        with _refusing(cluster, mirrored, mallory, name):
            responses = [
                _patch(mallory, name, "mallory", dryRun="All"),
                _patch(mallory, name, "refused"),
                _replace(mallory, stale, "1"),
                mallory.send(mirrored.config_map(name, owner="nobody")),
            ]
        assert [response.ok for response in responses] == [True, False, False, True]
        assert REFUSED in responses[1].text
        assert "modified" in responses[2].text
        assert _patch(bob, name, "bob").ok
        return f"[UPDATE] v1/configmaps/{name}"

    prove_author(mirrored, operator, "bob", update_after_attempts)
    assert "mallory" not in mirrored.git("log", "--format=fuller", "-p", mirrored.branch)


@contextmanager
def _refusing(
    cluster: LocalCluster, mirrored: MirroredNamespace, person: ApiUser, prize: str
) -> Iterator[None]:
    """Another webhook that refuses what `person` deletes, or writes with the value `refused`.

    It is in effect once the ConfigMap `prize` is refused.
    """

    def refuses(request: AdmissionRequest) -> bool:
        return request.operation == "DELETE" or b'"owner":"refused"' in request.object

    where = f"request.namespace == '{mirrored.namespace}'"
    who = f"request.userInfo.username == '{person.name}'"
    with running_webhook(RejectingApp(refuses)) as webhook:
        name = f"refuses-{uuid.uuid4().hex[:8]}"
        # The operator leaves dry runs out; this one refuses them too, so that it can be awaited.
        with registered_webhook(cluster, name, webhook, where, who, dry_runs=True):
            eventually(
                lambda: not _patch(person, prize, "refused", dryRun="All").ok,
                "the other webhook's refusal",
            )
            yield


def _patch(person: ApiUser, name: str, owner: str, **query: str) -> ApiResponse:
    patch, kind = {"data": {"owner": owner}}, "application/merge-patch+json"
    return person.request(
        "PATCH", person.path("configmap", name), patch, content_type=kind, **query
    )


def _replace(person: ApiUser, obj: dict[str, Any], version: str) -> ApiResponse:
    old = {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}
    return person.request("PUT", person.path("configmap", obj["metadata"]["name"]), old)


@pytest.mark.scenario("A59")
def test_creates_with_made_up_names_and_by_apply_have_authors(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """GenerateName and server-side apply are credited like any other create."""
    mirrored.configured({"resources": ["configmaps"]})
    alice, bob = mirrored.user("alice"), mirrored.user("bob")

    def make_up_name(number: int) -> str:
        body = mirrored.config_map("", a="1")
        body["metadata"] = {"generateName": f"made-up-{number}-", "namespace": mirrored.namespace}
        response = alice.request("POST", alice.path("configmaps"), body)
        return f"[CREATE] v1/configmaps/{response.object['metadata']['name']}"

    def apply(number: int) -> str:
        bob.apply(mirrored.config_map(f"applied-{number}", a="1"), server_side=True)
        return f"[CREATE] v1/configmaps/applied-{number}"

    prove_author(mirrored, operator, "alice", make_up_name)
    prove_author(mirrored, operator, "bob", apply)


@pytest.mark.scenario("A59")
def test_a_version_that_is_not_the_mirrored_one_is_credited_by_chain(
    mirrored: MirroredNamespace, operator: Operator, cluster: LocalCluster
) -> None:
    """Writes of a custom kind in another version than the followed one name the writer."""
    token = f"a{uuid.uuid4().hex[:8]}"
    group = f"{token}.example.org"
    with _custom_kind(mirrored, token):
        _follow_gadgets(mirrored, group)
        alice, bob = mirrored.user("alice"), mirrored.user("bob")
        path = alice.path("gadget", api_version=f"{group}/v1beta1")

        def write_abroad(number: int) -> list[ExpectedAuthor]:
            name = f"abroad-{number}"
            gadget = {
                "apiVersion": f"{group}/v1beta1",
                "kind": "Gadget",
                "metadata": {"name": name, "namespace": mirrored.namespace},
                "spec": {"mode": "on"},
            }
            assert alice.request("POST", path, gadget).ok
            first = mirrored.await_change(f"[CREATE] {group}/v1/gadgets/{name}")
            patch, kind = {"spec": {"mode": "off"}}, "application/merge-patch+json"
            assert bob.request("PATCH", f"{path}/{name}", patch, content_type=kind).ok
            second = mirrored.await_change(f"[UPDATE] {group}/v1/gadgets/{name}")
            return [(first, "alice"), (second, "bob")]

        prove_authors(operator, write_abroad, tier="chain")


def test_an_object_deleted_with_its_definition_has_no_author(mirrored: MirroredNamespace) -> None:
    """The API server deletes such objects itself, without admission requests."""
    token = f"a{uuid.uuid4().hex[:8]}"
    group = f"{token}.example.org"
    with _custom_kind(mirrored, token):
        _follow_gadgets(mirrored, group)
        gadget = {
            "apiVersion": f"{group}/v1",
            "kind": "Gadget",
            "metadata": {"name": "doomed", "namespace": mirrored.namespace},
            "spec": {"mode": "on"},
        }
        mirrored.user("alice").apply(gadget)
        mirrored.await_change(f"[CREATE] {group}/v1/gadgets/doomed")
    deletion = mirrored.await_commit(f"[DELETE] {group}/v1/gadgets/doomed by user/{UNRESOLVED}")
    assert deletion.trailer("Unresolved") == "DefinitionDeleted"


def test_a_kind_without_admission_requests_has_no_author(platform: MirroredNamespace) -> None:
    """The API server sends no admission requests about webhook configurations."""
    name = f"beside-{uuid.uuid4().hex[:8]}"
    hook = "admissionregistration.k8s.io/v1"
    rule = {"resources": ["validatingwebhookconfigurations"], "scope": "Cluster"}
    configure_mirror(platform, rule)
    admin = admin_user(platform)
    document = {"apiVersion": hook, "kind": "ValidatingWebhookConfiguration"}
    admin.apply(document | {"metadata": {"name": name}})
    commit = platform.await_commit(
        f"[CREATE] {hook}/validatingwebhookconfigurations/{name} by user/{UNRESOLVED}"
    )
    admin.delete("validatingwebhookconfiguration", name)
    assert commit.trailer("Unresolved") == "KindNotCovered"


@contextmanager
def _custom_kind(mirrored: MirroredNamespace, token: str) -> Iterator[None]:
    definition = attribution_samples.definition(token)
    name = definition["metadata"]["name"]
    admin = admin_user(mirrored)
    admin.apply(definition)
    try:
        yield
    finally:
        admin.delete("customresourcedefinition", name)


def _follow_gadgets(mirrored: MirroredNamespace, group: str) -> None:
    """Mirror the custom kind in its preferred version.

    The API server names one version after the other, and the first may be the other one.
    """
    mirrored.configured({"resources": ["gadgets"], "apiGroups": [group]})

    def followed() -> list[tuple[str, str]]:
        rows = mirrored.admin.get("watchrule", "rule")["status"].get("resolved", ())
        return [(row["gvr"], row["state"]) for row in rows]

    eventually(lambda: followed() == [(f"{group}/v1/gadgets", "synced")], "the preferred version")


@pytest.mark.scenario("A60", "A69")
def test_a_forged_record_never_adds_an_author(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """With the content that bob writes the author is ambiguous, with any other it is bob."""
    mirrored.configured({"resources": ["configmaps"]})
    missed = _ambiguous_count(operator)
    equal = prove_author(mirrored, operator, UNRESOLVED, _forging(mirrored, "equal", "bob"))
    assert equal.trailer("Unresolved") == "Ambiguous"
    prove_author(mirrored, operator, "bob", _forging(mirrored, "other", "alice"))
    eventually(lambda: _ambiguous_count(operator) > missed, "a miss that is counted as Ambiguous")
    assert "alice" not in mirrored.git("log", "--format=fuller", mirrored.branch)


def _forging(mirrored: MirroredNamespace, prefix: str, claimed: str) -> Callable[[int], str]:
    """An update by bob after a forged review by which alice writes `claimed`."""
    bob = mirrored.user("bob")

    def update_after_review(number: int) -> str:
        name = f"{prefix}-{number}"
        bob.apply(mirrored.config_map(name, owner="-"))
        mirrored.await_change(f"[CREATE] v1/configmaps/{name}")
        old = bob.get("configmap", name)
        forged_reviews.submit_forged_review(
            mirrored.cluster, "alice", CONFIG_MAPS, old, {**old, "data": {"owner": claimed}}
        )
        assert _patch(bob, name, "bob").ok
        return f"[UPDATE] v1/configmaps/{name}"

    return update_after_review


def _ambiguous_count(operator: Operator) -> float:
    return operator.metric('gitopsreverser_enrich_misses_total{reason="Ambiguous"}')


@pytest.mark.scenario("A66")
def test_a_malicious_user_name_stays_on_one_line(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """A user name that looks like an address and a trailer makes neither."""
    mirrored.configured({"resources": ["configmaps"]})
    odd = mirrored.user("x <a@b> Signed-off-by: y")

    def create(number: int) -> str:
        odd.apply(mirrored.config_map(f"odd-{number}", a="1"))
        return f"[CREATE] v1/configmaps/odd-{number}"

    commit = prove_author(mirrored, operator, "x a@b Signed-off-by: y", create)
    assert commit.email == "x-a-b-signed-off-by-y@windlass.invalid"
    raw = mirrored.git("cat-file", "commit", commit.sha)
    assert sum(line.startswith("author ") for line in raw.splitlines()) == 1
    trailers = mirrored.git("log", "-1", "--format=%(trailers:only)", commit.sha)
    assert trailers.strip()
    assert all(line.startswith("X-ConfigButler-") for line in trailers.strip().splitlines())


@pytest.mark.scenario("A68")
def test_an_unresolved_delete_delays_nothing(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """A delete that no record explains is committed at once, and so is what follows it."""
    mirrored.configured({"resources": ["configmaps"]})
    alice = mirrored.user("alice")
    # The webhook does not cover requests of nodes.
    node = mirrored.user("system:node:worker")

    def delete_and_create(number: int) -> list[ExpectedAuthor]:
        doomed, following = f"doomed-{number}", f"next-{number}"
        alice.apply(mirrored.config_map(doomed, a="1"))
        mirrored.await_change(f"[CREATE] v1/configmaps/{doomed}")
        earlier = len(mirrored.commits())
        node.delete("configmap", doomed)
        alice.apply(mirrored.config_map(following, a="1"))
        path = f"v1/configmaps/{mirrored.namespace}/{following}.yaml"
        eventually(lambda: path in mirrored.files(), "the file of what follows")
        # A delete that waited for a record would come after what follows it, or together with it.
        newest_first = mirrored.commits()[:-earlier]
        return list(zip(newest_first, ("alice", UNRESOLVED), strict=False))

    created, deleted = prove_authors(operator, delete_and_create)
    assert created.subject.startswith("[CREATE] v1/configmaps/next-")
    assert deleted.subject.startswith("[DELETE] v1/configmaps/doomed-")
    assert deleted.trailer("Unresolved") == "NoRecord"


@pytest.mark.scenario("A61")
def test_a_killed_webhook_costs_only_authors(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """Writes go on, commits arrive without an author, and authors come back by themselves."""
    mirrored.configured({"resources": ["configmaps"]})
    alice = mirrored.user("alice")
    alice.apply(mirrored.config_map("before", a="1"))
    mirrored.await_change("[CREATE] v1/configmaps/before")
    webhook_pid = eventually(operator.webhook_pid, "the admission webhook")
    os.kill(webhook_pid, signal.SIGKILL)
    alice.apply(mirrored.config_map("meanwhile", a="1"))
    lost = mirrored.await_commit(f"[CREATE] v1/configmaps/meanwhile by user/{UNRESOLVED}")
    assert lost.trailer("Attribution") == "unresolved"
    assert lost.trailer("Unresolved") == "RecordsLost"
    operator.await_provable()
    assert operator.webhook_pid() != webhook_pid

    def create(number: int) -> str:
        alice.apply(mirrored.config_map(f"after-{number}", a="1"))
        return f"[CREATE] v1/configmaps/after-{number}"

    prove_author(mirrored, operator, "alice", create)


def test_a_hung_webhook_does_not_credit_a_refused_user(
    mirrored: MirroredNamespace, operator: Operator, cluster: LocalCluster
) -> None:
    """Mallory may not delete, alice does while the webhook hangs: the author is not mallory."""
    mirrored.configured({"resources": ["configmaps"]})
    alice, mallory = mirrored.user("alice"), mirrored.user("mallory")
    alice.apply(mirrored.config_map("prize", owner="nobody"))
    mirrored.await_change("[CREATE] v1/configmaps/prize")
    with _refusing(cluster, mirrored, mallory, "prize"):
        assert REFUSED in mallory.request("DELETE", mallory.path("configmap", "prize")).text
    webhook_pid = eventually(operator.webhook_pid, "the admission webhook")
    os.kill(webhook_pid, signal.SIGSTOP)
    try:
        alice.delete("configmap", "prize")
        eventually(lambda: not mirrored.files(), "no file")
    finally:
        os.kill(webhook_pid, signal.SIGCONT)
    assert mirrored.commits()[0].author in {"alice", UNRESOLVED}
    operator.await_provable()


def test_a_webhook_that_hangs_after_a_restart_withholds_no_status(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """2.2: Attributed says within seconds that records are incomplete, also without a change."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    mirrored.await_condition("gitdestination", "destination", "Receiving", type_="Attributed")
    eventually(lambda: _last_push(mirrored), "the first push")
    operator.stop()
    operator.spawn()
    webhook_pid = eventually(operator.webhook_pid, "the admission webhook")
    os.kill(webhook_pid, signal.SIGSTOP)
    try:
        row = mirrored.await_condition(
            "gitdestination", "destination", "Starting", type_="Attributed", seconds=30.0
        )
        assert row["status"] == "False"
    finally:
        os.kill(webhook_pid, signal.SIGCONT)
    mirrored.await_condition("gitdestination", "destination", "Receiving", type_="Attributed")
    operator.await_provable()


def _last_push(mirrored: MirroredNamespace) -> dict[str, Any]:
    status = mirrored.admin.get("gitdestination", "destination")["status"]
    found: dict[str, Any] = status.get("lastPush", {})
    return found
