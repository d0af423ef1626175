"""Which files of a commit a template needs."""

from __future__ import annotations

import pytest

from windlass.base.errors import Stalled
from windlass.environments.render.manifests import RenderRefused
from windlass.environments.source import template_files
from windlass.git.store import Entry

FILES = ("chart/Chart.yaml", "chart/templates/a.yaml", "chart/logo.png", "values/x.yaml", "README")
LISTING = {name: Entry(0o100644, f"{number:040x}") for number, name in enumerate(FILES)}


def test_a_chart_is_everything_below_its_path_and_the_values() -> None:
    """The files with values may lie elsewhere; the tree stands for all of them."""
    found = template_files.select_chart(LISTING, "chart", ["values/x.yaml"])
    assert sorted(found) == sorted(FILES[:4])
    assert template_files.select_chart(LISTING, "chart/", ["values/x.yaml"]) == found
    changed = {**LISTING, "values/x.yaml": Entry(0o100644, "f" * 40)}
    other = template_files.select_chart(changed, "chart", ["values/x.yaml"])
    assert template_files.tree_digest(other) != template_files.tree_digest(found)
    unrelated = {**LISTING, "README": Entry(0o100644, "f" * 40)}
    same = template_files.select_chart(unrelated, "chart", ["values/x.yaml"])
    assert template_files.tree_digest(same) == template_files.tree_digest(found)


@pytest.mark.parametrize(
    ("path", "values", "told"),
    [
        ("", [], "the repository root contains no Chart.yaml"),
        ("values", [], "values contains no Chart.yaml"),
        (
            "gone",
            [],
            "gone not found in the commit; the repository root contains README, chart, values",
        ),
        ("chart/Chart.yaml", [], "chart/Chart.yaml is a file, not a directory"),
        ("chart", ["values/y.yaml"], "valuesFiles: values/y.yaml not found in the commit"),
    ],
)
def test_what_is_missing_is_named(path: str, values: list[str], told: str) -> None:
    """And what lies there instead."""
    with pytest.raises(RenderRefused, match=told) as caught:
        template_files.select_chart(LISTING, path, values)
    assert caught.value.reason == "RenderFailed"


@pytest.mark.parametrize(("mode", "told"), [(0o120000, "symbolic link"), (0o160000, "submodule")])
def test_only_plain_files_are_read(mode: int, told: str) -> None:
    """Wherever in the chart, or among the files with values, it stands."""
    for name in ("chart/charts/dep", "values/x.yaml"):
        listing = {**LISTING, name: Entry(mode, "0" * 40)}
        with pytest.raises(Stalled, match=told) as caught:
            template_files.select_chart(listing, "chart", ["values/x.yaml"])
        assert caught.value.reason == "UnsafePath"


def test_a_chart_of_too_many_files_or_directories_is_refused() -> None:
    """So that a path to everything is told before it is read, or written to disk."""
    many = {f"chart/{n}": Entry(0o100644, "0" * 40) for n in range(template_files.MOST_FILES)}
    with pytest.raises(Stalled, match="at most 5000"):
        template_files.select_chart({**LISTING, **many}, "chart", [])
    deep = {f"chart/{n}/{'d/' * 60}x": Entry(0o100644, "0" * 40) for n in range(100)}
    with pytest.raises(Stalled, match="more than 5000 directories"):
        template_files.select_chart({**LISTING, **deep}, "chart", [])


_TREE = (
    "deploy/web.yaml",
    "deploy/a/b/db.yml",
    "deploy/.github/ci.yml",
    "deploy/a/.tools/x.yaml",
    "deploy/.hidden.yaml",
    "deploy/test/x.yaml",
    "deploy/values-dev.yaml",
    "deploy/notes.txt",
    ".github/workflows/ci.yml",
)
_DIRECTORY = {name: Entry(0o100644, "0" * 40) for name in _TREE}


@pytest.mark.parametrize(
    ("exclude", "missing"),
    [
        ((), set()),
        (("test", "values-*.yaml"), {"test/x.yaml", "values-dev.yaml"}),
        (("**/*.yml", "web.yaml"), {"a/b/db.yml", "web.yaml"}),
        (("db.yml", "a/*.yml"), set()),
        (("a/**",), {"a/b/db.yml"}),
    ],
)
def test_a_directory_is_read_at_any_depth(exclude: tuple[str, ...], missing: set[str]) -> None:
    """Without directories of tools, and without what the template excludes."""
    wanted = {"web.yaml", "a/b/db.yml", ".hidden.yaml", "test/x.yaml", "values-dev.yaml"}
    found = template_files.select_manifests(_DIRECTORY, "deploy", exclude)
    assert set(found) == {f"deploy/{name}" for name in wanted - missing}


@pytest.mark.parametrize("name", ["kustomization.yaml", "kustomization.yml", "Kustomization"])
def test_a_kustomization_is_refused_by_its_name(name: str) -> None:
    """It needs neither apiVersion nor kind; who excludes it gets the rest."""
    listing = {**_DIRECTORY, f"deploy/a/{name}": Entry(0o100644, "0" * 40)}
    with pytest.raises(RenderRefused, match="kustomize is not supported yet"):
        template_files.select_manifests(listing, "deploy")
    with pytest.raises(RenderRefused, match="kustomize is not supported yet"):
        template_files.select_manifests(listing, f"deploy/a/{name}")
    assert template_files.select_manifests(listing, "deploy", (f"**/{name}",))
