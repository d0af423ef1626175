"""The table of programs."""

from __future__ import annotations

import pytest

from windlass_dev.programs import tools


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ("etcd Version: 3.6.16\nGit SHA: x\nGo Version: go1.26.8\n", "3.6.16"),
        ("Kubernetes v1.35.4\n", "v1.35.4"),
        ("Client Version: v1.35.4\nKustomize Version: v5.7.1\n", "v1.35.4"),
        ("Kubernetes v1.35.4-rc.1+dirty\n", "v1.35.4-rc.1+dirty"),
        ("Helm v3.20.2", "v3.20.2"),
        ("some wrapper, warming up\nKubernetes v1.35.4\n", "v1.35.4"),
        ("Kubernetes\n", None),
        ("", None),
    ],
)
def test_reads_the_version_from_the_output(answer: str, version: str | None) -> None:
    """In the program's own format, and nothing else."""
    assert tools.parse_version(answer) == version


def test_kubernetes_is_linked_with_its_version() -> None:
    """Without these flags the server would report v0.0.0."""
    flags = tools.link_flags(tools.API_SERVER)
    assert "version.gitVersion=v1.35.4" in flags
    assert "version.gitMajor=1 " in flags
    assert flags.endswith("version.gitMinor=35")


def test_etcd_is_linked_without_kubernetes_flags() -> None:
    """The version package exists only in Kubernetes."""
    assert tools.link_flags(tools.ETCD) == "-s -w"


def test_helm_is_linked_with_its_version() -> None:
    """Without it a build has its minor version only."""
    assert tools.link_flags(tools.HELM).endswith("version.version=v3.20.2")


def test_build_is_reproducible_and_named() -> None:
    """Paths of the build machine are trimmed and the output has the given path."""
    arguments = tools.build_arguments(tools.KUBECTL, "/x/kubectl")
    assert arguments[:2] == ["build", "-trimpath"]
    assert arguments[-3:] == ["-o", "/x/kubectl", "k8s.io/kubernetes/cmd/kubectl"]
