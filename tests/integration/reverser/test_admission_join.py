"""The assumption that attribution rests on, proven for every kind the API server serves."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.support.cluster import control_plane as clusters
from tests.support.kube.rejecting_webhook import (
    EveryTenth,
    RejectingApp,
    RunningWebhook,
    registered_webhook,
    running_webhook,
    webhook_identity,
)
from tests.support.reverser import attribution_experiment, attribution_samples
from tests.support.reverser.attribution_lifecycle import ObjectLifecycle, Writer
from tests.support.reverser.attribution_samples import LABEL, Sample
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.discovery import ServedType, discover
from windlass.kube.errors import ApiError, Forbidden
from windlass.objects.names import GVR
from windlass.web.admission import AdmissionEndpoint
from windlass.web.server import Server
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

CONFIG_MAPS = GVR("", "v1", "configmaps")
SERVICE_ACCOUNTS = GVR("", "v1", "serviceaccounts")
AT_ONCE = 6

# Kinds that the webhook leaves out, because they are never mirrored.
LEFT_OUT = frozenset({"events", "events.events.k8s.io", "leases.coordination.k8s.io"})
# The API server asks no webhook about these, or a bad one could never be taken away again.
NEVER_ASKED = frozenset(
    {
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    }
)
# The groups that tests define.
_CUSTOM_GROUPS = (".example.org", "velero.io")
# Where the admitted object is not the stored one even after cleaning.
DIFFERING: dict[str, set[str]] = {}


@pytest.fixture
def limited(cluster: LocalCluster) -> Iterator[str]:
    """A second namespace, for objects that limit what may be made beside them."""
    with clusters.fresh_namespace(cluster) as name:
        yield name


async def test_no_kind_is_ever_credited_to_the_wrong_person(
    cluster: LocalCluster, namespace: str, limited: str
) -> None:
    """Two people write every kind in every way; no verdict names the one who did not."""
    clusters.bind_cluster_admin(cluster, "dev")
    token = f"j{uuid.uuid4().hex[:8]}"
    recorder, refuser = attribution_experiment.Recorder(), RejectingApp(EveryTenth())
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        admin = await enter(Connection.open(kubeconfig=cluster.admin_kubeconfig))
        people = [await enter(_writer(cluster, name)) for name in ("alice", "bob")]
        other = stack.enter_context(running_webhook(refuser))
        recording = await enter(_recording(recorder))
        condition = _match_condition(token, namespace, limited)
        stack.enter_context(registered_webhook(cluster, f"{token}-records", recording, condition))
        conditions = (condition, "request.userInfo.username in ['alice', 'bob']")
        stack.enter_context(registered_webhook(cluster, f"{token}-refuses", other, *conditions))
        samples, skipped = await _samples(Api(admin), token, namespace, limited)
        await _wait_for_webhooks(people, namespace, recorder, refuser)
        try:
            rows = await _experiment(admin, samples, people, token, recorder)
        finally:
            await Api(admin).delete(attribution_samples.DEFINITIONS, f"gadgets.{token}.example.org")
    _report(rows, skipped, refuser)
    assert [wrong for row in rows for wrong in row.wrong] == []
    assert {row.kind: row.differing for row in rows if row.differing} == DIFFERING
    assert skipped == LEFT_OUT
    assert refuser.refused > refuser.asked / 15
    for row in rows:
        _check_resolved(row)


def _check_resolved(row: attribution_experiment.Row) -> None:
    """What could be proven was proven; what was not has one of the causes that `join` names."""
    if row.kind in NEVER_ASKED:
        assert set(row.ours) == {"KindNotCovered"}, row
        return
    known = {"exact", "attempted delete", "repeated update"}
    if row.versions > 1:
        known |= {"chain", "foreign update"}
    assert set(row.ours) <= known, row
    # Each user applies only once what is there already.
    assert row.ours["repeated update"] <= 1, row
    assert row.ours["exact"] >= 9, row


@asynccontextmanager
async def _writer(cluster: LocalCluster, name: str) -> AsyncIterator[Writer]:
    path = await asyncio.to_thread(cluster.user_kubeconfig, name, ("dev",))
    async with Connection.open(kubeconfig=path) as connection:
        yield Writer(name, Api(connection))


@asynccontextmanager
async def _recording(recorder: attribution_experiment.Recorder) -> AsyncIterator[RunningWebhook]:
    authority, tls = webhook_identity()
    async with Server(AdmissionEndpoint(recorder.record, paths=["/"]), tls=tls) as server:
        yield RunningWebhook(f"https://127.0.0.1:{server.port}", authority)


def _match_condition(token: str, *namespaces: str) -> str:
    """Requests for our namespaces and for cluster-scoped objects with our label."""
    labelled = " || ".join(
        f"({name} != null && has({name}.metadata.labels) && '{LABEL}' in {name}.metadata.labels "
        f"&& {name}.metadata.labels['{LABEL}'] == '{token}')"
        for name in ("object", "oldObject")
    )
    return f"request.namespace in {list(namespaces)} || {labelled}"


async def _samples(
    api: Api, token: str, namespace: str, limited: str
) -> tuple[list[Sample], set[str]]:
    """A sample of every kind that can be followed; kinds that other tests made are theirs."""
    foreign_groups = {
        definition["spec"]["group"]
        for definition in await api.list(attribution_samples.DEFINITIONS)
    }
    own_definition = attribution_samples.definition(token)
    await api.create(attribution_samples.DEFINITIONS, own_definition, field_manager="experiment")
    gadgets = f"gadgets.{token}.example.org"
    by_name = attribution_samples.families((await discover(api)).types)
    async with asyncio.timeout(30):
        while len(by_name.get(gadgets, ())) < 2 or await _is_outdated(api, by_name):
            await asyncio.sleep(0.1)
            by_name = attribution_samples.families((await discover(api)).types)
    samples, skipped = [], set()
    for name, family in by_name.items():
        sample = attribution_samples.sample(name, family, token, namespace, limited)
        if name in LEFT_OUT or (sample is None and family[0].gvr.group not in foreign_groups):
            skipped.add(name)
        elif sample is not None and family[0].gvr.group not in foreign_groups:
            samples.append(sample)
    return samples, skipped


async def _is_outdated(api: Api, by_name: dict[str, list[ServedType]]) -> bool:
    """Whether types are discovered whose definition is gone: another test deleted it just now."""
    groups = {family[0].gvr.group for family in by_name.values()}
    definitions = await api.list(attribution_samples.DEFINITIONS)
    defined = {definition["spec"]["group"] for definition in definitions}
    return any(group.endswith(_CUSTOM_GROUPS) and group not in defined for group in groups)


async def _wait_for_webhooks(
    people: list[Writer],
    namespace: str,
    recorder: attribution_experiment.Recorder,
    refuser: RejectingApp,
) -> None:
    """Wait until the API server asks both webhooks, and until pods may be made."""
    canary = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "canary", "namespace": namespace},
    }
    api = people[0].api
    async with asyncio.timeout(30):
        while not (recorder.records and refuser.asked):
            canary["data"] = {"time": str(time.monotonic())}
            try:
                await api.apply(CONFIG_MAPS, canary, field_manager="experiment")
            except Forbidden:
                continue
        while True:
            try:
                await api.get(SERVICE_ACCOUNTS, "default", namespace)
                return
            except ApiError:
                await asyncio.sleep(0.05)


async def _experiment(
    admin: Connection,
    samples: list[Sample],
    people: list[Writer],
    token: str,
    recorder: attribution_experiment.Recorder,
) -> list[attribution_experiment.Row]:
    limit = asyncio.Semaphore(AT_ONCE)

    async def run_lifecycle(sample: Sample) -> attribution_experiment.Row:
        life, watcher = (
            ObjectLifecycle(sample, people),
            attribution_experiment.Watcher(sample, token, recorder),
        )
        watching = asyncio.create_task(watcher.run(admin))
        try:
            async with limit:
                await watcher.synced.wait()
                await life.run()
                await watcher.settle(life.truth)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        return attribution_experiment.row(sample, life, watcher, recorder)

    rows = await asyncio.gather(*map(run_lifecycle, samples), return_exceptions=True)
    failed = [row for row in rows if isinstance(row, BaseException)]
    assert not failed, failed
    return [row for row in rows if isinstance(row, attribution_experiment.Row)]


def _report(
    rows: list[attribution_experiment.Row], skipped: set[str], refuser: RejectingApp
) -> None:
    ours: Counter[str] = sum((row.ours for row in rows), Counter())
    others: Counter[str] = sum((row.others for row in rows), Counter())
    wrong = sum(len(row.wrong) for row in rows)
    text = [
        "",
        attribution_experiment.table(sorted(rows, key=lambda row: row.kind)),
        f"kinds {len(rows)}; not tried: {', '.join(sorted(skipped))}",
        f"changes by alice and bob: {sum(ours.values())}: {dict(ours)}",
        f"changes by controllers: {sum(others.values())}: {dict(others)}",
        f"refused by the other webhook: {refuser.refused} of {refuser.asked}",
        f"wrong authors: {wrong}",
    ]
    print("\n".join(text))  # noqa: T201 - `pytest -s` shows the table
