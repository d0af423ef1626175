"""Paths of the gateway that no sync touches."""

from __future__ import annotations

import pytest

from windlass.gateways.tree.path_rules import is_protected


@pytest.mark.parametrize(
    "path",
    [
        ".resources",
        "projects/.resources/ab/cd",
        "x/.git/config",
        ".ignition-sync/lock",
        "a/.sync-staging",
        "config/local/uuid.txt",
        "config/resources/local",
        "config/resources/local/x",
        "db/internal",
        "var",
        "logs/a",
        "jar-cache/x",
        "metricsdb/x",
        "redundancy.xml",
        ".uuid",
        "modules.json",
        "commissioning.json",
        ".ignition-seed-complete",
        "config/ignition/tags/valueStore.idb",
        "a/b.idb-journal",
    ],
)
def test_constant_paths_are_protected(path: str) -> None:
    """PRO-1: each with all paths below it."""
    assert is_protected(path)


@pytest.mark.parametrize(
    "path",
    [
        "projects/a/db/x",
        "config/resources/core",
        "config/resources/locals",
        "x/modules.json",
        "logs2",
        "config",
        "resources/a",
    ],
)
def test_similar_names_are_not_protected(path: str) -> None:
    """Top-level names are protected at the top only, and only as whole components."""
    assert not is_protected(path)
