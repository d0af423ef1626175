"""The generated roles on a real API server: what the operator may do, and nothing else."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.integration.api import rights
from tests.integration.api.server import Server
from tests.support.processes.operator import eventually
from windlass.api.install import cluster_roles, rbac
from windlass.api.install.cluster_roles import WatchMode
from windlass.api.install.installation import Installation

pytestmark = pytest.mark.cluster

OWN = "configbutler.ai"
HOOKS = "admissionregistration.k8s.io"

May = Callable[..., bool]


def _granted(server: Server, install: Installation) -> May:
    return functools.partial(rights.allows, server, _operator(install))


def _operator(install: Installation) -> str:
    return f"{install.release}-operator"


def _installed(server: Server, watch: WatchMode) -> Iterator[Installation]:
    """A release of its own, uninstalled afterwards."""
    release = f"w-{uuid.uuid4().hex[:10]}"
    own_installation = Installation(release=release, namespace=f"{release}-own")
    by_file = rbac.documents_by_file(
        [rbac.user_subject(_operator(own_installation))], installation=own_installation, watch=watch
    )
    documents = [
        doc for file, docs in by_file.items() if file.startswith(("0", "reverser")) for doc in docs
    ]
    rights.grant(server, own_installation, documents)
    yield own_installation
    rights.revoke(server, own_installation)


@pytest.fixture(scope="module")
def selected(server: Server) -> Iterator[Installation]:
    """A release in mode selected, for tests that do not change it."""
    yield from _installed(server, "selected")


@pytest.fixture
def without_secrets(server: Server) -> Iterator[Installation]:
    """A release in mode selected whose binding of the Secrets role was deleted."""
    for own_installation in _installed(server, "selected"):
        bindings = f"/apis/{cluster_roles.RBAC_GROUP}/v1/clusterrolebindings"
        gone = server.delete(f"{bindings}/{own_installation.reverser_role}-watch-secrets")
        assert gone.accepted, gone.message
        yield own_installation


@pytest.fixture
def watching_any(server: Server) -> Iterator[Installation]:
    """A release in mode any."""
    yield from _installed(server, "any")


def test_the_operator_may_do_its_work(server: Server, selected: Installation) -> None:
    """Every right that the operator needs is granted by the generated roles."""
    may = _granted(server, selected)
    for plural in ("gitrepoconfigs", "gitdestinations", "watchrules", "clusterwatchrules"):
        assert may("watch", plural, group=OWN)
        assert may("patch", f"{plural}/status", group=OWN)
    assert may("get", "secrets", ns="team-a", name="infra-git")
    assert may("get", "configmaps", ns="team-a", name="hosts")
    assert may("get", "namespaces", name="kube-system")
    assert may("create", "events", ns="team-a")
    assert may("create", "events", group="events.k8s.io", ns="team-a")
    assert may("watch", "customresourcedefinitions", group="apiextensions.k8s.io")
    assert may("watch", "apiservices", group="apiregistration.k8s.io")
    assert may("watch", "deployments", group="apps")
    assert may("watch", "secrets")
    assert may("create", "leases", group="coordination.k8s.io", ns=selected.namespace)
    assert may(
        "update", "leases", group="coordination.k8s.io", ns=selected.namespace, name=selected.lease
    )
    assert may("create", "secrets", ns=selected.namespace)
    assert may("patch", "pods", ns=selected.namespace)
    hook = selected.webhook_configuration
    assert may("patch", "validatingwebhookconfigurations", group=HOOKS, name=hook)


def test_the_operator_may_not_do_more(server: Server, selected: Installation) -> None:
    """No write to mirrored types, no power over rights, no other namespace's secrets."""
    may = _granted(server, selected)
    for verb in ("create", "update", "patch", "delete"):
        assert not may(verb, "configmaps", ns="team-a")
        assert not may(verb, "deployments", group="apps", ns="team-a")
        assert not may(verb, "gitrepoconfigs", group=OWN, ns="team-a")
    assert not may("create", "secrets", ns="team-a")
    assert not may("update", "secrets", ns=selected.namespace)
    for verb in ("escalate", "bind"):
        assert not may(verb, "clusterroles", group=cluster_roles.RBAC_GROUP)
    assert not may("impersonate", "users")
    assert not may("patch", "validatingwebhookconfigurations", group=HOOKS, name="other")
    lease = "kube-controller-manager"
    assert not may("update", "leases", group="coordination.k8s.io", ns="kube-system", name=lease)
    assert not may("update", "leases", group="coordination.k8s.io", ns=selected.namespace, name="x")
    assert not may("list", "pods", ns="team-a")
    assert not may("list", "cronjobs", group="batch")
    assert not may("patch", "pods", ns="team-a")


def test_secrets_can_be_excluded(server: Server, without_secrets: Installation) -> None:
    """Without the binding of the Secrets role they cannot be listed, and all else can."""
    may = _granted(server, without_secrets)
    eventually(lambda: not may("list", "secrets"), "Secrets cannot be listed")
    assert not may("watch", "secrets", ns=without_secrets.namespace)
    assert may("list", "configmaps")


def test_mode_any_reads_every_type(server: Server, watching_any: Installation) -> None:
    """In mode any every type can be watched and still none written."""
    may = _granted(server, watching_any)
    assert may("watch", "cronjobs", group="batch")
    assert may("list", "widgets", group="example.com")
    assert not may("create", "widgets", group="example.com")


def test_people_get_rights_by_aggregation(server: Server, selected: Installation) -> None:
    """Users who may edit a namespace may mirror it, but not the cluster."""
    roles = f"/apis/{cluster_roles.RBAC_GROUP}/v1/clusterroles"
    view = server.get(f"{roles}/{selected.reverser_role}-view").body
    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    (rule,) = server.get(f"{roles}/{selected.reverser_role}-edit").body["rules"]
    assert "clusterwatchrules" not in rule["resources"]
