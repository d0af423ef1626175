"""Copies of Secrets that deployment tools keep in annotations never reach Git in plain text."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.reverser.test_mirror_once import Dumper
from tests.support.git.http_server import commit_files
from tests.support.processes.operator import eventually
from tests.support.reverser.api_users import admin_user
from tests.support.reverser.leftover_folder import claim
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.scenario("A56")]

VALUE = "canary-5518-in-an-annotation"
ENCODED = base64.b64encode(VALUE.encode()).decode()
PACKED = base64.b64encode(gzip.compress(ENCODED.encode() * 3, mtime=0)).decode()
COPIES = {
    "kapp.k14s.io/original": json.dumps({"data": {"key": ENCODED}}),
    "banzaicloud.com/last-applied": PACKED,
    "objectset.rio.cattle.io/applied": PACKED,
    "meta.helm.sh/release-name": "web",
}


def _secret(namespace: str, name: str, **body: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "annotations": COPIES}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **body}


def _assert_silent(text: str) -> None:
    for form in (VALUE, ENCODED.rstrip("="), PACKED):
        assert form not in text


def test_copies_in_annotations_are_redacted(mirrored: MirroredNamespace) -> None:
    """Digests stand for them; a Secret of annotations alone cannot be applied either."""
    admin = admin_user(mirrored)
    admin.apply(
        _secret(mirrored.namespace, "full", data={"key": ENCODED}),
        _secret(mirrored.namespace, "bare"),
    )
    mirrored.configured({"resources": ["secrets"]})
    paths = {name: f"v1/secrets/{mirrored.namespace}/{name}.yaml" for name in ("full", "bare")}
    eventually(lambda: set(paths.values()) <= mirrored.files().keys(), "both files")
    _assert_silent(mirrored.git("cat-file", "--batch-all-objects", "--batch"))
    for path in paths.values():
        shown = yaml.safe_load(mirrored.file(path))["metadata"]["annotations"]
        assert shown.pop("meta.helm.sh/release-name") == "web"
        assert len(set(shown.values())) == 3
        refused = admin.try_kubectl("apply", "--server-side", "-f", "-", stdin=mirrored.file(path))
        assert refused.returncode != 0
    assert admin.get("secret", "bare")["metadata"]["annotations"] == COPIES


def test_a_file_that_showed_a_copy_is_rewritten_with_an_event(mirrored: MirroredNamespace) -> None:
    """The commit redacts it, one Warning says that history keeps it; later commits say nothing."""
    namespace, folder = mirrored.namespace, mirrored.folder
    admin = admin_user(mirrored)
    document = _secret(namespace, "door", data={"key": ENCODED})
    admin.apply(document)
    path = f"v1/secrets/{namespace}/door.yaml"
    earlier = {**document, "data": {"key": "REDACTED(hmac:0123456789abcdef)"}, "type": "Opaque"}
    commit_files(
        mirrored.path,
        {
            f"{folder}/.windlass-claim": claim(mirrored),
            f"{folder}/{path}": yaml.safe_dump(earlier),
        },
    )
    assert PACKED in mirrored.file(path)
    mirrored.configured({"resources": ["secrets"]})
    eventually(lambda: PACKED not in mirrored.files().get(path, PACKED), "the file redacted")
    (event,) = eventually(lambda: _exposures(mirrored), "the Event")
    assert event["type"] == "Warning"
    assert f"v1/secrets/{namespace}/door" in event["message"]
    assert "remain in the history" in event["message"]
    admin.merge("secret", "door", {"metadata": {"annotations": {"kapp.k14s.io/original": "x"}}})
    eventually(lambda: len(mirrored.commits()) >= 3, "a later commit")
    assert len(_exposures(mirrored)) == 1


def _exposures(mirrored: MirroredNamespace) -> list[dict[str, Any]]:
    return [row for row in admin_user(mirrored).list("events") if row["reason"] == "SecretsExposed"]


def test_a_dump_redacts_copies_in_annotations(
    cluster: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    """`windlass mirror --once` writes what the operator would."""
    (tmp_path / "home").mkdir()
    dumper = Dumper(cluster, namespace, tmp_path / "dump", tmp_path / "home")
    dumper.admin.apply(_secret(namespace, "bare"))
    done = dumper.run()
    assert done.returncode == 0, done.stderr
    text = dumper.files()[f"v1/secrets/{namespace}/bare.yaml"]
    assert "REDACTED(hmac:" in text
    _assert_silent(text)
