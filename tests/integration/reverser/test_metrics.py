"""Every metric of the table is recorded by a running operator, and none outlives its cause."""

from __future__ import annotations

import pytest

from tests.support.git.http_server import commit_files
from tests.support.processes.operator import Operator, eventually
from tests.support.reverser.api_users import admin_user, api_user
from tests.support.reverser.central_repository import configure_mirror
from tests.support.reverser.leftover_folder import write_leftover_folder
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass.telemetry import table
from windlass.telemetry.reverser import ReverserMetrics
from windlass.telemetry.table import HistogramSeries

pytestmark = [pytest.mark.cluster, pytest.mark.scenario("A110")]

ZERO_IN_HEALTHY_RUN = {
    "gitopsreverser_kv_evictions_total": "records are kept for a minute; their tests evict them",
    "windlass_mirror_snapshot_incomplete_total": "needs an API server that breaks a list",
    "windlass_mirror_watch_restarts_total": "needs an API server that goes away, see tests/fault",
    "gitopsreverser_lease_acquire_failures_total": "the same",
    "gitopsreverser_git_commit_queue_size": "zero unless a remote is away, see tests/fault",
    "gitopsreverser_repo_branch_active_workers": "zero unless Git is slow, see tests/fault",
    "windlass_mirror_watch_lag_seconds": "zero unless a change waits at the moment of the scrape",
    "windlass_queue_depth": "zero unless a key waits at the moment of the scrape",
    "gitopsreverser_repo_branch_queue_depth": "zero unless a change waits at that moment",
}
"""What a healthy run leaves at zero, and why."""


def _zero_metrics(operator: Operator) -> set[str]:
    """Declared metrics that show no value but zero."""
    rows = [row.rpartition(" ") for row in operator.metrics().splitlines() if row[0] != "#"]
    recorded = {name.partition("{")[0] for name, _, value in rows if float(value)}
    return {
        line.name
        for line in table.declared_metrics(ReverserMetrics)
        if (f"{line.name}_count" if line.kind is HistogramSeries else line.name) not in recorded
    }


def _exercise_operator(mirrored: MirroredNamespace, operator: Operator) -> None:
    """Creates, updates, deletions, foreign pushes, a claim and a neighbour in the way."""
    claim = "claim: v1\ncluster: other\ndestination: a/b\nemitter: e1\nlayout: seed\n"
    commit_files(mirrored.path, {"taken/.windlass-claim": claim})
    gone = mirrored.config_map("gone", a="1")
    write_leftover_folder(mirrored, gone, plurals={"ConfigMap": "configmaps"})
    mirrored.configured({"resources": ["configmaps", "deployments"]})
    alice = api_user(mirrored, "alice")
    for number in range(12):
        alice.apply(mirrored.config_map("busy", value=str(number)))
    eventually(lambda: 'value: "11"' in mirrored.file(_path(mirrored, "busy")), "the last update")
    number = 0
    while not operator.metric("gitopsreverser_rebase_retries_total"):
        number += 1
        assert number < 10, "every change came after a fetch of the foreign tip"
        # The next listing, which would show the foreign tip, is two seconds away.
        mirrored.await_listed()
        commit_files(mirrored.path, {"README.md": f"pushed by somebody else: {number}\n"})
        alice.apply(mirrored.config_map("after", a=str(number)))
        wanted = f'a: "{number}"'
        eventually(
            lambda wanted=wanted: wanted in mirrored.file(_path(mirrored, "after")),
            "a change on the foreign tip",
        )
    alice.apply(mirrored.config_map("after", a="last"))
    alice.delete("configmap", "after")
    eventually(lambda: _path(mirrored, "after") not in mirrored.files(), "the removal")
    for folder, reason in (("taken", "FolderClaimed"), ("clusters", "OverlappingBaseFolder")):
        other = mirrored.git_destination({"baseFolder": folder})
        other["metadata"]["name"] = folder
        mirrored.admin.apply(other)
        mirrored.await_condition("gitdestination", folder, reason)


def _path(mirrored: MirroredNamespace, name: str) -> str:
    return f"v1/configmaps/{mirrored.namespace}/{name}.yaml"


def _write_only_status(mirrored: MirroredNamespace) -> None:
    admin = admin_user(mirrored)
    pod = {"containers": [{"name": "web", "image": "registry.invalid/web"}]}
    labels = {"app": "web"}
    admin.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": mirrored.namespace},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }
    )


def test_every_metric_is_recorded(
    mirrored: MirroredNamespace, platform: MirroredNamespace, operator: Operator
) -> None:
    """After a busy minute every declared metric is recorded, but for the listed ones."""
    _exercise_operator(mirrored, operator)
    _write_only_status(mirrored)
    # The webhook does not cover the install namespace, so changes have no author. The first
    # may still be part of the snapshot for a new destination, which has no author either.
    configure_mirror(platform, {"scope": "Namespaced", "resources": ["configmaps"]})
    unseen = "v1/configmaps/windlass-system/unseen.yaml"
    for number in "12":
        platform.admin.apply(platform.config_map("unseen", a=number))
        wanted = f'a: "{number}"'
        eventually(
            lambda wanted=wanted: wanted in platform.file(unseen), "the change without a record"
        )
    platform.admin.apply(platform.git_destination({"prune": "Never"}))
    eventually(lambda: _is_observed(platform), "the destination that keeps what is deleted")
    admin_user(platform).delete("configmap", "unseen")
    at_first = _missing(operator)
    eventually(lambda: not _missing(operator), f"all recorded, without {at_first} at first")
    assert ZERO_IN_HEALTHY_RUN.keys() <= {
        line.name for line in table.declared_metrics(ReverserMetrics)
    }


def test_series_of_a_deleted_destination_vanish(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """While it exists its state is a series; afterwards no series names it."""
    mirrored.configured({"resources": ["configmaps"]})
    label = f'destination_namespace="{mirrored.namespace}"'
    eventually(
        lambda: [row.rpartition(" ")[2] for row in _series_with(operator, label)] == ["1.0", "1.0"],
        "both series at one",
    )
    assert sorted(row.partition("{")[0] for row in _series_with(operator, label)) == [
        "windlass_mirror_remote_reachable",
        "windlass_mirror_sync_complete",
    ]
    admin_user(mirrored).delete("gitdestination", "destination")
    eventually(lambda: not _series_with(operator, label), "the series gone")


def _series_with(operator: Operator, label: str) -> list[str]:
    return [line for line in operator.metrics().splitlines() if label in line]


def test_gauges_return_to_zero(mirrored: MirroredNamespace, operator: Operator) -> None:
    """When everything is pushed, nothing waits anywhere."""
    mirrored.configured({"resources": ["configmaps"]})
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    eventually(mirrored.files, "the file")
    for gauge in (
        "gitopsreverser_git_commit_queue_size",
        "gitopsreverser_repo_branch_active_workers",
        "gitopsreverser_repo_branch_queue_depth",
        "windlass_mirror_watch_lag_seconds",
    ):
        eventually(lambda gauge=gauge: operator.metric(gauge) == 0.0, f"{gauge} is zero")
    synced = 'windlass_mirror_watch_streams{state="synced"}'
    eventually(lambda: operator.metric(synced) >= 1.0, "the stream counted")


def _is_observed(mirrored: MirroredNamespace) -> bool:
    found = mirrored.admin.get("gitdestination", "destination")
    return bool(found["status"]["observedGeneration"] == found["metadata"]["generation"])


def _missing(operator: Operator) -> list[str]:
    return sorted(_zero_metrics(operator) - ZERO_IN_HEALTHY_RUN.keys())
