"""URL paths of objects on the API server."""

from __future__ import annotations

import pytest

from windlass.base.errors import Stalled
from windlass.kube import api
from windlass.objects.names import GVR

CONFIGMAPS = GVR("", "v1", "configmaps")
DEPLOYMENTS = GVR("apps", "v1", "deployments")
ROLES = GVR("rbac.authorization.k8s.io", "v1", "clusterroles")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (api.collection_path(CONFIGMAPS), "/api/v1/configmaps"),
        (api.collection_path(CONFIGMAPS, "shop"), "/api/v1/namespaces/shop/configmaps"),
        (api.collection_path(DEPLOYMENTS, "shop"), "/apis/apps/v1/namespaces/shop/deployments"),
        (
            api.object_path(DEPLOYMENTS, "web", "shop", "scale"),
            "/apis/apps/v1/namespaces/shop/deployments/web/scale",
        ),
        (
            api.object_path(ROLES, "system:node"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        ),
    ],
)
def test_path(path: str, expected: str) -> None:
    """A type, a namespace and a name make exactly one path."""
    assert path == expected


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../secrets/x"])
def test_a_name_that_leaves_its_path_is_refused(name: str) -> None:
    """A name that would lead to another object is refused before any request."""
    with pytest.raises(Stalled, match="is not a valid object name"):
        api.object_path(CONFIGMAPS, name, "shop")


def test_query_in_name_is_encoded() -> None:
    """A question mark in a name stays in the name."""
    assert api.object_path(CONFIGMAPS, "a?b=c").endswith("/a%3Fb%3Dc")
