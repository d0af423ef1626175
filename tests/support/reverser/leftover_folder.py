"""A folder as an earlier destination of the same name would have left it."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.support.git.http_server import commit_files
from tests.support.reverser.mirrored_namespace import MirroredNamespace


def claim(mirrored: MirroredNamespace) -> str:
    """The claim of this destination in this cluster."""
    found = json.loads(mirrored.cluster.api.request("/api/v1/namespaces/kube-system").text)
    return (
        f"claim: v1\ncluster: {found['metadata']['uid']}\n"
        f"destination: {mirrored.namespace}/destination\nemitter: e1\nlayout: seed\n"
    )


def write_leftover_folder(
    mirrored: MirroredNamespace, *documents: dict[str, Any], plurals: dict[str, str]
) -> None:
    """A claimed folder with files of objects that are no more; `plurals` by kind."""
    files = {".windlass-claim": claim(mirrored)}
    for document in documents:
        folder = f"{document['apiVersion']}/{plurals[document['kind']]}/{mirrored.namespace}"
        files[f"{folder}/{document['metadata']['name']}.yaml"] = yaml.safe_dump(document)
    commit_files(mirrored.path, {f"{mirrored.folder}/{path}": text for path, text in files.items()})
