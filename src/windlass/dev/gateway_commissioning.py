"""What a first boot's commissioning does to a gateway's files.

It writes the security properties anew, which takes permissions away from API tokens
that came with the files; their resource.json gets a new modification time.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from windlass.base import atomic

_RESOURCES = "config/resources"
_PROPERTIES = "ignition/security-properties"
_RESET = {
    "gatewayReadPermissions": {"type": "AllOf", "securityLevels": []},
    "gatewayWritePermissions": {"type": "AllOf", "securityLevels": []},
}


def rewrite(data: Path) -> list[str]:
    """Reset the security properties of every collection, in core where there are none."""
    found = sorted((data / _RESOURCES).glob(f"*/{_PROPERTIES}/config.json"))
    if not found:
        found = [data / _RESOURCES / "core" / _PROPERTIES / "config.json"]
        found[0].parent.mkdir(parents=True, exist_ok=True)
    for path in found:
        atomic.write_bytes(path, _document(_RESET))
        atomic.write_bytes(path.with_name("resource.json"), _document(_resource(path)))
    return [path.relative_to(data).as_posix() for path in found]


def _resource(config: Path) -> dict[str, Any]:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {
        "scope": "G",
        "version": 1,
        "files": [config.name],
        "attributes": {"lastModification": {"actor": "system", "timestamp": stamp}},
    }


def _document(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
