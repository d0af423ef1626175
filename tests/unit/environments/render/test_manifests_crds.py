"""Which files of a chart define kinds."""

from __future__ import annotations

import gzip
import io
import tarfile

from windlass.environments.render import manifests


def _archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return buffer.getvalue()


def test_definitions_of_a_chart_and_its_dependencies_are_named() -> None:
    """Also those in archives; other files of these names are something else."""
    chart = {
        "Chart.yaml": b"",
        "crds/a.yaml": b"",
        "crds/README.md": b"",
        "templates/crds/b.yaml": b"",
        "charts/dep/crds/sub/c.json": b"",
        "charts/two-1.0.tgz": _archive(
            "two/Chart.yaml", "two/crds/d.yml", "two/charts/x/crds/e.yaml"
        ),
    }
    assert manifests.crd_files(chart) == (
        "charts/dep/crds/sub/c.json (CustomResourceDefinitions)",
        "charts/two-1.0.tgz/two/charts/x/crds/e.yaml (CustomResourceDefinitions)",
        "charts/two-1.0.tgz/two/crds/d.yml (CustomResourceDefinitions)",
        "crds/a.yaml (CustomResourceDefinitions)",
    )


def test_an_archive_that_cannot_be_read_names_nothing() -> None:
    """Helm reports its fault; one that never ends is read up to a bound."""
    broken = (b"", b"text", gzip.compress(b"no archive"), gzip.compress(bytes(40 << 20)))
    for archive in broken:
        assert manifests.crd_files({"charts/a.tgz": archive}) == ()
