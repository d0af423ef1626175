"""Project and Environment on a real API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.api.server import Answer, Server
from tests.support.cluster.api_kinds import get_kind
from tests.unit.api.spec_cases import ABSENT, GOOD, case
from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project import Project

pytestmark = pytest.mark.cluster

GROUP = "catalyst.catalyst.dev"
API = f"{GROUP}/v1alpha1"
OLD_PROJECT = {
    "source": {"repositoryUrl": "https://git.example.com/shop.git", "branch": "main"},
    "deployment": {"type": "manifest", "path": "k8s"},
}
OLD_ENVIRONMENT = {
    "projectRef": {"name": "shop"},
    "type": "development",
    "source": {"commitSha": "a" * 40, "branch": "feature/x"},
}


def _post(
    server: Server, namespace: str, kind: str, spec: Any, *, name: str = "x", query: str = ""
) -> Answer:
    body = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
    return server.post(_path(namespace, kind) + query, body)


def _path(namespace: str, kind: str, rest: str = "") -> str:
    return f"/apis/{API}/namespaces/{namespace}/{get_kind(kind).plural}{rest}"


@pytest.mark.scenario("E1")
def test_discovery(server: Server) -> None:
    """Group, version, kinds, scope, short names and the status subresource are as specified."""
    rows = {row["name"]: row for row in server.get(f"/apis/{API}").body["resources"]}
    assert set(rows) == {"projects", "projects/status", "environments", "environments/status"}
    assert rows["projects"]["kind"] == "Project"
    assert rows["projects"]["shortNames"] == ["proj", "cproj"]
    assert rows["environments"]["kind"] == "Environment"
    assert rows["environments"]["shortNames"] == ["env", "cenv"]
    for name in ("projects", "environments"):
        assert rows[name]["namespaced"]
        assert rows[name]["categories"] == ["windlass", "catalyst"]


@pytest.mark.scenario("E2")
@pytest.mark.parametrize("field", ["projectRef", "type", "sources"])
def test_required_fields_of_an_environment(server: Server, dry: str, field: str) -> None:
    """An Environment without project, type or source is refused, and the field is named."""
    spec = case("Environment", field, ABSENT, False).spec
    refused = _post(server, dry, "Environment", spec, query="?dryRun=All")
    assert refused.status == 422
    assert f"spec.{field}" in refused.message


@pytest.mark.scenario("E3")
def test_both_forms_at_once_are_refused(server: Server, dry: str) -> None:
    """Each older field beside its current one is refused by the API server."""
    later_project, later_environment = GOOD["Project"], GOOD["Environment"]
    pairs = [
        ("Project", later_project | {"source": OLD_PROJECT["source"]}, "source"),
        ("Project", later_project | {"deployment": OLD_PROJECT["deployment"]}, "deployment"),
        ("Environment", later_environment | {"source": {"branch": "x"}}, "source"),
    ]
    for kind, spec, field in pairs:
        refused = _post(server, dry, kind, spec, query="?dryRun=All")
        assert refused.status == 422
        assert f"spec.{field}" in refused.message


@pytest.mark.scenario("E4")
def test_the_older_form_is_decoded_as_the_current_and_stored_unchanged(
    server: Server, namespace: str
) -> None:
    """Stored objects keep their form; decoded ones have the current one."""
    created = _post(server, namespace, "Project", OLD_PROJECT, name="shop")
    assert created.accepted, created.message
    assert "sources" not in created.body["spec"]
    project = Project.decode(json.dumps(created.body).encode())
    (source,) = project.spec.sources or ()
    assert (source.name, source.branch) == ("primary", "main")
    assert (project.spec.templates or {})["default"].path == "k8s"
    created = _post(server, namespace, "Environment", OLD_ENVIRONMENT)
    assert created.accepted, created.message
    assert "sources" not in created.body["spec"]
    environment = Environment.decode(json.dumps(created.body).encode())
    (desired,) = environment.spec.sources or ()
    assert (desired.commit_sha, desired.branch) == ("a" * 40, "feature/x")


@pytest.mark.scenario("E5")
@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("Environment", "deploymentMode", "foo"),
        ("Environment", "sources.0.commitSha", "xyz"),
        ("Environment", "quota.cpu", "-1"),
        ("Project", "sources.0.repositoryUrl", "ext::sh"),
    ],
)
def test_bad_values_are_refused(
    server: Server, dry: str, kind: str, field: str, value: str
) -> None:
    """An unknown mode, a bad commit, a bad quantity and a remote helper are each refused."""
    spec = case(kind, field, value, False).spec
    refused = _post(server, dry, kind, spec, query="?dryRun=All")
    assert refused.status == 422
    assert field.rpartition(".")[2] in refused.message


@pytest.mark.parametrize(
    "patch", [{"type": "production"}, {"projectRef": {"name": "other"}}], ids=["type", "project"]
)
def test_type_and_project_are_immutable(
    server: Server, namespace: str, patch: dict[str, Any]
) -> None:
    """They decide the secrets of an Environment."""
    assert _post(server, namespace, "Environment", GOOD["Environment"]).accepted
    home = _path(namespace, "Environment", "/x")
    refused = server.merge(home, {"spec": patch})
    assert not refused.accepted
    assert "cannot be changed; create another Environment" in refused.message
    fine = server.merge(home, {"spec": {"suspend": True}})
    assert fine.accepted, fine.message


@pytest.mark.scenario("E6")
def test_trust_only_falls(server: Server, namespace: str) -> None:
    """A trusted Environment may become untrusted, and never trusted again."""
    created = _post(server, namespace, "Environment", GOOD["Environment"])
    assert created.body["spec"]["trust"] == "trusted"

    def patched(trust: str | None) -> Answer:
        return server.merge(_path(namespace, "Environment", "/x"), {"spec": {"trust": trust}})

    assert patched("untrusted").accepted
    # Left out, it would be the default again.
    for trust in ("trusted", None):
        refused = patched(trust)
        assert not refused.accepted
        assert "spec.trust" in refused.message
        assert "trust can only be changed to untrusted" in refused.message


@pytest.mark.scenario("E7")
def test_values_are_kept_as_they_are(server: Server, namespace: str) -> None:
    """Undeclared keys are stored unchanged, in either form, whatever their values."""
    values = {
        "replicas": 3,
        "ratio": 0.25,
        "on": True,
        "off": False,
        "image": {"tag": "1.0", "pullPolicy": None, "x-Any_Key.at/all": {"deep": {"er": ["~"]}}},
        "list": [1, "two", {"three": [None, {}, []]}, False],
        "empty": {},
        "large": 9007199254740993,
        "text": "2001-01-01",
    }
    template = {"type": "helm", "path": "chart", "values": values, "valuesFiles": ["a/b.yaml"]}
    later = GOOD["Project"] | {"templates": {"default": template}}
    older = OLD_PROJECT | {"deployment": {"type": "helm", "path": "chart", "values": values}}
    for name, spec in (("later", later), ("older", older)):
        created = _post(server, namespace, "Project", spec, name=name)
        assert created.accepted, created.message
        stored = server.get(_path(namespace, "Project", f"/{name}")).body
        stored_template = stored["spec"].get("deployment") or stored["spec"]["templates"]["default"]
        assert stored_template["values"] == values
        decoded = Project.decode(json.dumps(stored).encode())
        assert (decoded.spec.templates or {})["default"].values == values
    environment = GOOD["Environment"] | {"values": values}
    created = _post(server, namespace, "Environment", environment)
    assert created.accepted, created.message
    assert created.body["spec"]["values"] == values


def test_values_for_manifests_are_refused(server: Server, dry: str) -> None:
    """A field that would do nothing is named."""
    for field, value in (("values", {"a": 1}), ("valuesFiles", ["a.yaml"])):
        template = {"type": "manifest", field: value}
        spec = GOOD["Project"] | {"templates": {"default": template}}
        refused = _post(server, dry, "Project", spec, query="?dryRun=All")
        assert refused.status == 422
        assert f"spec.templates[default].{field}" in refused.message


@pytest.mark.scenario("E8")
@pytest.mark.parametrize("kind", ["Project", "Environment"])
def test_spec_and_status_are_written_separately(server: Server, namespace: str, kind: str) -> None:
    """A status in the main resource and a spec in the status subresource have no effect."""
    assert _post(server, namespace, kind, GOOD[kind]).accepted
    home = _path(namespace, kind, "/x")
    wrong = {"spec": {"suspend": True}, "status": {"observedGeneration": 7}}
    for subresource in ("", "/status"):
        done = server.merge(home + subresource, wrong)
        assert done.accepted, done.message
        stored = server.get(home).body
        if subresource:
            assert stored["status"] == {"observedGeneration": 7}
            assert stored["metadata"]["generation"] == 2
        else:
            assert "status" not in stored
            assert stored["spec"]["suspend"] is True


def test_quota_defaults_show_in_the_stored_object(server: Server, dry: str) -> None:
    """The default quota is filled in; limits that follow from it are not."""
    created = _post(server, dry, "Project", GOOD["Project"], query="?dryRun=All")
    quota = created.body["spec"]["resources"]["defaultQuota"]
    assert quota == {
        "cpu": "2",
        "memory": "4Gi",
        "storage": "20Gi",
        "ephemeralStorage": "10Gi",
        "pods": 20,
        "persistentVolumeClaims": 10,
        "services": 20,
        "jobs": 20,
        "secrets": 60,
        "configMaps": 60,
    }
    assert created.body["spec"]["network"] == {"webEgress": "Public"}
    assert created.body["spec"]["security"] == {"podSecurity": "restricted"}
    value = Project.decode(json.dumps(created.body).encode())
    assert value.spec.resources.default_quota.pods == 20


def test_a_complete_status_is_accepted(server: Server, kubectl: Any, namespace: str) -> None:
    """A reported status is stored by the status subresource and shows in the columns."""
    assert _post(server, namespace, "Environment", GOOD["Environment"]).accepted
    time = "2026-01-01T00:00:00Z"
    status = {
        "observedGeneration": 1,
        "phase": "Ready",
        "message": "all well",
        "progress": "9/9",
        "namespace": "env-shop-x",
        "namespaceUID": "u-1",
        "steps": [{"name": "accept", "state": "Succeeded", "startedAt": time, "finishedAt": time}],
        "sources": [
            {"name": "app", "branch": "main", "commit": "a" * 40, "ref": "refs/heads/main"}
        ],
        "revision": 2,
        "serving": {"revision": 2, "commits": {"app": "a" * 40}, "since": time},
        "unsupported": ["NetworkPolicy web"],
        "deletion": {"startedAt": time, "blockedBy": ["x"]},
        "lastHandledReconcileAt": "1",
        "lastHandledRetryAt": "2",
    }
    home = _path(namespace, "Environment", "/x")
    done = server.merge(f"{home}/status", {"status": status})
    assert done.accepted, done.message
    back = server.get(home).body
    assert back["status"] == status
    value = Environment.decode(json.dumps(back).encode())
    assert value.status.namespace_uid == "u-1"
    assert value.as_object()["status"] == status
    assert "env-shop-x" in kubectl("get", "-n", namespace, "cenv", "x", "-o", "wide").stdout


def test_the_repository_column_supports_both_forms(
    server: Server, kubectl: Any, namespace: str
) -> None:
    """`kubectl get -o wide` prints the address of the first source in either form."""
    assert _post(server, namespace, "Project", OLD_PROJECT, name="old").accepted
    assert _post(server, namespace, "Project", GOOD["Project"], name="new").accepted
    printed = kubectl("get", "-n", namespace, "proj", "-o", "wide", "--no-headers").stdout
    assert printed.count("https://git.example.com/shop.git") == 2
