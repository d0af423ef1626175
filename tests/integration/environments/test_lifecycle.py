"""Environments on a real API server, from their first sight to their end."""

from __future__ import annotations

import pytest

from tests.support.previews import CONFIG_MAP, CONFIG_MAPS, ENVIRONMENTS, NAMESPACES, Previews

pytestmark = pytest.mark.cluster


@pytest.mark.scenario("E18")
async def test_a_pair_becomes_a_running_copy(tenant: Previews) -> None:
    """Finalizer, Initializing, a namespace with our marks, and the objects of the commit."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        found = await tenant.phase("Ready")
    assert found["metadata"]["finalizers"] == ["catalyst.dev/finalizer"]
    place = await tenant.api.get(NAMESPACES, found["status"]["namespace"])
    labels = place["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert labels["catalyst.dev/environment-uid"] == found["metadata"]["uid"]
    applied = await tenant.api.get(CONFIG_MAPS, "settings", found["status"]["namespace"])
    assert applied["data"] == {"colour": "blue"}


@pytest.mark.scenario("E21", "E70")
async def test_a_new_commit_is_followed_and_deletion_takes_all_away(tenant: Previews) -> None:
    """What left the source leaves the cluster; the end waits for the namespace."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        place = await tenant.place()
        other = CONFIG_MAP.replace("settings", "other")
        tenant.commit({"deploy/all.yaml": other})
        await tenant.gone(CONFIG_MAPS, "settings", place)
        await tenant.api.get(CONFIG_MAPS, "other", place)
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.gone(NAMESPACES, place)
        await tenant.gone(ENVIRONMENTS, "one", tenant.namespace)
