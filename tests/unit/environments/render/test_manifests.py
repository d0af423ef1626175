"""Files of a repository as a list of objects."""

from __future__ import annotations

import json

import pytest

from windlass.environments.render import manifests
from windlass.environments.render.manifests import RenderRefused
from windlass.objects.names import JSON

ONE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
TWO = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}}


def _objects(*documents: JSON) -> list[JSON]:
    text = "\n---\n".join(json.dumps(document) for document in documents)
    return [written.object for written in manifests.objects({"all.yaml": text.encode()})]


def _refused(*documents: JSON) -> str:
    with pytest.raises(RenderRefused) as caught:
        _objects(*documents)
    assert caught.value.reason == "RenderFailed"
    return str(caught.value)


def test_files_come_in_byte_order() -> None:
    """Whatever order they are given in."""
    files = {
        "b.yml": json.dumps(ONE).encode(),
        "B.yaml": b"apiVersion: v1\nkind: Secret\nmetadata: {name: b}\n",
        "a/z.json": json.dumps({**ONE, "metadata": {"name": "c"}}).encode(),
    }
    result = [(obj.object["metadata"]["name"], obj.file) for obj in manifests.objects(files)]
    assert result == [("b", "B.yaml"), ("c", "a/z.json"), ("a", "b.yml")]


def test_lists_are_unfolded() -> None:
    """Also lists in lists, and lists that name what they hold."""
    inner = {"apiVersion": "v1", "kind": "ConfigMapList", "items": [ONE]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [inner, TWO]}
    assert _objects(outer) == [ONE, TWO]
    assert _objects({"apiVersion": "v1", "kind": "List", "items": None}, ONE) == [ONE]


def test_empty_documents_are_nothing() -> None:
    """A file that ends in a separator is usual."""
    files = {"a.yaml": b"---\n" + json.dumps(ONE).encode() + b"\n---\n"}
    assert [written.object for written in manifests.objects(files)] == [ONE]


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "ConfigMap"},
        {"apiVersion": "v1"},
        {**ONE, "kind": 5},
        {**ONE, "apiVersion": ["v1"]},
        {**ONE, "kind": ""},
    ],
)
def test_half_an_object_is_refused(document: JSON) -> None:
    """With the file and the number of the document: skipping it would prune what runs."""
    assert "all.yaml, document 2 is not a Kubernetes object" in _refused(ONE, document)


@pytest.mark.parametrize("document", [5, "text", [ONE], {}, {"services": {"web": {}}}])
def test_files_that_are_no_objects_are_skipped_and_named(document: JSON) -> None:
    """Where files may contain something else; output of a chart may not."""
    text = "\n---\n".join(json.dumps(obj) for obj in (ONE, document))
    result = manifests.read_manifests(
        {"all.yaml": text.encode(), "b.yaml": json.dumps(document).encode()}
    )
    assert [obj.object for obj in result.objects] == [ONE]
    assert result.skipped == ("all.yaml, document 2", "b.yaml")
    assert "document 2 is not a Kubernetes object" in _refused(ONE, document)


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "v2", "name": "shop", "version": "1.0.0"},
        {"kind": "pipeline", "name": "default"},
        {"kind": "x", "metadata": {"labels": {}}},
    ],
    ids=["Chart.yaml", "pipeline", "nameless"],
)
def test_a_file_of_another_tool_is_skipped(document: JSON) -> None:
    """One key in common with an object makes no object of it."""
    files = {"a.yaml": json.dumps(ONE).encode(), "b.yaml": json.dumps(document).encode()}
    assert manifests.read_manifests(files).skipped == ("b.yaml",)


@pytest.mark.parametrize("missing", ["apiVersion", "kind"])
def test_an_object_with_a_typo_is_not_skipped(missing: str) -> None:
    """It would be pruned."""
    typo = {("Kind" if key == missing else key): value for key, value in ONE.items()}
    files = {"a.yaml": json.dumps(TWO).encode(), "b.yaml": json.dumps(typo).encode()}
    with pytest.raises(RenderRefused) as caught:
        manifests.read_manifests(files)
    assert str(caught.value) == (
        "b.yaml is not a Kubernetes object: apiVersion and kind are required; fix it, or add the "
        "file to exclude of the template"
    )


def test_a_kustomization_is_recognized() -> None:
    """Whatever its file is called."""
    document = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    assert "all.yaml: kustomize is not supported yet" in _refused(document)


def test_generate_name_is_refused() -> None:
    """With what to write instead."""
    document = {**ONE, "metadata": {"generateName": "a-"}}
    assert "metadata.generateName is not supported" in _refused(document)
    assert "set metadata.name instead" in _refused(document)


@pytest.mark.parametrize(
    "metadata",
    [None, [], {}, 5, "a", {"name": None}, {"name": ""}, {"name": 5}],
)
def test_an_object_without_a_name_is_refused(metadata: JSON) -> None:
    """An object that gets another name each time cannot be applied again."""
    message = _refused({**ONE, "metadata": metadata})
    assert "all.yaml: ConfigMap: metadata.name is required; fix the template" in message


@pytest.mark.parametrize("items", [5, {"a": ONE}, "x", [None], [ONE, None]])
def test_a_list_of_something_else_is_refused(items: JSON) -> None:
    """Nothing in it is guessed."""
    assert "items must be a list" in _refused({"apiVersion": "v1", "kind": "List", "items": items})


def test_an_item_that_is_no_object_is_named() -> None:
    """By its number in the list."""
    folded = {"apiVersion": "v1", "kind": "List", "items": [ONE, {"kind": "X"}]}
    assert "all.yaml, item 2 is not a Kubernetes object" in _refused(folded)


@pytest.mark.parametrize(
    "text", [b"a: [", b"\xff\xfe", b"a: !!python/object:os.system x", b"a: 1\na: 2"]
)
def test_invalid_yaml_is_refused(text: bytes) -> None:
    """With the file, the fault, and what to do about it; a chart has no exclude."""
    with pytest.raises(RenderRefused, match=r"^dir/x\.yaml: .*; fix the template of the chart$"):
        manifests.objects({"dir/x.yaml": text})
    with pytest.raises(RenderRefused, match="; fix it, or add the file to exclude of the template"):
        manifests.read_manifests({"dir/x.yaml": text})


@pytest.mark.parametrize("files", [{}, {"a.yaml": b""}, {"a.yaml": b"# nothing\n---\n"}])
def test_an_empty_list_of_objects_is_refused(files: dict[str, bytes]) -> None:
    """It would prune everything; and a wrong path has the same effect."""
    with pytest.raises(RenderRefused, match="no object"):
        manifests.objects(files)


def test_too_much_is_refused() -> None:
    """By number and by size, before anything is built from it."""
    many = [{**ONE, "metadata": {"name": f"n{number}"}} for number in range(501)]
    assert len(_objects(*many[:500])) == 500
    for files in (
        {"a.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": many}).encode()},
        {"a.yaml": b"#" * manifests.MOST_BYTES, "b.yaml": b"#"},
    ):
        with pytest.raises(RenderRefused) as caught:
            manifests.objects(files)
        assert caught.value.reason == "RenderTooLarge"


@pytest.mark.parametrize(
    ("path", "belongs"),
    [
        ("a.yaml", True),
        ("b/c.yml", True),
        ("d.json", True),
        ("e.yaml.bak", False),
        ("README.md", False),
    ],
)
def test_which_files_belong(path: str, belongs: bool) -> None:
    """By their endings."""
    assert manifests.is_manifest(path) is belongs
