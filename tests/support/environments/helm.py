"""The helm program for tests, and small charts for it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import pytest

from windlass.environments.render.helm import Helm
from windlass.environments.render.helm_command import Release
from windlass.environments.render.sandbox.child import RenderLimits
from windlass_dev.programs import provider, tools

RELEASE = Release("demo", "demo-ns", "v1.35.4", ("apps/v1", "example.com/v1/Widget"))


@functools.cache
def helm_program() -> str:
    """The path of helm; a test does not build it, which would take minutes."""
    program = provider.find_tool(tools.HELM)
    if program is None:
        pytest.fail("helm is missing: run `windlass dev binaries --helm` once", pytrace=False)
    return str(program)


def helm(directory: Path, **limits: float) -> Helm:
    """A helm that works below `directory`."""
    return Helm(helm_program(), RenderLimits(**limits), directory / "renders")  # type: ignore[arg-type]


def chart(files: Mapping[str, str], *, more: str = "") -> dict[str, bytes]:
    """A chart named sample with these templates."""
    head = f"apiVersion: v2\nname: sample\nversion: 0.1.0\n{more}"
    texts = {"Chart.yaml": head, **{f"templates/{name}": text for name, text in files.items()}}
    return {path: text.encode() for path, text in texts.items()}
