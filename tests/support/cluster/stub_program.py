"""Small shell programs that replace large ones."""

from __future__ import annotations

from pathlib import Path


def write_script(path: Path, body: str) -> Path:
    """An executable shell script; it must not need anything on PATH."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path
