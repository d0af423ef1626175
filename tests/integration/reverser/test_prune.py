"""Files of deleted and narrowed rules go, and the prune mode says which removals are done."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.support.git.http_server import RunningGitServer, commit_files
from tests.support.processes.operator import eventually
from tests.support.reverser.api_users import admin_user
from tests.support.reverser.leftover_folder import write_leftover_folder
from tests.support.reverser.mirrored_namespace import Commit, MirroredNamespace
from windlass_dev.git_server.fault_injection import GitFault

pytestmark = pytest.mark.cluster


def _service(mirrored: MirroredNamespace, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": mirrored.namespace},
        "spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "type": "ClusterIP"},
    }


def _rule(mirrored: MirroredNamespace, name: str, *resources: str) -> dict[str, Any]:
    rule = mirrored.watch_rule({"resources": list(resources)})
    rule["metadata"]["name"] = name
    return rule


def _paths(mirrored: MirroredNamespace) -> tuple[str, str]:
    """The files of ConfigMap and Service `one`."""
    return tuple(  # type: ignore[return-value]
        f"v1/{plural}/{mirrored.namespace}/one.yaml" for plural in ("configmaps", "services")
    )


def _started(mirrored: MirroredNamespace, **destination: Any) -> tuple[str, str]:
    """A ConfigMap and a Service in Git, selected by `rule`."""
    mirrored.admin.apply(mirrored.config_map("one", a="1"), _service(mirrored, "one"))
    item = {"resources": ["configmaps", "services"]}
    mirrored.configured(item, destination=destination)
    found = _paths(mirrored)
    eventually(lambda: mirrored.files().keys() == set(found), "both files")
    return found


def _removal(mirrored: MirroredNamespace, path: str) -> Commit:
    line = f"REMOVE {mirrored.folder}/{path}"
    (sync,) = [commit for commit in mirrored.commits() if line in commit.body]
    assert sync.subject.startswith("[SYNC] ")
    return sync


@pytest.mark.scenario("A27")
def test_files_of_a_deleted_rule_go_and_shared_ones_stay(mirrored: MirroredNamespace) -> None:
    """What only it covered is removed by a sync that says so; what another covers stays."""
    maps, services = _started(mirrored)
    mirrored.admin.apply(_rule(mirrored, "more", "configmaps"))
    mirrored.await_condition("watchrule", "more", "Ready")
    admin_user(mirrored).delete("watchrule", "rule")
    eventually(lambda: mirrored.files().keys() == {maps}, "the file of the Service gone")
    assert (
        "1 object no longer mirrored: not selected by any rule" in _removal(mirrored, services).body
    )
    admin_user(mirrored).delete("watchrule", "more")
    eventually(lambda: not mirrored.files(), "the last file gone")
    assert not [subject for subject in mirrored.subjects() if subject.startswith("[DELETE]")]


@pytest.mark.scenario("A27", "A95")
def test_a_narrowed_rule_leaves_foreign_files_alone(mirrored: MirroredNamespace) -> None:
    """A deselected type goes; notes, and objects at paths that are not theirs, stay."""
    maps, services = _started(mirrored)
    foreign = {
        "v1/services/README.md": "hello\n",
        "v1/services/copy.yaml": yaml.safe_dump(_service(mirrored, "copy")),
        "kustomization.yaml": "resources: []\n",
    }
    commit_files(
        mirrored.path, {f"{mirrored.folder}/{name}": text for name, text in foreign.items()}
    )
    mirrored.admin.apply(_rule(mirrored, "rule", "configmaps"))
    eventually(lambda: services not in mirrored.files(), "the deselected type gone")
    assert mirrored.files().keys() == {maps, *foreign}


@pytest.mark.scenario("A27")
def test_files_of_a_deselected_type_go_without_a_poll_of_the_remote(
    mirrored: MirroredNamespace, git_host: RunningGitServer
) -> None:
    """The change of the rule alone removes them: no listing of the remote succeeds meanwhile."""
    maps, _ = _started(mirrored)
    mirrored.await_listed()
    git_host.server.faults.set(GitFault("error", service="upload-pack"))
    try:
        mirrored.await_condition("gitrepoconfig", "repo", "ConnectionFailed")
        mirrored.admin.apply(_rule(mirrored, "rule", "configmaps"))
        eventually(lambda: mirrored.files().keys() == {maps}, "the deselected type gone")
    finally:
        git_host.server.faults.clear()


@pytest.mark.scenario("A27")
def test_files_that_no_rule_covers_are_removed(mirrored: MirroredNamespace) -> None:
    """Level-triggered: no process needs to have known the rule that once covered it."""
    backups = {"apiVersion": "gone.example.org/v1", "kind": "Backup"}
    metadata = {"name": "old", "namespace": mirrored.namespace}
    write_leftover_folder(
        mirrored,
        _service(mirrored, "one"),
        {**backups, "metadata": metadata},
        plurals={"Service": "services", "Backup": "backups"},
    )
    mirrored.admin.apply(mirrored.config_map("one", a="1"), _service(mirrored, "one"))
    mirrored.configured({"resources": ["configmaps"]})
    maps, _ = _paths(mirrored)
    eventually(lambda: mirrored.files().keys() == {maps}, "files of other types gone")


@pytest.mark.scenario("A28")
def test_a_broken_rule_removes_nothing(mirrored: MirroredNamespace) -> None:
    """Its files stay while its reference is broken, whatever other rules do."""
    maps, services = _started(mirrored)
    broken = mirrored.watch_rule({"resources": ["configmaps", "services"]})
    broken["spec"]["destinationRef"]["name"] = "mistyped"
    mirrored.admin.apply(broken, _rule(mirrored, "more", "configmaps"))
    mirrored.await_condition("watchrule", "rule", "GitDestinationNotFound")
    mirrored.await_condition("watchrule", "more", "Ready")
    mirrored.admin.apply(mirrored.config_map("two", a="1"))
    marker = f"v1/configmaps/{mirrored.namespace}/two.yaml"
    eventually(lambda: marker in mirrored.files(), "a later change")
    assert services in mirrored.files()
    admin_user(mirrored).delete("watchrule", "rule")
    eventually(lambda: mirrored.files().keys() == {maps, marker}, "the deleted rule's file gone")


@pytest.mark.scenario("A96")
def test_prune_on_event_keeps_files_without_an_observed_deletion(
    mirrored: MirroredNamespace,
) -> None:
    """An observed delete goes, a deselected type is retained; changing to Always removes it."""
    maps, services = _started(mirrored, prune="OnEvent")
    mirrored.admin.apply(mirrored.config_map("two", a="1"))
    marker = f"v1/configmaps/{mirrored.namespace}/two.yaml"
    eventually(lambda: marker in mirrored.files(), "a later file")
    mirrored.admin.apply(_rule(mirrored, "rule", "configmaps"))
    eventually(lambda: _retained(mirrored) == 1, "one retained file")
    admin_user(mirrored).delete("configmap", "two")
    eventually(lambda: marker not in mirrored.files(), "the observed delete")
    assert mirrored.files().keys() == {maps, services}
    mirrored.admin.apply(mirrored.git_destination({"prune": "Always"}))
    eventually(lambda: mirrored.files().keys() == {maps}, "the retained file gone")
    eventually(lambda: _retained(mirrored) == 0, "nothing retained")


@pytest.mark.scenario("A96")
def test_prune_never_keeps_every_file(mirrored: MirroredNamespace) -> None:
    """A deleted object's file stays and is counted, until it is made again."""
    maps, services = _started(mirrored, prune="Never")
    admin_user(mirrored).delete("configmap", "one")
    eventually(lambda: _retained(mirrored) == 1, "one retained file")
    assert mirrored.files().keys() == {maps, services}
    mirrored.admin.apply(mirrored.config_map("one", a="2"))
    eventually(lambda: _retained(mirrored) == 0, "its object made again")
    assert not [subject for subject in mirrored.subjects() if subject.startswith("[DELETE]")]


def _retained(mirrored: MirroredNamespace) -> int:
    status = mirrored.admin.get("gitdestination", "destination")["status"]
    found: int = status.get("retained", 0)
    return found
