"""Which objects agents may read and write."""

from __future__ import annotations

from tests.support.gateways.samples import OWNER
from windlass.gateways.wire import agent_objects


def test_the_role_names_every_object() -> None:
    """Agents read the metadata and write status objects, nothing else."""
    role = agent_objects.agent_role(OWNER, ["ignition-sync-status-b", "ignition-sync-status-a"])
    read, report = role["rules"]
    assert read["resourceNames"] == ["ignition-sync-metadata-site"]
    assert read["verbs"] == ["get", "list", "watch"]
    assert report["resourceNames"] == ["ignition-sync-status-a", "ignition-sync-status-b"]
    assert report["verbs"] == ["get", "patch"]
    assert {rule["resources"][0] for rule in role["rules"]} == {"configmaps"}


def test_no_rule_is_without_names() -> None:
    """Without pods there is no second rule: an empty list would allow every object."""
    assert [
        bool(rule["resourceNames"]) for rule in agent_objects.agent_role(OWNER, [])["rules"]
    ] == [True]


def test_the_binding_has_each_account_once() -> None:
    """Accounts of the CR's namespace; none without pods."""
    binding = agent_objects.agent_role_binding(OWNER, ["b", "a", "b"])
    assert [subject["name"] for subject in binding["subjects"]] == ["a", "b"]
    assert {subject["namespace"] for subject in binding["subjects"]} == {"site-1"}
    assert binding["roleRef"]["name"] == "ignition-sync-agent-site"
    assert "subjects" not in agent_objects.agent_role_binding(OWNER, [])


def test_owned_objects_have_an_owner_reference() -> None:
    """Labels select them; the owner reference deletes them with the CR."""
    metadata = agent_objects.object_metadata(OWNER, "x")
    assert metadata["ownerReferences"][0]["uid"] == "cr-uid"
    assert metadata["labels"]["ignition-sync.io/cr-name"] == "site"
    assert metadata["labels"]["app.kubernetes.io/managed-by"] == "ignition-sync-controller"
    assert agent_objects.owner_name({"metadata": metadata}) == "site"
    assert agent_objects.owner_name({}) == ""


def test_a_status_object_is_named_after_its_pod() -> None:
    """Ten digits of the uid, without dashes."""
    assert agent_objects.status_name("a1b2c3d4-e5f6-7890-abcd-ef0123456789") == (
        "ignition-sync-status-a1b2c3d4e5"
    )


def test_only_owned_status_objects_may_be_deleted() -> None:
    """A label alone does not suffice: name and owner must match, too."""
    status = agent_objects.config_map(OWNER, agent_objects.status_name("a1b2c3d4-e5"))
    assert agent_objects.is_status_object(status, OWNER)
    without_owner = {"metadata": {**status["metadata"], "ownerReferences": []}}
    assert not agent_objects.is_status_object(without_owner, OWNER)
    other = agent_objects.config_map(OWNER, "my-own-settings")
    assert not agent_objects.is_status_object(other, OWNER)
