"""A dump into a real directory from a made-up API server: what may be overwritten or removed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from windlass.base.errors import WindlassError
from windlass.base.safe_directory import SafeDirectory
from windlass.kube.api import Api
from windlass.kube.errors import NotFound
from windlass.objects.names import GVR
from windlass.reverser import dump
from windlass.reverser.content.clean_object import ObjectReader
from windlass.reverser.dump import Dump, DumpSelection
from windlass.reverser.publish import folder_claim
from windlass.reverser.selection.rules import SelectedScope, operation_mask

MAPS = GVR("", "v1", "configmaps")
SCOPE = SelectedScope(MAPS, "ns", operation_mask(()), include_owned=False)


@dataclass
class Page:
    """One page of a list."""

    items: list[bytes]


@dataclass
class FakeApi:
    """A server with ConfigMaps; `gone` is what it answers when asked for one by name."""

    names: list[str] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    gone: str = '"{}" not found'
    asked: list[str] = field(default_factory=list)

    async def pages(self, gvr: GVR, namespace: str) -> AsyncIterator[Page]:
        objects = [_map(name) for name in self.names]
        yield Page([json.dumps(obj).encode() for obj in objects] + self.raw)

    async def get(self, gvr: GVR, name: str, namespace: str) -> None:
        self.asked.append(name)
        raise NotFound(404, "NotFound", self.gone.format(name))

    # The rule is that of the real client.
    is_deleted = Api.is_deleted


def _map(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
    return {"metadata": metadata, "data": {"a": "1"}}


async def _dump(api: FakeApi, root: Path, *, prunes: bool = True) -> Dump:
    dump = Dump(
        cast("Api", api),
        SafeDirectory(root),
        ObjectReader(b"", frozenset()),
        salt=b"",
        cluster_uid="uid",
        writes=True,
        prunes=prunes,
        progress=lambda _: None,
    )
    dump._check_claim()
    await dump._dump_scope(SCOPE, "ConfigMap")
    return dump


def _files(root: Path) -> set[str]:
    return {path.name for path in (root / "v1/configmaps/ns").iterdir()}


async def test_an_empty_list_removes_only_what_is_proven_gone(tmp_path: Path) -> None:
    """SNP-4: a 404 that names no object, as of a type that is not served, removes nothing."""
    await _dump(FakeApi(["one", "two"]), tmp_path)
    unserved = FakeApi(gone="the server could not find the requested resource")
    await _dump(unserved, tmp_path)
    assert unserved.asked == ["one", "two"]
    assert _files(tmp_path) == {"one.yaml", "two.yaml"}
    await _dump(FakeApi(["one"]), tmp_path)
    assert _files(tmp_path) == {"one.yaml"}
    await _dump(FakeApi(), tmp_path)
    assert not (tmp_path / "v1").exists()


async def test_a_nameless_object_makes_a_list_prove_nothing(tmp_path: Path) -> None:
    """SNP-1: the object without a name may be the one whose file would go."""
    await _dump(FakeApi(["one", "two"]), tmp_path)
    dump = await _dump(FakeApi(["one"], [b'{"metadata":{}}']), tmp_path)
    assert dump.difference.unreadable == ["v1/configmaps: an object has no readable name"]
    assert _files(tmp_path) == {"one.yaml", "two.yaml"}


async def test_files_older_than_the_claim_stay(tmp_path: Path) -> None:
    """SNP-10: a foreign file is kept, one of the same object adopted, one of a gone object kept."""
    folder = tmp_path / "v1/configmaps/ns"
    (folder / "three.yaml").mkdir(parents=True)
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: ns\n"
    (folder / "one.yaml").write_text("kind: Something\n")
    (folder / "two.yaml").write_text(f"# by hand\n{head}  name: two\n")
    (folder / "old.yaml").write_text(f"{head}  name: old\n")
    dump = await _dump(FakeApi(["one", "two", "three"]), tmp_path)
    assert dump.difference.skipped == {"PathOccupied": 2}
    assert dump.difference.updated == ["v1/configmaps/ns/two.yaml"]
    assert (folder / "one.yaml").read_text() == "kind: Something\n"
    assert (folder / "old.yaml").exists()


async def test_a_claim_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """SNP-11: it is named and stays; nothing is written beside it."""
    (tmp_path / folder_claim.FILE_NAME).write_text("somebody else's notes\n")
    with pytest.raises(WindlassError, match="line 1 is invalid; delete the file"):
        await _dump(FakeApi(["one"]), tmp_path)
    assert not (tmp_path / "v1").exists()


def test_an_unknown_type_is_an_error() -> None:
    """A misspelled --include is an error that names it, not an empty dump."""
    choice = DumpSelection(include=("configmaps", "apps/deploymnts"))
    expected = "--include apps/deploymnts: the cluster serves no such type"
    with pytest.raises(WindlassError, match=expected):
        dump._refuse_unknown(choice, [SCOPE])
