"""The generated roles on a real API server: what the operator may do, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.api.server import Server
from windlass.api import rbac
from windlass.api.install import Install

pytestmark = pytest.mark.cluster

OWN = "configbutler.ai"
HOOKS = "admissionregistration.k8s.io"

Ask = Callable[..., bool]


def _bind(kubectl: Any, install: Install, user: str, watch: rbac.WatchMode) -> None:
    documents = rbac.documents(
        [rbac.user(user)], install=install, watch=watch, capabilities=("reverser",)
    )
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    done = kubectl("apply", "-f", "-", stdin=manifest)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def install(kubectl: Any, namespace: str) -> Iterator[Install]:
    """A release of its own in the test's namespace, taken away afterwards."""
    place = Install(release=f"w-{namespace}", namespace=namespace)
    yield place
    label = f"app.kubernetes.io/instance={place.release}"
    policies = "validatingadmissionpolicybinding,validatingadmissionpolicy"
    kubectl("delete", f"clusterrolebinding,clusterrole,{policies}", "-l", label)


def _asking(server: Server, user: str) -> Ask:
    def ask(verb: str, resource: str, *, group: str = "", ns: str = "", name: str = "") -> bool:
        plural, _, subresource = resource.partition("/")
        attributes = {
            "verb": verb,
            "group": group,
            "resource": plural,
            "subresource": subresource,
            "namespace": ns,
            "name": name,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        }
        answer = server.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        assert answer.accepted, answer.message
        return bool(answer.body["status"]["allowed"])

    return ask


def test_the_operator_may_do_its_work(server: Server, kubectl: Any, install: Install) -> None:
    """Every right that the operator needs is given by the generated roles."""
    user = f"{install.release}-operator"
    _bind(kubectl, install, user, "selected")
    may = _asking(server, user)
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
    assert may("create", "leases", group="coordination.k8s.io", ns=install.namespace)
    assert may(
        "update", "leases", group="coordination.k8s.io", ns=install.namespace, name=install.lease
    )
    assert may("create", "secrets", ns=install.namespace)
    assert may("patch", "pods", ns=install.namespace)
    hook = install.webhook_configuration
    assert may("patch", "validatingwebhookconfigurations", group=HOOKS, name=hook)


def test_the_operator_may_not_do_more(server: Server, kubectl: Any, install: Install) -> None:
    """No write to mirrored types, no power over rights, no other namespace's secrets."""
    user = f"{install.release}-operator"
    _bind(kubectl, install, user, "selected")
    may = _asking(server, user)
    for verb in ("create", "update", "patch", "delete"):
        assert not may(verb, "configmaps", ns="team-a")
        assert not may(verb, "deployments", group="apps", ns="team-a")
        assert not may(verb, "gitrepoconfigs", group=OWN, ns="team-a")
    assert not may("create", "secrets", ns="team-a")
    assert not may("update", "secrets", ns=install.namespace)
    for verb in ("escalate", "bind"):
        assert not may(verb, "clusterroles", group=rbac.RBAC_GROUP)
    assert not may("impersonate", "users")
    assert not may("patch", "validatingwebhookconfigurations", group=HOOKS, name="other")
    lease = "kube-controller-manager"
    assert not may("update", "leases", group="coordination.k8s.io", ns="kube-system", name=lease)
    assert not may("update", "leases", group="coordination.k8s.io", ns=install.namespace, name="x")
    assert not may("list", "pods", ns="team-a")
    assert not may("list", "cronjobs", group="batch")
    assert not may("patch", "pods", ns="team-a")


def test_secrets_can_be_taken_away(server: Server, kubectl: Any, install: Install) -> None:
    """Without the binding of the Secrets role they cannot be listed, and all else can."""
    user = f"{install.release}-operator"
    _bind(kubectl, install, user, "selected")
    done = kubectl("delete", "clusterrolebinding", f"{install.reverser}-watch-secrets")
    assert done.returncode == 0, done.stderr
    may = _asking(server, user)
    assert not may("list", "secrets")
    assert not may("watch", "secrets", ns=install.namespace)
    assert may("list", "configmaps")


def test_mode_any_reads_every_type(server: Server, kubectl: Any, install: Install) -> None:
    """In mode any every type can be watched and still none written."""
    user = f"{install.release}-any"
    _bind(kubectl, install, user, "any")
    may = _asking(server, user)
    assert may("watch", "cronjobs", group="batch")
    assert may("list", "widgets", group="example.com")
    assert not may("create", "widgets", group="example.com")


def test_people_get_rights_by_aggregation(kubectl: Any, install: Install) -> None:
    """Who may edit a namespace may mirror it, but not the cluster."""
    _bind(kubectl, install, f"{install.release}-operator", "selected")
    view = kubectl("get", "clusterrole", f"{install.reverser}-view", "-o", "json")
    labels = json.loads(view.stdout)["metadata"]["labels"]
    assert labels["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    edit = kubectl("get", "clusterrole", f"{install.reverser}-edit", "-o", "json")
    (rule,) = json.loads(edit.stdout)["rules"]
    assert "clusterwatchrules" not in rule["resources"]
