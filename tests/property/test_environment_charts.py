"""The output of helm is split as YAML defines it."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from windlass.environments.render import manifests

LINES = st.sampled_from(
    ["---", "# Source: a/b", "...", "text", "", "  ---", "--- x", "k: v", "- a"]
)
TEXTS = st.lists(LINES, max_size=5).map("\n".join)
OBJECTS = st.lists(
    st.tuples(st.sampled_from(["x.yaml", "y.yaml"]), st.lists(TEXTS, max_size=3)),
    min_size=1,
    max_size=5,
)


def _object(number: int, texts: list[str]) -> dict[str, object]:
    data = {f"k{index}": text for index, text in enumerate(texts)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"c{number}"},
        "data": data,
    }


@given(OBJECTS, st.sampled_from([None, "|", '"']))
def test_every_object_is_read_back_unchanged(
    rows: list[tuple[str, list[str]]], style: str | None
) -> None:
    """With the name of its template, whatever its texts contain."""
    wanted = {f"c{n}": (file, _object(n, texts)) for n, (file, texts) in enumerate(rows)}
    printed = "".join(
        f"---\n# Source: {file}\n{yaml.safe_dump(obj, default_style=style)}"
        for file, obj in wanted.values()
    )
    found = manifests.read_chart(printed.encode()).manifests
    assert {row.object["metadata"]["name"]: (row.file, row.object) for row in found} == wanted
