"""Builds an image as an OCI archive, byte for byte the same from the same input.

An archive is a tar of an OCI layout: blobs by digest, `index.json`, `oci-layout`. The
name is stored under the annotation that containerd reads at import and under the one that
other tools read. Nothing of this machine is included: times are zero, owners are root,
entries are sorted, and every parent directory of a file has an entry before it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

NAME_ANNOTATION = "io.containerd.image.name"
REFERENCE_ANNOTATION = "org.opencontainers.image.ref.name"

_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_DIRECTORY_MODE = 0o755

LayerFiles = Mapping[str, tuple[int, bytes]]
"""Contents by path, each with its permission bits."""


@dataclass(frozen=True, slots=True)
class ImageLayer:
    """A layer: the stored bytes, their media type, and the digest of the uncompressed tar."""

    content: bytes
    media_type: str
    diff_id: str


@dataclass(frozen=True, slots=True)
class ContainerImage:
    """An image: its layers and the configuration of its process; empty values are left out."""

    layers: Sequence[ImageLayer]
    """From the bottom up."""
    entrypoint: Sequence[str] = ()
    """The program and its fixed arguments."""
    command: Sequence[str] = ()
    """Default arguments, or the command line of an image without entrypoint."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the process."""
    user: str = ""
    """`uid:gid`, or empty for root."""
    working_directory: str = ""
    """Where the process starts; empty for /."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the image."""
    architecture: str = "amd64"
    """As OCI names it (`containerd.image_architecture`)."""


def build_layer(
    files: LayerFiles,
    *,
    links: Mapping[str, str] | None = None,
    directories: Mapping[str, int] | None = None,
    compress: bool = True,
) -> ImageLayer:
    """Build a layer with `files`, symbolic `links` (path to target), `directories` with modes."""
    entries = {
        path: _file(path, mode, content) for path, (mode, content) in _relative_entries(files)
    }
    entries |= {path: _link(path, target) for path, target in _relative_entries(links or {})}
    entries |= {path: _directory(path, mode) for path, mode in _relative_entries(directories or {})}
    for path in list(entries):
        for parent in _parents(path):
            entries.setdefault(parent, _directory(parent, _DIRECTORY_MODE))
    bare = _tar([entries[path] for path in sorted(entries)])
    diff_id = blob_digest(bare)
    if not compress:
        return ImageLayer(bare, _LAYER, diff_id)
    return ImageLayer(gzip.compress(bare, compresslevel=6, mtime=0), f"{_LAYER}+gzip", diff_id)


def build_archive(image: ContainerImage, name: str) -> bytes:
    """The OCI archive of `image`, which gets the reference `name` at import."""
    blobs: dict[str, bytes] = {}
    config = _store_blob(blobs, _json(_image_config(image)), _CONFIG)
    layers = [_store_blob(blobs, layer.content, layer.media_type) for layer in image.layers]
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": layers}
    descriptor = _store_blob(blobs, _json(manifest), _MANIFEST)
    descriptor["annotations"] = {NAME_ANNOTATION: name, REFERENCE_ANNOTATION: _tag(name)}
    descriptor["platform"] = {"architecture": image.architecture, "os": "linux"}
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [descriptor]}
    outer = {f"blobs/sha256/{value.partition(':')[2]}": blobs[value] for value in blobs}
    outer |= {"index.json": _json(index), "oci-layout": _json({"imageLayoutVersion": "1.0.0"})}
    return _tar([_file(path, 0o644, outer[path]) for path in sorted(outer)])


def blob_digest(content: bytes) -> str:
    """The OCI digest of `content`."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _image_config(image: ContainerImage) -> dict[str, Any]:
    process: dict[str, Any] = {
        "Entrypoint": list(image.entrypoint),
        "Cmd": list(image.command),
        "Env": [f"{key}={value}" for key, value in sorted(image.environment.items())],
        "User": image.user,
        "WorkingDir": image.working_directory,
        "Labels": dict(image.labels),
    }
    return {
        "architecture": image.architecture,
        "os": "linux",
        "config": {key: value for key, value in process.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in image.layers]},
    }


def _store_blob(blobs: dict[str, bytes], content: bytes, media_type: str) -> dict[str, Any]:
    name = blob_digest(content)
    blobs[name] = content
    return {"mediaType": media_type, "digest": name, "size": len(content)}


def _tag(name: str) -> str:
    return name.rpartition("/")[2].partition(":")[2] or "latest"


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


T = TypeVar("T")

_Entry = tuple[tarfile.TarInfo, bytes]


def _relative_entries(paths: Mapping[str, T]) -> list[tuple[str, T]]:
    return [(_relative(path), value) for path, value in paths.items()]


def _relative(path: str) -> str:
    """`path` relative to the root of the image; raise for one outside it or the root itself."""
    normal = posixpath.normpath(path.lstrip("/"))
    if normal in ("", ".") or normal.split("/")[0] == ".." or "\0" in path:
        raise ValueError(f"{path!r} is not a path inside an image")
    return normal


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _file(path: str, mode: int, content: bytes) -> _Entry:
    info = tarfile.TarInfo(path)
    info.mode, info.size = mode, len(content)
    return info, content


def _link(path: str, target: str) -> _Entry:
    info = tarfile.TarInfo(path)
    info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
    return info, b""


def _directory(path: str, mode: int) -> _Entry:
    info = tarfile.TarInfo(path)
    info.type, info.mode = tarfile.DIRTYPE, mode
    return info, b""


def _tar(entries: Sequence[_Entry]) -> bytes:
    # Deterministic by the defaults of TarInfo: time 0, owner 0, no names.
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()
