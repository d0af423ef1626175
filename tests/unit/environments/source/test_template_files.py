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
    """Files with values may be elsewhere; the tree hash covers all of them."""
    selected = template_files.select_chart(LISTING, "chart", ["values/x.yaml"])
    assert sorted(selected) == sorted(FILES[:4])
    assert template_files.select_chart(LISTING, "chart/", ["values/x.yaml"]) == selected
    changed = {**LISTING, "values/x.yaml": Entry(0o100644, "f" * 40)}
    other = template_files.select_chart(changed, "chart", ["values/x.yaml"])
    assert template_files.tree_digest(other) != template_files.tree_digest(selected)
    unrelated = {**LISTING, "README": Entry(0o100644, "f" * 40)}
    same = template_files.select_chart(unrelated, "chart", ["values/x.yaml"])
    assert template_files.tree_digest(same) == template_files.tree_digest(selected)


@pytest.mark.parametrize(
    ("path", "values", "message"),
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
def test_a_missing_path_is_named(path: str, values: list[str], message: str) -> None:
    """With the entries that exist instead."""
    with pytest.raises(RenderRefused, match=message) as caught:
        template_files.select_chart(LISTING, path, values)
    assert caught.value.reason == "RenderFailed"


@pytest.mark.parametrize(
    ("mode", "message"), [(0o120000, "symbolic link"), (0o160000, "submodule")]
)
def test_only_regular_files_are_read(mode: int, message: str) -> None:
    """In the chart and among the files with values."""
    for name in ("chart/charts/dep", "values/x.yaml"):
        listing = {**LISTING, name: Entry(mode, "0" * 40)}
        with pytest.raises(Stalled, match=message) as caught:
            template_files.select_chart(listing, "chart", ["values/x.yaml"])
        assert caught.value.reason == "UnsafePath"
        assert str(caught.value).endswith("; replace it with a file")


def test_a_manifest_that_is_no_file_may_be_excluded() -> None:
    """What a link leads to is never read, but it need not be read."""
    listing = {**LISTING, "values/link.yaml": Entry(0o120000, "0" * 40)}
    with pytest.raises(Stalled, match="replace it with a file, or add it to exclude of the"):
        template_files.select_manifests(listing, "values")
    selected = template_files.select_manifests(listing, "values", ["link.yaml"])
    assert list(selected) == ["values/x.yaml"]


def test_a_chart_of_too_many_files_or_directories_is_refused() -> None:
    """So a path that covers everything is reported before it is read or written to disk."""
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
    selected = template_files.select_manifests(_DIRECTORY, "deploy", exclude)
    assert set(selected) == {f"deploy/{name}" for name in wanted - missing}


@pytest.mark.parametrize("name", ["kustomization.yaml", "kustomization.yml", "Kustomization"])
def test_a_kustomization_is_refused_by_its_name(name: str) -> None:
    """It needs neither apiVersion nor kind; excluding it keeps the rest."""
    listing = {**_DIRECTORY, f"deploy/a/{name}": Entry(0o100644, "0" * 40)}
    with pytest.raises(RenderRefused, match="kustomize is not supported yet"):
        template_files.select_manifests(listing, "deploy")
    with pytest.raises(RenderRefused, match="kustomize is not supported yet"):
        template_files.select_manifests(listing, f"deploy/a/{name}")
    assert template_files.select_manifests(listing, "deploy", (f"**/{name}",))
