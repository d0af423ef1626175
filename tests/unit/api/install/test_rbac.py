"""Roles: least rights, each with its purpose, bound to the given subjects."""

from __future__ import annotations

from windlass.api.install import cluster_roles, rbac
from windlass.api.install.installation import Installation
from windlass.api.kinds import watchrules
from windlass.objects.names import Object


def _roles(documents: list[Object]) -> dict[str, Object]:
    return {doc["metadata"]["name"]: doc for doc in documents if "rules" in doc}


def _bound(documents: list[Object]) -> set[str]:
    return {doc["roleRef"]["name"] for doc in documents if "roleRef" in doc}


def test_default_subject_is_the_service_account() -> None:
    """Without subjects the operator's service account is created and bound."""
    documents = rbac.documents()
    assert [doc["kind"] for doc in documents[:2]] == ["Namespace", "ServiceAccount"]
    subjects = [doc["subjects"] for doc in documents if "subjects" in doc]
    account = {"kind": "ServiceAccount", "name": "windlass", "namespace": "windlass-system"}
    assert all(subject == [account] for subject in subjects)
    assert _bound(documents) == {
        "windlass-reverser",
        "windlass-reverser-leader",
        "windlass-reverser-watch",
        "windlass-reverser-watch-secrets",
        "windlass-gateways",
        "windlass-environments",
    }


def test_capabilities_can_be_left_out() -> None:
    """Without their files only the rights of the rest are granted; the policies stay."""
    by_file = rbac.documents_by_file().items()
    gateway_documents = [
        docs for file, docs in by_file if not file.startswith(("reverser", "environment"))
    ]
    documents = [document for docs in gateway_documents for document in docs]
    assert _bound(documents) == {"windlass-gateways"}
    kinds = {doc["kind"] for doc in documents}
    assert {"Namespace", "ValidatingAdmissionPolicy"} <= kinds


def test_subjects_can_be_users() -> None:
    """Given subjects replace the service account, which is then not created."""
    documents = rbac.documents([rbac.user_subject("desk")])
    assert "ServiceAccount" not in {doc["kind"] for doc in documents}
    subjects = [doc["subjects"] for doc in documents if "subjects" in doc]
    assert all(subject == [rbac.user_subject("desk")] for subject in subjects)


def test_mode_any_binds_the_other_role() -> None:
    """The two watch modes differ by their bindings alone."""
    documents = rbac.documents(watch="any")
    assert "windlass-reverser-watch-any" in _bound(documents)
    assert "windlass-reverser-watch" not in _bound(documents)
    assert "windlass-reverser-watch" in _roles(documents)


def test_every_document_has_its_purpose() -> None:
    """As an annotation."""
    for document in rbac.documents():
        assert document["metadata"]["annotations"][cluster_roles.PURPOSE_ANNOTATION]


def test_secrets_are_listed_by_the_removable_role_alone() -> None:
    """Of the bound roles only one lists Secrets without naming them."""
    documents = rbac.documents()
    roles = _roles(documents)
    listing = {
        name
        for name in _bound(documents)
        for rule in roles[name]["rules"]
        if {"secrets", "*"} & set(rule["resources"]) and {"list", "watch", "*"} & set(rule["verbs"])
        if not rule.get("resourceNames")
    }
    assert listing == {"windlass-reverser-watch-secrets"}


def test_dangerous_verbs_reach_named_objects_alone() -> None:
    """No escalate and no wildcard verb; bind and impersonate have resource names."""
    listing_roles = []
    for document in rbac.documents(watch="any"):
        for rule in document.get("rules", ()):
            assert not {"escalate", "*"} & set(rule["verbs"])
            if {"bind", "impersonate"} & set(rule["verbs"]):
                name = document["metadata"]["name"]
                listing_roles.append(
                    (name, rule["verbs"], rule["resources"], rule["resourceNames"])
                )
    granted = ["windlass-environment-manager", "windlass-environment-applier"]
    assert listing_roles == [
        ("windlass-environments", ["bind"], ["clusterroles"], granted),
        (granted[0], ["impersonate"], ["serviceaccounts"], ["windlass-applier"]),
    ]


def test_no_role_reviews_tokens_or_the_access_of_others() -> None:
    """Nothing of windlass asks who a token belongs to, or what somebody else may do."""
    groups = {
        group
        for role in _roles(rbac.documents()).values()
        for rule in role["rules"]
        for group in rule["apiGroups"]
    }
    assert groups.isdisjoint({"authentication.k8s.io", "authorization.k8s.io"})


def test_roles_of_environment_namespaces_are_not_bound_cluster_wide() -> None:
    """Rights inside an Environment's namespace are not granted for the whole cluster."""
    bound = _bound(rbac.documents())
    assert {"windlass-environment-manager", "windlass-environment-applier"}.isdisjoint(bound)


def test_the_gateways_hold_what_they_grant() -> None:
    """Every right in the Role of an agent is one of the capability itself."""
    rules = _roles(rbac.documents())["windlass-gateways"]["rules"]
    held = {verb for rule in rules if "configmaps" in rule["resources"] for verb in rule["verbs"]}
    assert {"get", "list", "watch", "patch"} <= held


def test_the_applier_reaches_no_rights_and_no_policies() -> None:
    """A bundle cannot contain roles, bindings, quotas or network policies."""
    rules = _roles(rbac.documents())["windlass-environment-applier"]["rules"]
    named = {name for rule in rules for name in rule["resources"]}
    banned = {"roles", "rolebindings", "networkpolicies", "resourcequotas", "limitranges"}
    assert banned.isdisjoint(named)
    assert not any("/" in name or name == "*" for name in named)


def test_watch_role_is_the_preset_without_secrets() -> None:
    """The selected types are the usual ones and namespaces."""
    rules = _roles(rbac.documents())["windlass-reverser-watch"]["rules"]
    named = {
        (group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]
    }
    usual = {(kind.group, kind.resource) for kind in watchrules.PRESET}
    assert named == usual - {("", "secrets")} | {("", "namespaces")}


def test_names_follow_the_release() -> None:
    """Another release in another namespace shares no cluster-wide name."""
    ours = {doc["metadata"]["name"] for doc in rbac.documents()}
    theirs = {
        doc["metadata"]["name"] for doc in rbac.documents(installation=Installation("two", "other"))
    }
    assert ours.isdisjoint(theirs)
