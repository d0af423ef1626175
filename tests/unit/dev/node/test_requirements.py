"""Reasons for which a node cannot run."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from windlass.base.errors import WindlassError
from windlass_dev.node import cgroups, requirements, system


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that meets all requirements."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/bin/{name}")
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [Path("/")])
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    monkeypatch.setattr(requirements, "_check_overlay", lambda: None)
    monkeypatch.setattr(system, "run_command", lambda *command: "")


def test_a_suitable_machine_has_no_reason() -> None:
    """No reason means that a node can run."""
    assert requirements.unmet_requirement() is None
    requirements.check_requirements(Path("/state/x"))


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any other check."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert requirements.unmet_requirement() == "a node requires Linux"


def test_other_users_are_refused_with_the_alternative(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain cluster works for every user."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(WindlassError, match=r"requires root.*without --node still works"):
        requirements.check_requirements(Path("/state/x"))


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the packages that have them."""
    monkeypatch.setattr(
        shutil, "which", lambda name, path=None: None if name == "nsenter" else name
    )
    assert (
        requirements.unmet_requirement()
        == "a node requires iproute2 and util-linux; not found: nsenter"
    )


def test_missing_or_read_only_cgroups_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods need them."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert requirements.unmet_requirement() == "cgroup hierarchy / is not writable"
    monkeypatch.setattr(cgroups, "hierarchies", list)
    assert requirements.unmet_requirement() == "no cgroup hierarchy is mounted"


def test_refused_namespaces_are_reported_with_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In many containers even root may not create them."""

    def refuse(*command: str) -> str:
        raise WindlassError("NodeFailed", "Operation not permitted")

    monkeypatch.setattr(system, "run_command", refuse)
    problem = requirements.unmet_requirement()
    assert problem is not None
    assert "Operation not permitted" in problem


def test_a_directory_too_long_for_sockets_is_refused() -> None:
    """The message has the maximum length and the setting to change."""
    with pytest.raises(WindlassError, match="at most 70"):
        requirements.check_requirements(Path("/" + "x" * 70))
