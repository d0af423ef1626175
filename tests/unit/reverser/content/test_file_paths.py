"""Where files stand, by example."""

from __future__ import annotations

import pytest

from windlass.objects.names import GVR, Identity
from windlass.reverser.content import file_paths

ROLES = GVR("rbac.authorization.k8s.io", "v1", "clusterroles")


@pytest.mark.parametrize(
    ("identity", "path"),
    [
        (Identity(GVR("", "v1", "configmaps"), "shop", "a"), "v1/configmaps/shop/a.yaml"),
        (Identity(GVR("apps", "v1", "deployments"), "s", "b"), "apps/v1/deployments/s/b.yaml"),
        (Identity(GVR("", "v1", "nodes"), "", "n.x"), "v1/nodes/n.x.yaml"),
    ],
)
def test_seed_layout(identity: Identity, path: str) -> None:
    """Core has no group segment, cluster-scoped objects no namespace segment."""
    assert file_paths.object_path(identity) == path
    assert file_paths.file_path("clusters/prod", identity) == f"clusters/prod/{path}"


@pytest.mark.scenario("A40")
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("system:node", "system%3Anode.yaml"),
        ("system:a b", "system%3Aa%20b.yaml"),
        ("A", "A.yaml"),
        ("con", "%63on.yaml"),
        ("CON", "%43ON.yaml"),
        ("aux.b", "%61ux.b.yaml"),
        ("com7", "%63om7.yaml"),
        ("console", "console.yaml"),
        ("xcon", "xcon.yaml"),
        (".git", "%2Egit.yaml"),
        ("a.", "a%2E.yaml"),
        ("...", "%2E.%2E.yaml"),
        ("git~1", "git%7E1.yaml"),
        ("é", "%C3%A9.yaml"),
        ('a\\b*?"<>|\n', "a%5Cb%2A%3F%22%3C%3E%7C%0A.yaml"),
        ("x=y+z@1,2-3_4", "x=y+z@1,2-3_4.yaml"),
    ],
)
def test_odd_names_are_encoded(name: str, file: str) -> None:
    """Every name becomes a file name that is legal everywhere."""
    assert (
        file_paths.object_path(Identity(ROLES, "", name)) == f"{ROLES.group}/v1/clusterroles/{file}"
    )


@pytest.mark.scenario("A40")
def test_long_names_are_cut_and_hashed() -> None:
    """A name whose file would be too long is cut; 235 characters still fit."""
    fits = file_paths.object_path(Identity(ROLES, "", "x" * 235)).rpartition("/")[2]
    cut = file_paths.object_path(Identity(ROLES, "", "x" * 236)).rpartition("/")[2]
    assert fits == "x" * 235 + ".yaml"
    prefix, _, rest = cut.partition("~")
    assert prefix == "x" * 200
    assert len(rest) == 32 + len(".yaml")
    other = file_paths.object_path(Identity(ROLES, "", "x" * 237)).rpartition("/")[2]
    assert other != cut


def test_cut_never_splits_an_escape() -> None:
    """The prefix ends on a whole `%XX`."""
    file = file_paths.object_path(Identity(ROLES, "", "xx" + ":" * 100)).rpartition("/")[2]
    prefix = file.partition("~")[0]
    assert prefix == "xx" + "%3A" * 66


def test_scope_folder_holds_the_files_of_the_scope() -> None:
    """The folder of a type and namespace is the beginning of its files' paths."""
    identity = Identity(GVR("apps", "v1", "deployments"), "s", "b")
    folder = file_paths.scope_folder("base", identity.gvr, "s")
    assert folder == "base/apps/v1/deployments/s"
    assert file_paths.file_path("base", identity).startswith(folder + "/")
