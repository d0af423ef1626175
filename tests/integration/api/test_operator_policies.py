"""The operator policies and the rights of gateways and environments on a real API server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.api import rights
from tests.integration.api.rights import binding
from tests.integration.api.server import Answer, Server
from tests.support.processes.operator import eventually
from windlass.api.install import cluster_roles, rbac
from windlass.api.install.environment_objects import (
    APPLIER_NAME,
    ENVIRONMENT_TYPE,
    ENVIRONMENT_UID,
    MANAGER_NAME,
    NAMESPACE_TYPE,
)
from windlass.api.install.installation import Installation
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

OPERATOR_POLICY = "the operator may only write to its own namespace"
_LEVEL = "pod-security.kubernetes.io/enforce"
NAMESPACES = "the operator may only change namespaces that carry the uid"
LABEL_POLICY = "only windlass may set"


@dataclass(frozen=True)
class BoundedOperator:
    """An installation whose operator is a user with a certificate."""

    install: Installation
    admin: Server
    operator: Server

    def environment(self, name: str, uid: str = "u-1") -> None:
        """Create a namespace of an Environment as the operator."""
        may(self.operator.create(_marked(name, uid)))


def may(answer: Answer) -> None:
    """The API server allowed it."""
    assert answer.accepted, answer.message


def may_not(expected: str, answer: Answer) -> None:
    """The API server refused it, with this message."""
    assert not answer.accepted, answer.body
    assert expected in answer.message


def _named(kind: str, name: str, api_version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


def _marked(name: str, uid: str) -> dict[str, Any]:
    document = _named("Namespace", name)
    document["metadata"] |= {
        "labels": {
            NAMESPACE_TYPE: ENVIRONMENT_TYPE,
            ENVIRONMENT_UID: uid,
            _LEVEL: "restricted",
        },
        "annotations": {ENVIRONMENT_UID: uid},
    }
    return document


def _labeled(**labels: str | None) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


def _annotated(uid: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {ENVIRONMENT_UID: uid}}}


def _namespace(name: str, rest: str = "") -> str:
    return f"/api/v1/namespaces/{name}{rest}"


@pytest.fixture(scope="module")
def bounded(installed: LocalCluster, server: Server, dry: str) -> Iterator[BoundedOperator]:
    """The generated rights and policies in force, for an operator of these tests."""
    release = f"w-{uuid.uuid4().hex[:10]}"
    own_installation = Installation(release=release, namespace=f"{release}-own")
    found = BoundedOperator(own_installation, server, Server(installed, f"{release}-operator"))
    unlimited = _unlimited(found).operator
    by_file = rbac.documents_by_file(
        [rbac.user_subject(found.operator.user), rbac.user_subject(unlimited.user)],
        installation=own_installation,
    )
    documents = [doc for file, docs in by_file.items() if "reverser" not in file for doc in docs]
    wide = binding(f"{release}-all", "cluster-admin", unlimited.user, kind="ClusterRoleBinding")
    wide["metadata"]["labels"] = own_installation.labels
    rights.grant(server, own_installation, [*documents, wide])
    eventually(lambda: _in_force(found, dry), "the policies in force", seconds=60)
    yield found
    rights.revoke(server, own_installation)


def _in_force(bounded: BoundedOperator, namespace: str) -> bool:
    """Policies are compiled a moment after they were written."""
    outside = _named("ConfigMap", "p")
    by_operator = bounded.operator.create(outside, namespace, dry=True)
    by_admin = bounded.admin.create(_marked(f"{namespace}-probe", "x"), dry=True)
    return OPERATOR_POLICY in by_operator.message and LABEL_POLICY in by_admin.message


def _unlimited(bounded: BoundedOperator) -> BoundedOperator:
    user = f"{bounded.install.release}-almighty"
    return BoundedOperator(bounded.install, bounded.admin, Server(bounded.admin.target, user))


@pytest.fixture
def unlimited(bounded: BoundedOperator) -> BoundedOperator:
    """An operator with every right, so that only the policies can refuse."""
    return _unlimited(bounded)


@pytest.fixture
def foreign(server: Server, namespace: str) -> str:
    """The path of a service account that is not the operator's."""
    may(server.create(_named("ServiceAccount", "foreign"), namespace))
    return _namespace(namespace, "/serviceaccounts/foreign")


@pytest.mark.scenario("E119")
def test_outside_the_operator_writes_nothing(
    unlimited: BoundedOperator, namespace: str, foreign: str
) -> None:
    """Even with all rights it cannot write into namespaces that are not its own."""
    operator = unlimited.operator
    may_not(OPERATOR_POLICY, operator.create(_named("ConfigMap", "x"), namespace))
    inside = binding(MANAGER_NAME, "admin", operator.user)
    may_not(OPERATOR_POLICY, operator.create(inside, "kube-system"))
    may_not(OPERATOR_POLICY, operator.create(binding("x", "admin", "y", kind="ClusterRoleBinding")))
    may_not(OPERATOR_POLICY, operator.delete(foreign))
    may_not(OPERATOR_POLICY, operator.merge(foreign, {"metadata": {"annotations": {"a": "b"}}}))


@pytest.mark.scenario("E119")
def test_no_token_of_a_foreign_account(unlimited: BoundedOperator, foreign: str) -> None:
    """A subresource is a write too: no token of another service account."""
    token_request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    may_not(OPERATOR_POLICY, unlimited.operator.post(f"{foreign}/token", token_request))
    may(unlimited.admin.post(f"{foreign}/token", token_request))


@pytest.mark.scenario("E119")
def test_only_labeled_namespaces_are_written(unlimited: BoundedOperator, namespace: str) -> None:
    """A namespace is created with the uid, changed and deleted only with it, and keeps it."""
    operator = unlimited.operator
    may_not(NAMESPACES, operator.create(_named("Namespace", f"{namespace}-b")))
    may_not(NAMESPACES, operator.merge(_namespace(namespace), _labeled(a="b")))
    may_not(NAMESPACES, operator.delete(_namespace(namespace, "?dryRun=All")))
    own = f"{namespace}-e"
    unlimited.environment(own)
    may(operator.merge(_namespace(own), _labeled(a="b")))
    may_not(NAMESPACES, operator.merge(_namespace(own), _annotated("u-2")))
    may_not(NAMESPACES, operator.merge(_namespace(own), _labeled(**{_LEVEL: "privileged"})))
    may(operator.create(_named("ConfigMap", "windlass-inventory"), own))
    may(operator.delete(_namespace(own)))


@pytest.mark.scenario("E119")
def test_no_namespace_without_a_pod_security_level(
    unlimited: BoundedOperator, namespace: str
) -> None:
    """The operator makes no namespace that admits privileged pods, neither at once nor later."""
    operator, own = unlimited.operator, f"{namespace}-e"
    unbounded = _marked(own, "u-1")
    del unbounded["metadata"]["labels"][_LEVEL]
    may_not(NAMESPACES, operator.create(unbounded))
    unlimited.environment(own)
    may_not(NAMESPACES, operator.merge(_namespace(own), _labeled(**{_LEVEL: None})))
    may(operator.merge(_namespace(own), _labeled(**{_LEVEL: "baseline"})))
    may(unlimited.admin.merge(_namespace(own), _labeled(**{_LEVEL: None})))
    may_not(NAMESPACES, operator.merge(_namespace(own), _labeled(a="b")))
    may(operator.delete(_namespace(own)))


def test_writes_to_its_own_objects_are_allowed(unlimited: BoundedOperator, namespace: str) -> None:
    """Own namespace, own kinds, events, reviews and objects of gateways pass the policy."""
    operator, install = unlimited.operator, unlimited.install
    may(operator.create(_lease(install.lease), install.namespace))
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}},
    }
    reviewed = operator.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    may(reviewed)
    assert reviewed.body["status"]["allowed"]
    may(operator.create(_event(namespace, "windlass.dev/environments"), namespace))
    may(unlimited.admin.create(_sync(), namespace))
    site = f"/apis/sync.ignition.io/v1alpha1/namespaces/{namespace}/ignitionsyncs/site"
    may(operator.merge(f"{site}/status", {"status": {"lastSyncRef": "main"}}))
    may(operator.merge(site, {"metadata": {"finalizers": ["ignition-sync.io/finalizer"]}}))
    may(operator.create(_named("ConfigMap", "ignition-sync-metadata-site"), namespace))
    may(operator.merge(site, {"metadata": {"finalizers": None}}))


def _lease(name: str) -> dict[str, Any]:
    spec = {"holderIdentity": "x", "leaseDurationSeconds": 15}
    return _named("Lease", name, "coordination.k8s.io/v1") | {"spec": spec}


def _event(namespace: str, source: str) -> dict[str, Any]:
    return _named("Event", f"told-{uuid.uuid4().hex[:6]}", "events.k8s.io/v1") | {
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Pod", "name": "x", "namespace": namespace},
        "reason": "Told",
        "action": "Tell",
        "type": "Normal",
        "reportingController": source,
        "reportingInstance": "x",
    }


def _sync() -> dict[str, Any]:
    return _named("IgnitionSync", "site", "sync.ignition.io/v1alpha1") | {
        "spec": {
            "git": {"repo": "https://git.example.com/x", "ref": "main"},
            "gateway": {"apiKeySecretRef": {"name": "x"}},
        }
    }


def _role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return _named("Role", name, f"{cluster_roles.RBAC_GROUP}/v1") | {"rules": list(rules)}


def _rule(*verbs: str, **more: Any) -> dict[str, Any]:
    """A right of an agent over its own ConfigMap, or something else by `more`."""
    return {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["ignition-sync-metadata-site"],
        "verbs": list(verbs or ("get", "list", "watch", "patch")),
        **more,
    }


def _bound(name: str, role: str, *subjects: dict[str, str], of: str = "Role") -> dict[str, Any]:
    return binding(name, role, "nobody", of=of) | {"subjects": list(subjects)}


def _account(namespace: str, name: str = "default") -> dict[str, str]:
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


@pytest.mark.scenario("E119")
def test_rights_are_passed_on_to_agents_alone(bounded: BoundedOperator, namespace: str) -> None:
    """Generated rights: no Role for Secrets, here or in kube-system, and for no one else."""
    operator = bounded.operator
    agent, secrets = f"ignition-sync-{namespace}", {"resources": ["secrets"], "verbs": ["get"]}
    wide: dict[str, Any] = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    for in_namespace in ("kube-system", namespace):
        may(operator.create(_role(agent, _rule()), in_namespace))
        may(operator.create(_bound(agent, agent, _account(in_namespace)), in_namespace, dry=True))
        for rule in (
            _rule() | secrets,
            _rule("get", resources=["configmaps", "secrets"]),
            _rule(resourceNames=["coredns"]),
            _rule("delete"),
            wide,
        ):
            may_not(
                OPERATOR_POLICY,
                operator.create(_role("ignition-sync-r", rule), in_namespace, dry=True),
            )
            both = _role("ignition-sync-r", _rule(), rule)
            may_not(OPERATOR_POLICY, operator.create(both, in_namespace, dry=True))
        for subject in (
            rbac.user_subject("mallory"),
            {"kind": "Group", "apiGroup": cluster_roles.RBAC_GROUP, "name": "system:authenticated"},
            _account("default"),
        ):
            given = _bound(agent, agent, _account(in_namespace), subject)
            may_not(OPERATOR_POLICY, operator.create(given, in_namespace, dry=True))
        may(
            operator.delete(
                f"/apis/{cluster_roles.RBAC_GROUP}/v1/namespaces/{in_namespace}/roles/{agent}"
            )
        )
    may_not(OPERATOR_POLICY, operator.create(_role("r", _rule()), namespace))
    elsewhere = _bound(agent, "view", _account(namespace), of="ClusterRole")
    may_not(OPERATOR_POLICY, _unlimited(bounded).operator.create(elsewhere, namespace))


@pytest.mark.scenario("E119")
def test_each_kind_is_bounded(unlimited: BoundedOperator, namespace: str) -> None:
    """With every right: no foreign name, content or subresource, here or in its own namespace."""
    operator, admin, install = unlimited.operator, unlimited.admin, unlimited.install
    own, home = f"{namespace}-e", install.namespace
    unlimited.environment(own)
    manager, applier = install.environment_manager_role, install.environment_applier_role
    itself = rbac.user_subject(operator.user)
    release = _named("Secret", "windlass-release-chart") | {"type": "catalyst.dev/release.v1"}
    token = _named("Secret", f"{install.release}-token") | {
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": f"{install.release}-token",
            "annotations": {"kubernetes.io/service-account.name": "default"},
        },
    }
    allowed = [
        (_bound(MANAGER_NAME, manager, itself, of="ClusterRole"), own),
        (_bound(APPLIER_NAME, applier, _account(own, APPLIER_NAME), of="ClusterRole"), own),
        (_named("ConfigMap", "windlass-inventory"), own),
        (_named("LimitRange", "default-limits") | {"spec": {"limits": []}}, own),
        (_named("ResourceQuota", "default-quota"), own),
        (_policy("default-policy"), own),
        (_policy("allow-dns"), own),
        (release, own),
        (_lease(f"{install.release}-of-a-part"), home),
        (_named("Secret", install.salt_secret), home),
        (_event(namespace, "windlass.dev/gateways"), namespace),
    ]
    refused = [
        (_bound(MANAGER_NAME, manager, rbac.user_subject("mallory"), of="ClusterRole"), own),
        (_bound(MANAGER_NAME, "cluster-admin", itself, of="ClusterRole"), own),
        (_bound(APPLIER_NAME, applier, _account("default", APPLIER_NAME), of="ClusterRole"), own),
        (_bound(APPLIER_NAME, manager, _account(own, APPLIER_NAME), of="ClusterRole"), own),
        (_bound("other", manager, itself, of="ClusterRole"), own),
        (_role("r", _rule()), own),
        (_named("ConfigMap", "other"), own),
        (_named("LimitRange", "other") | {"spec": {"limits": []}}, own),
        (_named("ResourceQuota", "other"), own),
        (_named("ServiceAccount", "other"), own),
        (_policy("other"), own),
        (_named("Secret", "other"), own),
        (release | {"type": "Opaque"}, own),
        (_deployment(), own),
        (token, home),
        (_named("Secret", "other"), home),
        (_named("ConfigMap", "other"), home),
        (_named("ServiceAccount", "other"), home),
        (_lease("other"), home),
        (_deployment(), home),
        (_bound("other", "r", itself), home),
        (_event(namespace, "kubelet"), namespace),
        (_sync(), namespace),
    ]
    for document, in_namespace in allowed:
        may(operator.create(document, in_namespace, dry=True))
    for document, in_namespace in refused:
        may_not(OPERATOR_POLICY, operator.create(document, in_namespace, dry=True))
    token_request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    for in_namespace in (own, home):
        eventually(lambda p=in_namespace: admin.get(_default(p)).accepted, "the account is there")
        may_not(OPERATOR_POLICY, operator.post(f"{_default(in_namespace)}/token", token_request))
    may_not(OPERATOR_POLICY, operator.merge(_default(own), {"automountServiceAccountToken": True}))
    may(operator.merge(_default(own), {"automountServiceAccountToken": False}))
    may(admin.create(_sync(), namespace))
    site = f"/apis/sync.ignition.io/v1alpha1/namespaces/{namespace}/ignitionsyncs/site"
    may_not(OPERATOR_POLICY, operator.merge(site, {"spec": {"paused": True}}))
    may_not(OPERATOR_POLICY, operator.delete(site))
    may(admin.create(_policy("foreign"), own))
    policies = f"/apis/networking.k8s.io/v1/namespaces/{own}/networkpolicies"
    may(operator.delete(f"{policies}/foreign"))
    may(operator.delete(_namespace(own)))


@pytest.mark.scenario("E119")
def test_of_its_own_pods_only_the_leader_label_may_change(unlimited: BoundedOperator) -> None:
    """No other label, value, annotation or finalizer, no spec, and no other pod."""
    operator, admin, install = unlimited.operator, unlimited.admin, unlimited.install
    own, foreign = (_namespace(install.namespace, f"/pods/{name}") for name in ("own", "foreign"))
    kept: dict[str, Any] = {"labels": install.labels | {"app": "x"}, "annotations": {"a": "b"}}
    # Without it no pod is admitted, and another process creates it.
    eventually(lambda: admin.get(_default(install.namespace)).accepted, "the account is there")
    may(admin.create(_pod("own", **kept), install.namespace))
    may(admin.create(_pod("foreign", labels={"app": "x"}), install.namespace))
    for role in ("leader", None):
        may(operator.merge(own, _labeled(role=role)))
        may_not(OPERATOR_POLICY, operator.merge(foreign, _labeled(role=role, app=None)))
    may_not(OPERATOR_POLICY, operator.merge(foreign, _labeled(role="leader")))
    may_not(OPERATOR_POLICY, operator.merge(foreign, _labeled(role="leader", **install.labels)))
    for change in (
        {"labels": {"role": "follower"}},
        {"labels": {"role": "leader", "leader": "true"}},
        {"labels": {"role": "leader", "app": "y"}},
        {"labels": {"role": "leader", "app": None}},
        {"labels": {"app.kubernetes.io/instance": None}},
        {"annotations": {"c": "d"}},
        {"annotations": None},
        {"finalizers": ["windlass.dev/x"]},
        {"ownerReferences": [_owner()]},
    ):
        may_not(OPERATOR_POLICY, operator.merge(own, {"metadata": change}))
    image = {"spec": {"containers": [{"name": "x", "image": "mine"}]}}
    may_not(OPERATOR_POLICY, operator.strategic(own, image))
    may_not(OPERATOR_POLICY, operator.delete(own))
    may_not(OPERATOR_POLICY, operator.create(_pod("new", labels=install.labels), install.namespace))


def _owner() -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": uuid.uuid4().hex}


@pytest.mark.scenario("E119")
@pytest.mark.parametrize(
    ("client", "allowed", "refused"),
    [
        (
            {"url": "https://127.0.0.1:9/x"},
            [{"url": "https://127.0.0.1:9/y"}],
            [
                {"url": "https://127.0.0.1:10/x"},
                {"url": "https://mallory.example/x"},
                {"service": {"name": "s", "namespace": "n"}},
            ],
        ),
        (
            {"service": {"name": "s", "namespace": "n"}},
            [{"service": {"name": "s", "namespace": "n", "port": 443, "path": "/y"}}],
            [
                {"service": {"name": "other", "namespace": "n"}},
                {"service": {"name": "s", "namespace": "other"}},
                {"service": {"name": "s", "namespace": "n", "port": 444}},
                {"url": "https://mallory.example/x"},
            ],
        ),
    ],
    ids=["url", "service"],
)
def test_of_the_webhook_configuration_only_the_path_may_change(
    unlimited: BoundedOperator,
    client: dict[str, Any],
    allowed: list[dict[str, Any]],
    refused: list[dict[str, Any]],
) -> None:
    """The path is the operator's; who is called, what it hears and what a fault means is not."""
    operator, name = unlimited.operator, unlimited.install.webhook_configuration
    hook = {
        "name": "changes.windlass.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": client,
        "rules": [
            {
                "apiGroups": ["windlass.invalid"],
                "apiVersions": ["*"],
                "operations": ["CREATE"],
                "resources": ["nothing"],
            }
        ],
    }
    api_version = "admissionregistration.k8s.io/v1"
    configuration = _named("ValidatingWebhookConfiguration", name, api_version) | {
        "webhooks": [hook]
    }
    may_not(OPERATOR_POLICY, operator.create(configuration, dry=True))
    may(unlimited.admin.create(configuration))
    path = f"/apis/{api_version}/validatingwebhookconfigurations/{name}"
    for moved in allowed:
        may(operator.merge(path, {"webhooks": [hook | {"clientConfig": moved}]}))
    for moved in refused:
        may_not(
            OPERATOR_POLICY, operator.merge(path, {"webhooks": [hook | {"clientConfig": moved}]})
        )
    for change in (
        {"failurePolicy": "Fail"},
        {"rules": [hook["rules"][0] | {"resources": ["*/*"], "apiGroups": ["*"]}]},
        {"matchConditions": [{"name": "x", "expression": "true"}]},
    ):
        may_not(OPERATOR_POLICY, operator.merge(path, {"webhooks": [hook | change]}))
    may_not(OPERATOR_POLICY, operator.delete(path))
    may(unlimited.admin.delete(path))


def _default(namespace: str) -> str:
    return _namespace(namespace, "/serviceaccounts/default")


def _policy(name: str) -> dict[str, Any]:
    return _named("NetworkPolicy", name, "networking.k8s.io/v1") | {"spec": {"podSelector": {}}}


def _pod(name: str, **metadata: Any) -> dict[str, Any]:
    document = _named("Pod", name) | {"spec": {"containers": [{"name": "x", "image": "x"}]}}
    return document | {"metadata": {"name": name, **metadata}}


def test_only_the_operator_labels_a_namespace(bounded: BoundedOperator, namespace: str) -> None:
    """Not even an administrator sets the labels, at creation, later or by a subresource."""
    admin, path = bounded.admin, _namespace(namespace)
    may_not(LABEL_POLICY, admin.create(_marked(f"{namespace}-m", "u-9")))
    may_not(LABEL_POLICY, admin.merge(path, _labeled(**{NAMESPACE_TYPE: ENVIRONMENT_TYPE})))
    may_not(LABEL_POLICY, admin.merge(path, _labeled(**{ENVIRONMENT_UID: "u-9"})))
    may_not(LABEL_POLICY, admin.merge(path, _annotated("u-9")))
    may_not(LABEL_POLICY, admin.merge(f"{path}/status", _annotated("u-9")))
    may(admin.merge(path, _labeled(mine="1")))


def test_labels_may_be_removed(bounded: BoundedOperator, namespace: str) -> None:
    """Users may work on a labeled namespace and unlabel it; then the operator may not write."""
    own = f"{namespace}-m"
    admin, path = bounded.admin, _namespace(own)
    bounded.environment(own)
    may(admin.merge(path, _labeled(mine="1")))
    may(admin.merge(path, _annotated(None)))
    may_not(NAMESPACES, bounded.operator.delete(path))
    may_not(LABEL_POLICY, admin.merge(path, _annotated("u-1")))


@pytest.mark.scenario("E120")
def test_the_rights_suffice_for_an_environment(bounded: BoundedOperator, namespace: str) -> None:
    """With nothing but the generated rights: namespace, bindings, policies, a bundle."""
    own, install, operator = f"{namespace}-e", bounded.install, bounded.operator
    bounded.environment(own)
    account = f"system:serviceaccount:{own}:{APPLIER_NAME}"
    applier = operator.impersonating(account)
    may(operator.apply(binding(MANAGER_NAME, install.environment_manager_role, operator.user), own))
    given = _bound(
        APPLIER_NAME,
        install.environment_applier_role,
        _account(own, APPLIER_NAME),
        of="ClusterRole",
    )
    may(operator.apply(given, own))
    quota = _named("ResourceQuota", "default-quota") | {"spec": {"hard": {"pods": "1"}}}
    # A binding that was just written is seen by the authorizer a moment later.
    eventually(lambda: operator.create(quota, own).accepted, "the operator's rights inside")
    policy = _named("NetworkPolicy", "default-policy", "networking.k8s.io/v1")
    may(operator.apply(policy | {"spec": {"podSelector": {}}}, own))
    may_not("forbidden", operator.create(_deployment(), own))
    eventually(lambda: applier.create(_deployment(), own).accepted, "the applier's rights")
    may(applier.create(_named("ConfigMap", "settings"), own))
    may_not("forbidden", applier.create(_named("ConfigMap", "x"), namespace))
    policies = f"/apis/networking.k8s.io/v1/namespaces/{own}/networkpolicies"
    may_not("forbidden", applier.delete(f"{policies}/default-policy"))
    may_not("forbidden", applier.create(binding("x", "admin", "y"), own))
    pods = _namespace(own, "/pods")
    for other in (
        f"system:serviceaccount:{own}:default",
        f"system:serviceaccount:{namespace}:{APPLIER_NAME}",
        "admin",
    ):
        may_not("cannot impersonate", operator.impersonating(other).get(pods))
    may_not("not currently held", operator.create(binding("x", "admin", "y"), own))
    may(operator.delete(_namespace(own)))


def _deployment() -> dict[str, Any]:
    pod = {"containers": [{"name": "x", "image": "x"}]}
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
    }
    return _named("Deployment", "web", "apps/v1") | {"spec": spec}


def test_the_rights_suffice_for_gateways(bounded: BoundedOperator, namespace: str) -> None:
    """The Role of agents can be made without a right to escalate, and not a wider one."""
    operator, name = bounded.operator, "ignition-sync-agent-site"
    may(operator.apply(_role(name, _rule()), namespace))
    may(operator.apply(_bound(name, name, _account(namespace)), namespace))
    wider = _role(name, _rule("get", "list", resources=["secrets"]))
    may_not("not currently held", operator.apply(wider, namespace))
    may_not(OPERATOR_POLICY, operator.create(_named("ConfigMap", "other"), namespace))
    may_not("forbidden", operator.get(_namespace(namespace, "/secrets")))
    may_not("forbidden", operator.delete(_namespace(namespace, "/pods/x")))
