"""Reading and writing objects on a real API server."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.kube.reflector_events import CONFIGMAPS, config_map
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Unavailable
from windlass.objects.names import GVR

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

MANAGER = "windlass-test"
NAMESPACES = GVR("", "v1", "namespaces")
DEPLOYMENTS = GVR("apps", "v1", "deployments")


async def test_create_read_replace_delete(api: Api, namespace: str) -> None:
    """The life cycle of one object."""
    created = await api.create(CONFIGMAPS, config_map("a", namespace, k="1"), field_manager=MANAGER)
    assert created["metadata"]["managedFields"][0]["manager"] == MANAGER
    read = await api.get(CONFIGMAPS, "a", namespace)
    assert read == created
    replaced = await api.replace(CONFIGMAPS, read | {"data": {"k": "2"}}, field_manager=MANAGER)
    assert replaced["data"] == {"k": "2"}
    await api.delete(CONFIGMAPS, "a", namespace)
    with pytest.raises(NotFound) as caught:
        await api.get(CONFIGMAPS, "a", namespace)
    assert caught.value.status == 404


async def test_taken_name(api: Api, namespace: str) -> None:
    """A second create of a name is AlreadyExists, not any conflict."""
    await api.create(CONFIGMAPS, config_map("a", namespace), field_manager=MANAGER)
    with pytest.raises(AlreadyExists):
        await api.create(CONFIGMAPS, config_map("a", namespace), field_manager=MANAGER)


async def test_stale_replace(api: Api, namespace: str) -> None:
    """Replacing a version that was not read is a Conflict."""
    old = await api.create(CONFIGMAPS, config_map("a", namespace), field_manager=MANAGER)
    await api.replace(CONFIGMAPS, old | {"data": {"k": "2"}}, field_manager=MANAGER)
    with pytest.raises(Conflict):
        await api.replace(CONFIGMAPS, old | {"data": {"k": "3"}}, field_manager=MANAGER)


async def test_server_side_apply(api: Api, namespace: str) -> None:
    """Apply creates, changes, and owns its fields; fields of others need force."""
    await api.apply(CONFIGMAPS, config_map("a", namespace, mine="1"), field_manager=MANAGER)
    with pytest.raises(Conflict, match="conflict"):
        await api.apply(
            CONFIGMAPS, config_map("a", namespace, mine="2"), field_manager="other", force=False
        )
    forced = await api.apply(
        CONFIGMAPS, config_map("a", namespace, mine="2"), field_manager="other"
    )
    assert forced["data"] == {"mine": "2"}


async def test_dry_run_leaves_nothing(api: Api, namespace: str) -> None:
    """A dry run returns the object without storing it."""
    tried = await api.create(
        CONFIGMAPS, config_map("a", namespace, k="1"), field_manager=MANAGER, dry_run=True
    )
    assert tried["metadata"]["uid"]
    await api.apply(CONFIGMAPS, config_map("b", namespace), field_manager=MANAGER, dry_run=True)
    names = {obj["metadata"]["name"] for obj in await api.list(CONFIGMAPS, namespace)}
    assert not names & {"a", "b"}


async def test_patches(api: Api, namespace: str) -> None:
    """Merge patches and JSON patches change one field and leave the others."""
    await api.create(CONFIGMAPS, config_map("a", namespace, k="1", l="1"), field_manager=MANAGER)
    await api.merge_patch(CONFIGMAPS, "a", {"data": {"k": "2"}}, namespace, field_manager=MANAGER)
    patched = await api.json_patch(
        CONFIGMAPS,
        "a",
        [{"op": "test", "path": "/data/k", "value": "2"}, {"op": "remove", "path": "/data/l"}],
        namespace,
        field_manager=MANAGER,
    )
    assert patched["data"] == {"k": "2"}
    with pytest.raises(Invalid):
        await api.json_patch(
            CONFIGMAPS,
            "a",
            [{"op": "test", "path": "/data/k", "value": "9"}],
            namespace,
            field_manager=MANAGER,
        )


async def test_subresources(api: Api, namespace: str) -> None:
    """A subresource is read and written beside its object."""
    labels = {"app": "web"}
    container = {"name": "web", "image": "registry.invalid/web:1"}
    await api.create(
        DEPLOYMENTS,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        },
        field_manager=MANAGER,
    )
    scale = await api.get(DEPLOYMENTS, "web", namespace, subresource="scale")
    assert scale["kind"] == "Scale"
    await api.merge_patch(
        DEPLOYMENTS,
        "web",
        {"status": {"observedGeneration": 1}},
        namespace,
        field_manager=MANAGER,
        subresource="status",
    )


async def test_a_delete_with_preconditions_hits_no_other_object(api: Api, namespace: str) -> None:
    """Neither a recreated object nor a newer version."""
    old = await api.create(CONFIGMAPS, config_map("a", namespace), field_manager=MANAGER)
    version = old["metadata"]["resourceVersion"]
    await api.merge_patch(CONFIGMAPS, "a", {"data": {"k": "1"}}, namespace, field_manager=MANAGER)
    with pytest.raises(Conflict):
        await api.delete(CONFIGMAPS, "a", namespace, uid=str(uuid.uuid4()))
    with pytest.raises(Conflict):
        await api.delete(CONFIGMAPS, "a", namespace, resource_version=version)
    await api.delete(
        CONFIGMAPS, "a", namespace, uid=old["metadata"]["uid"], propagation="Background"
    )


async def test_invalid_object(api: Api, namespace: str) -> None:
    """The error has the server's message."""
    with pytest.raises(Invalid, match="RFC 1123"):
        await api.create(CONFIGMAPS, config_map("Not_Valid", namespace), field_manager=MANAGER)


async def test_pages_and_selectors(api: Api, namespace: str) -> None:
    """Pages have every object once, with kind and apiVersion; selectors narrow the list."""
    for number in range(7):
        obj = config_map(f"c{number}", namespace)
        obj["metadata"]["labels"] = {"odd": str(number % 2)}
        await api.create(CONFIGMAPS, obj, field_manager=MANAGER)
    pages = [page async for page in api.pages(CONFIGMAPS, namespace, limit=3)]
    assert len(pages) >= 3
    assert len({page.resource_version for page in pages}) == 1
    listed = await api.list(CONFIGMAPS, namespace, limit=3)
    assert {f"c{number}" for number in range(7)} <= {obj["metadata"]["name"] for obj in listed}
    assert all((obj["kind"], obj["apiVersion"]) == ("ConfigMap", "v1") for obj in listed)
    odd = await api.list(CONFIGMAPS, namespace, label_selector="odd=1")
    assert [obj["metadata"]["name"] for obj in odd] == ["c1", "c3", "c5"]


async def test_text(api: Api) -> None:
    """Paths that are not objects return text."""
    assert await api.text("/livez/ping") == "ok"


async def test_cluster_scoped(api: Api, namespace: str) -> None:
    """Objects without a namespace are read by name alone."""
    assert (await api.get(NAMESPACES, namespace))["metadata"]["name"] == namespace


async def test_forbidden(cluster: LocalCluster, namespace: str) -> None:
    """A user without rights gets Forbidden with the server's explanation."""
    kubeconfig = cluster.user_kubeconfig("nobody-in-particular")
    async with Connection.open(kubeconfig=kubeconfig) as connection:
        with pytest.raises(Forbidden, match="cannot list"):
            await Api(connection).list(CONFIGMAPS, namespace)


async def test_an_unreachable_server_is_unavailable(tmp_path: Path) -> None:
    """Quickly, and without credentials of its address in the message."""
    kubeconfig = tmp_path / "away"
    kubeconfig.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],"
        " clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}],"
        " users: [{name: a, user: {token: abcdefgh}}]}"
    )
    async with Connection.open(kubeconfig=kubeconfig) as connection:
        with pytest.raises(Unavailable) as caught:
            await Api(connection).text("/readyz")
    assert caught.value.status == 0
