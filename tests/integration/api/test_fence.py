"""The fence and the rights of gateways and environments on a real API server."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from windlass.api import fence, rbac
from windlass.api.install import Install
from windlass.api.rbac_environments import APPLIER, MANAGER_BINDING

pytestmark = pytest.mark.cluster

Run = Callable[..., subprocess.CompletedProcess[str]]
RBAC = {"apiVersion": "rbac.authorization.k8s.io/v1"}


@dataclass(frozen=True)
class Fenced:
    """An installation whose operator is a person with a certificate."""

    install: Install
    user: str
    admin: Run
    operator: Run

    def may(self, *arguments: str, stdin: str = "") -> None:
        done = self.operator(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr

    def may_not(self, told: str, *arguments: str, stdin: str = "") -> None:
        done = self.operator(*arguments, stdin=stdin)
        assert done.returncode != 0, done.stdout
        assert told in done.stderr

    def environment(self, name: str, uid: str = "u-1") -> None:
        """The operator makes a namespace as an Environment's."""
        self.may("create", "-f", "-", stdin=json.dumps(_namespace(name, uid)))


FENCE = "the operator writes only to its own namespace"
NAMESPACES = "the operator changes only namespaces that carry the uid"


def _namespace(name: str, uid: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "labels": {fence.NAMESPACE_TYPE: fence.ENVIRONMENT, fence.ENVIRONMENT_UID: uid},
        "annotations": {fence.ENVIRONMENT_UID: uid},
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _binding(name: str, role: str, user: str, *, kind: str = "ClusterRole") -> str:
    subject = rbac.user(user)
    reference = {"apiGroup": rbac.RBAC_GROUP, "kind": kind, "name": role}
    body = {"kind": "RoleBinding", "metadata": {"name": name}, "roleRef": reference}
    return json.dumps(RBAC | body | {"subjects": [subject]})


@pytest.fixture
def fenced(installed: Any, kubectl: Any, namespace: str) -> Iterator[Fenced]:
    """The generated rights and policies in force, for an operator of this test's own."""
    place = Install(release=f"w-{namespace}", namespace=f"{namespace}-own")
    user = f"{place.release}-operator"
    documents = rbac.documents(
        [rbac.user(user)], install=place, capabilities=("gateways", "environments")
    )
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    done = kubectl("apply", "-f", "-", stdin=manifest)
    assert done.returncode == 0, done.stderr
    config = installed.user_kubeconfig(user)

    def operator(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(installed.kubectl), "--kubeconfig", str(config), *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)

    found = Fenced(place, user, kubectl, operator)
    _until_in_force(found, namespace)
    yield found
    label = f"app.kubernetes.io/instance={place.release}"
    policies = "validatingadmissionpolicybinding,validatingadmissionpolicy"
    kubectl(
        "delete",
        f"{policies},clusterrolebinding,clusterrole,namespace",
        "-l",
        label,
        "--wait=false",
    )


def _until_in_force(fenced: Fenced, namespace: str) -> None:
    """Policies are compiled a moment after they were written."""
    deadline = time.monotonic() + 60
    marked = json.dumps(_namespace(f"{namespace}-probe", "x"))
    dry = ("create", "--dry-run=server", "-f", "-")
    while True:
        by_operator = fenced.operator(
            "create", "configmap", "p", "-n", namespace, "--dry-run=server"
        )
        by_admin = fenced.admin(*dry, stdin=marked)
        if FENCE in by_operator.stderr and "only windlass sets" in by_admin.stderr:
            return
        assert time.monotonic() < deadline, (by_operator.stderr, by_admin.stderr)


@pytest.fixture
def almighty(fenced: Fenced, kubectl: Any) -> Iterator[Fenced]:
    """The same operator with every right there is, so that only the fence can refuse."""
    name = f"{fenced.install.release}-all"
    made = kubectl(
        "create", "clusterrolebinding", name, "--clusterrole=cluster-admin", f"--user={fenced.user}"
    )
    assert made.returncode == 0, made.stderr
    yield fenced
    kubectl("delete", "clusterrolebinding", name)


@pytest.mark.scenario("E119")
def test_outside_the_operator_writes_nothing(almighty: Fenced, namespace: str) -> None:
    """With all rights the operator still cannot write into namespaces that are not its own."""
    here = ("-n", namespace)
    user = almighty.user
    almighty.may_not(FENCE, "create", "configmap", "x", *here)
    almighty.may_not(
        FENCE,
        "create",
        "-n",
        "kube-system",
        "-f",
        "-",
        stdin=_binding(MANAGER_BINDING, "admin", user),
    )
    almighty.may_not(FENCE, "create", "clusterrolebinding", "x", "--clusterrole=admin", "--user=y")
    almighty.may_not(FENCE, "delete", "serviceaccount", "default", *here)
    almighty.may_not(FENCE, "annotate", "serviceaccount", "default", "a=b", *here)


@pytest.mark.scenario("E119")
def test_no_token_of_a_foreign_account(almighty: Fenced, namespace: str) -> None:
    """A subresource is a write too: no token of somebody else's service account."""
    almighty.may_not(FENCE, "create", "token", "default", "-n", namespace)


@pytest.mark.scenario("E119")
def test_only_marked_namespaces_are_touched(almighty: Fenced, namespace: str) -> None:
    """A namespace is made with the uid, changed and deleted only with it, and keeps it."""
    bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{namespace}-b"}}
    almighty.may_not(NAMESPACES, "create", "-f", "-", stdin=json.dumps(bare))
    almighty.may_not(NAMESPACES, "label", "namespace", namespace, "a=b")
    almighty.may_not(NAMESPACES, "delete", "namespace", namespace, "--dry-run=server")
    own = f"{namespace}-e"
    almighty.environment(own)
    almighty.may("label", "namespace", own, "a=b")
    almighty.may_not(
        NAMESPACES, "annotate", "namespace", own, f"{fence.ENVIRONMENT_UID}=u-2", "--overwrite"
    )
    almighty.may("create", "configmap", "x", "-n", own)
    almighty.may("delete", "namespace", own, "--wait=false")


def test_what_is_its_own_stays_possible(almighty: Fenced, namespace: str) -> None:
    """Own namespace, own kinds, events, reviews and objects of gateways pass the fence."""
    here = ("-n", namespace)
    almighty.may("create", "configmap", "x", "-n", almighty.install.namespace)
    almighty.may("auth", "can-i", "create", "pods")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "told", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "name": "x", "namespace": namespace},
    }
    almighty.may("create", *here, "-f", "-", stdin=json.dumps(event))
    sync = {
        "apiVersion": "sync.ignition.io/v1alpha1",
        "kind": "IgnitionSync",
        "metadata": {"name": "site"},
        "spec": {
            "git": {"repo": "https://git.example.com/x", "ref": "main"},
            "gateway": {"apiKeySecretRef": {"name": "x"}},
        },
    }
    almighty.may("create", *here, "-f", "-", stdin=json.dumps(sync))
    patch = '{"status":{"lastSyncRef":"main"}}'
    almighty.may("patch", *here, "isync/site", "--subresource=status", "--type=merge", "-p", patch)
    almighty.may("create", "configmap", "ignition-sync-metadata-site", *here)
    wide = _binding("ignition-sync-agent-site", "admin", "somebody")
    almighty.may_not(FENCE, "create", *here, "-f", "-", stdin=wide)


def test_nobody_else_marks_a_namespace(fenced: Fenced, namespace: str) -> None:
    """Not even an administrator sets the marks, at creation, later or through a side door."""
    told = "only windlass sets"
    uid = f"{fence.ENVIRONMENT_UID}=u-9"
    kind = f"{fence.NAMESPACE_TYPE}={fence.ENVIRONMENT}"
    for attempt in (
        ("label", "namespace", namespace, kind),
        ("label", "namespace", namespace, uid),
        ("annotate", "namespace", namespace, uid),
    ):
        done = fenced.admin(*attempt)
        assert done.returncode != 0
        assert told in done.stderr
    patch = json.dumps({"metadata": {"annotations": {fence.ENVIRONMENT_UID: "u-9"}}})
    side = ("patch", "namespace", namespace, "--subresource=status", "--type=merge", "-p", patch)
    assert told in fenced.admin(*side).stderr
    assert fenced.admin("label", "namespace", namespace, "mine=1").returncode == 0


def test_marks_may_be_taken_away(fenced: Fenced, namespace: str) -> None:
    """People may work on a marked namespace and unmark it; then the operator leaves it alone."""
    own = f"{namespace}-m"
    fenced.environment(own)
    assert fenced.admin("label", "namespace", own, "mine=1").returncode == 0
    gone = fenced.admin("annotate", "namespace", own, f"{fence.ENVIRONMENT_UID}-")
    assert gone.returncode == 0, gone.stderr
    fenced.may_not(NAMESPACES, "delete", "namespace", own)
    again = fenced.admin("annotate", "namespace", own, f"{fence.ENVIRONMENT_UID}=u-1")
    assert "only windlass sets" in again.stderr
    fenced.admin("delete", "namespace", own, "--wait=false")


@pytest.mark.scenario("E120")
def test_the_rights_suffice_for_an_environment(fenced: Fenced, namespace: str) -> None:
    """With nothing but the generated rights: namespace, bindings, policies, a bundle."""
    own, install = f"{namespace}-e", fenced.install
    here = ("-n", own)
    fenced.environment(own)
    account = f"system:serviceaccount:{own}:{APPLIER}"
    for binding in (
        _binding(MANAGER_BINDING, install.environment_manager, fenced.user),
        _binding(APPLIER, install.environment_applier, account),
    ):
        fenced.may("apply", "--server-side", *here, "-f", "-", stdin=binding)
    _until(lambda: fenced.operator("create", "quota", "default-quota", "--hard=pods=1", *here))
    closed = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "default-policy"},
        "spec": {"podSelector": {}},
    }
    fenced.may("apply", "--server-side", *here, "-f", "-", stdin=json.dumps(closed))
    fenced.may_not("forbidden", "create", "deployment", "web", "--image=x", *here)
    fenced.may("create", "deployment", "web", "--image=x", *here, f"--as={account}")
    fenced.may("create", "configmap", "settings", *here, f"--as={account}")
    as_applier = (f"--as={account}",)
    fenced.may_not("forbidden", "create", "configmap", "x", "-n", namespace, *as_applier)
    fenced.may_not("forbidden", "delete", "networkpolicy", "default-policy", *here, *as_applier)
    fenced.may_not(
        "forbidden", "create", *here, "-f", "-", *as_applier, stdin=_binding("x", "admin", "y")
    )
    fenced.may_not(
        "cannot impersonate", "get", "pods", *here, f"--as=system:serviceaccount:{own}:default"
    )
    fenced.may_not(
        "cannot impersonate", "get", "pods", f"--as=system:serviceaccount:{namespace}:{APPLIER}"
    )
    fenced.may_not("cannot impersonate", "get", "pods", "--as=admin")
    fenced.may_not(
        "not currently held", "create", *here, "-f", "-", stdin=_binding("x", "admin", "y")
    )
    fenced.may("delete", "namespace", own, "--wait=false")


def _until(attempt: Callable[[], subprocess.CompletedProcess[str]]) -> None:
    """A binding that was just written is seen by the authorizer a moment later."""
    deadline = time.monotonic() + 20
    while (done := attempt()).returncode != 0:
        assert time.monotonic() < deadline, done.stderr


def test_the_rights_suffice_for_gateways(fenced: Fenced, namespace: str) -> None:
    """The Role of agents can be made without a right to escalate, and not a wider one."""
    here = ("-n", namespace)
    name = "ignition-sync-agent-site"
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["ignition-sync-metadata-site"],
        "verbs": ["get", "list", "watch", "patch"],
    }
    role = RBAC | {"kind": "Role", "metadata": {"name": name}, "rules": [rule]}
    fenced.may("apply", "--server-side", *here, "-f", "-", stdin=json.dumps(role))
    binding = _binding(name, name, "system:serviceaccount:x:y", kind="Role")
    fenced.may("apply", "--server-side", *here, "-f", "-", stdin=binding)
    wider = role | {"rules": [rule | {"resources": ["secrets"], "verbs": ["get", "list"]}]}
    fenced.may_not(
        "not currently held", "apply", "--server-side", *here, "-f", "-", stdin=json.dumps(wider)
    )
    fenced.may_not(FENCE, "create", "configmap", "other", *here)
    fenced.may_not("forbidden", "get", "secrets", *here)
    fenced.may_not("forbidden", "delete", "pod", "x", *here)
