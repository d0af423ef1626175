"""Images as archives."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from typing import Any

import pytest

from windlass_dev.node import oci_archive
from windlass_dev.node.oci_archive import ContainerImage

FILES = {"bin/run": (0o755, b"program"), "/etc/x/settings": (0o640, b"a: 1\n")}


def _members(content: bytes) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        members = {}
        for info in tar.getmembers():
            file = tar.extractfile(info) if info.isfile() else None
            members[info.name] = (info, file.read() if file else b"")
        return members


def _blob(outer: dict[str, tuple[tarfile.TarInfo, bytes]], digest: str) -> bytes:
    return outer[f"blobs/sha256/{digest.removeprefix('sha256:')}"][1]


def _image(**settings: Any) -> bytes:
    return oci_archive.build_archive(
        ContainerImage([oci_archive.build_layer(FILES)], **settings), "example.org/thing:7"
    )


def test_same_input_gives_the_same_bytes() -> None:
    """The order in which files are given does not matter, nor does the time."""
    backwards = dict(reversed(FILES.items()))
    assert oci_archive.build_layer(FILES) == oci_archive.build_layer(backwards)
    assert _image() == _image()


def test_layer_holds_files_links_and_every_directory_above_them() -> None:
    """Directories come before their content, and no user name or time is stored."""
    layer = oci_archive.build_layer(
        FILES, links={"bin/also": "run"}, directories={"tmp": 0o1777}, compress=False
    )
    members = _members(layer.content)
    assert list(members) == sorted(members)
    assert members["bin/run"][1] == b"program"
    assert members["etc/x"][0].isdir()
    assert (members["bin/also"][0].linkname, members["tmp"][0].mode) == ("run", 0o1777)
    assert members["etc/x/settings"][0].mode == 0o640
    assert {(info.mtime, info.uid, info.uname) for info, _ in members.values()} == {(0, 0, "")}


def test_packed_layer_is_known_by_its_unpacked_digest() -> None:
    """The configuration has the uncompressed digest, the manifest the compressed one."""
    packed, bare = oci_archive.build_layer(FILES), oci_archive.build_layer(FILES, compress=False)
    assert gzip.decompress(packed.content) == bare.content
    assert packed.diff_id == bare.diff_id == oci_archive.blob_digest(bare.content)
    assert packed.media_type == f"{bare.media_type}+gzip"


def test_index_leads_to_manifest_configuration_and_layers() -> None:
    """Every descriptor's digest and size are those of the blob it names."""
    outer = _members(_image(entrypoint=["/bin/run"], user="5:6", working_directory="/tmp"))
    (entry,) = json.loads(outer["index.json"][1])["manifests"]
    assert entry["annotations"][oci_archive.NAME_ANNOTATION] == "example.org/thing:7"
    assert entry["annotations"][oci_archive.REFERENCE_ANNOTATION] == "7"
    manifest = json.loads(_blob(outer, entry["digest"]))
    for part in (manifest["config"], *manifest["layers"], entry):
        blob = _blob(outer, part["digest"])
        assert part["size"] == len(blob)
        assert part["digest"] == f"sha256:{hashlib.sha256(blob).hexdigest()}"
    config = json.loads(_blob(outer, manifest["config"]["digest"]))
    assert config["rootfs"]["diff_ids"] == [oci_archive.build_layer(FILES).diff_id]
    process = {"Entrypoint": ["/bin/run"], "User": "5:6", "WorkingDir": "/tmp"}
    assert config["config"] == process
    assert json.loads(outer["oci-layout"][1]) == {"imageLayoutVersion": "1.0.0"}


def test_process_settings_are_written_as_images_have_them() -> None:
    """The environment is a sorted list; omitted settings are absent."""
    outer = _members(_image(environment={"B": "2", "A": "1"}, labels={"k": "v"}, command=["x"]))
    (entry,) = json.loads(outer["index.json"][1])["manifests"]
    manifest = json.loads(_blob(outer, entry["digest"]))
    config = json.loads(_blob(outer, manifest["config"]["digest"]))["config"]
    assert config == {"Cmd": ["x"], "Env": ["A=1", "B=2"], "Labels": {"k": "v"}}


@pytest.mark.parametrize("path", ["", "/", ".", "../x", "a/../../x", "a\0b"])
def test_paths_that_leave_the_image_are_refused(path: str) -> None:
    """No file is unpacked outside the image."""
    with pytest.raises(ValueError, match="not a path inside an image"):
        oci_archive.build_layer({path: (0o644, b"")})


@pytest.mark.parametrize(
    ("name", "tag"), [("a.org:5000/x", "latest"), ("a.org:5000/x:2", "2"), ("x", "latest")]
)
def test_tag_is_what_follows_the_last_name(name: str, tag: str) -> None:
    """A registry's port is not a tag."""
    outer = _members(
        oci_archive.build_archive(ContainerImage([oci_archive.build_layer(FILES)]), name)
    )
    (entry,) = json.loads(outer["index.json"][1])["manifests"]
    assert entry["annotations"][oci_archive.REFERENCE_ANNOTATION] == tag
