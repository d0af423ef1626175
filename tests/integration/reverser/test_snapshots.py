"""What a snapshot may conclude, on real parts: removals, confirmations, fallbacks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster import control_plane as clusters
from tests.support.cluster import custom_resource
from tests.support.cluster.custom_resource import CustomResource
from tests.support.git.http_server import commit_files
from tests.support.kube.reflector_events import CONFIGMAPS, QUICK, collect_until_synced
from tests.support.kube.watch_proxy import ProxiedRequest, ProxyResponse, WatchProxy
from tests.support.processes.operator import eventually
from tests.support.reverser.api_users import admin_user, api_user
from tests.support.reverser.central_repository import configure_mirror
from tests.support.reverser.leftover_folder import write_leftover_folder
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.reflector import Scope, SnapshotComplete, reflect
from windlass.objects.names import GVR, Identity
from windlass.objects.resources import SERVICE_ACCOUNTS
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

SERVICES = GVR("", "v1", "services")


@pytest.mark.scenario("A97")
def test_a_group_that_begins_with_v_is_not_the_core_group(mirrored: MirroredNamespace) -> None:
    """A snapshot of v1 types removes nothing of velero.io, and the other way round."""
    namespace = mirrored.namespace
    backups = CustomResource("velero.io", plural="backups", kind="Backup")
    old, gone = backups.new_object(namespace, "old"), mirrored.config_map("old", a="1")
    write_leftover_folder(
        mirrored, old, gone, plurals={"Backup": "backups", "ConfigMap": "configmaps"}
    )
    with custom_resource.installed_resource(admin_user(mirrored), backups):
        mirrored.admin.apply(
            mirrored.config_map("live", a="1"), backups.new_object(namespace, "live")
        )
        kept = {"resources": ["backups"], "operations": ["CREATE", "UPDATE"]}
        mirrored.configured({"resources": ["configmaps"]}, kept)
        maps = f"v1/configmaps/{namespace}"
        expected = {f"{maps}/live.yaml", backups.file(namespace, "live")}
        both = {*expected, backups.file(namespace, "old")}
        eventually(lambda: mirrored.files().keys() == both, "the ConfigMap alone removed")
        mirrored.admin.apply(mirrored.watch_rule({"resources": ["configmaps", "backups"]}))
        eventually(lambda: mirrored.files().keys() == expected, "the backup removed")


@pytest.mark.scenario("A91")
def test_an_empty_list_removes_what_a_get_confirms(mirrored: MirroredNamespace) -> None:
    """SNP-4: after an empty list the object is requested by name before its file is removed."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "old", "namespace": mirrored.namespace},
        "spec": {"ports": [{"port": 80}]},
    }
    write_leftover_folder(mirrored, service, plurals={"Service": "services"})
    assert len(mirrored.files()) == 1
    mirrored.configured({"resources": ["services"]})
    eventually(lambda: not mirrored.files(), "the file gone")
    assert mirrored.subjects()[0].startswith("[SYNC] 1 object (+0 ~0 -1)")


@pytest.mark.scenario("A95")
def test_files_in_an_unclaimed_folder_survive_the_first_snapshot(
    mirrored: MirroredNamespace,
) -> None:
    """A hand-written object file that was there before our claim survives the first sync."""
    foreign = mirrored.config_map("by-hand", a="1")
    path = f"v1/configmaps/{mirrored.namespace}/by-hand.yaml"
    files = {path: yaml.safe_dump(foreign), "kustomization.yaml": "resources: []\n"}
    commit_files(mirrored.path, {f"{mirrored.folder}/{name}": text for name, text in files.items()})
    mirrored.admin.apply(mirrored.config_map("live", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    eventually(lambda: len(mirrored.commits()) > 1, "the first sync")
    assert mirrored.file(path) == files[path]
    assert mirrored.file("kustomization.yaml") == "resources: []\n"


@pytest.fixture
async def api(cluster: LocalCluster) -> AsyncIterator[Api]:
    """A client of the API server."""
    async with Connection.open(kubeconfig=cluster.admin_kubeconfig) as connection:
        yield Api(connection)


@pytest.mark.scenario("A91")
async def test_only_the_api_server_confirms_a_deletion(api: Api) -> None:
    """SNP-4: neither an existing object nor a type that is not served confirms a deletion."""
    assert not await api.is_deleted(Identity(SERVICE_ACCOUNTS, "default", "default"))
    assert await api.is_deleted(Identity(CONFIGMAPS, "kube-system", "no-such-thing"))
    unserved = GVR("nobody.example.org", "v1", "things")
    assert not await api.is_deleted(Identity(unserved, "kube-system", "no-such-thing"))
    assert not await api.is_deleted(Identity(GVR("apps", "v1", "nothings"), "kube-system", "x"))


@pytest.mark.scenario("A98")
def test_namesakes_in_two_namespaces_are_two_objects(
    platform: MirroredNamespace, mirrored: MirroredNamespace
) -> None:
    """One stream over all namespaces keeps them apart."""
    with clusters.fresh_namespace(mirrored.cluster) as other:
        people = {name: api_user(mirrored, "admin", name) for name in (mirrored.namespace, other)}
        for number, (name, person) in enumerate(people.items()):
            person.apply({**mirrored.config_map("same", a=str(number)), **_at(name)})
        configure_mirror(platform, {"scope": "Namespaced", "resources": ["configmaps"]})
        _await_values(platform, {mirrored.namespace: "0", other: "1"})
        people[other].apply({**mirrored.config_map("same", a="0"), **_at(other)})
        _await_values(platform, {mirrored.namespace: "0", other: "0"})
        people[mirrored.namespace].apply(mirrored.config_map("same", a="1"))
        _await_values(platform, {mirrored.namespace: "1", other: "0"})
        people[other].delete("configmap", "same")
        _await_values(platform, {mirrored.namespace: "1", other: ""})


def _at(namespace: str) -> dict[str, Any]:
    return {"metadata": {"name": "same", "namespace": namespace}}


def _await_values(platform: MirroredNamespace, wanted: dict[str, str]) -> None:
    def found() -> dict[str, str]:
        texts = {name: platform.file(f"v1/configmaps/{name}/same.yaml") for name in wanted}
        return {
            name: yaml.safe_load(text)["data"]["a"] if text else "" for name, text in texts.items()
        }

    eventually(lambda: found() == wanted, f"{wanted}")


@pytest.mark.scenario("A99")
async def test_a_type_without_watchlist_falls_back_alone(
    cluster: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    """One type is listed as its server demands; its neighbour still streams its snapshot."""
    refusal = ProxyResponse(422, "sendInitialEvents is forbidden for watch", "Invalid")

    def refused(seen: ProxiedRequest) -> bool:
        return seen.is_watchlist and seen.path.endswith("/configmaps")

    async with WatchProxy(cluster.admin_kubeconfig) as proxy:
        proxy.fault(refusal, when=refused, times=None)
        kubeconfig = proxy.write_kubeconfig(tmp_path / "kubeconfig")
        async with Connection.open(kubeconfig=kubeconfig) as connection:
            ways = {}
            for gvr in (CONFIGMAPS, SERVICES):
                scope = Scope(gvr, namespace)
                async with aclosing(reflect(connection, scope, QUICK)) as items:
                    last = (await collect_until_synced(items))[-1]
                assert isinstance(last, SnapshotComplete)
                ways[gvr] = last.via
    assert ways == {CONFIGMAPS: "list", SERVICES: "watchlist"}
