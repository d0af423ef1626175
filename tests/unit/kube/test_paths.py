"""Where objects live on the API server."""

from __future__ import annotations

import pytest

from windlass.base.errors import Stalled
from windlass.kube import paths
from windlass.objects.names import GVR

CONFIGMAPS = GVR("", "v1", "configmaps")
DEPLOYMENTS = GVR("apps", "v1", "deployments")
ROLES = GVR("rbac.authorization.k8s.io", "v1", "clusterroles")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (paths.collection(CONFIGMAPS), "/api/v1/configmaps"),
        (paths.collection(CONFIGMAPS, "shop"), "/api/v1/namespaces/shop/configmaps"),
        (paths.collection(DEPLOYMENTS, "shop"), "/apis/apps/v1/namespaces/shop/deployments"),
        (
            paths.item(DEPLOYMENTS, "web", "shop", "scale"),
            "/apis/apps/v1/namespaces/shop/deployments/web/scale",
        ),
        (
            paths.item(ROLES, "system:node"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        ),
        (paths.group_version(CONFIGMAPS), "/api/v1"),
    ],
)
def test_path(path: str, expected: str) -> None:
    """A type, a namespace and a name make exactly one path."""
    assert path == expected


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../secrets/x"])
def test_name_that_leaves_its_place(name: str) -> None:
    """A name that would lead to another object is refused before any request."""
    with pytest.raises(Stalled, match="cannot be a name"):
        paths.item(CONFIGMAPS, name, "shop")


def test_query_in_name_is_encoded() -> None:
    """A question mark in a name stays in the name."""
    assert paths.item(CONFIGMAPS, "a?b=c").endswith("/a%3Fb%3Dc")
