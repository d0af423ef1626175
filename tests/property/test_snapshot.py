"""Files are ours by their content alone, and only files without a live object are candidates."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies.batched import (
    choices,
    maps_of_json,
    rows,
    substitute_numbers,
    values_of_json,
)
from windlass.objects.names import GVR, JSON, Identity, Object
from windlass.reverser.content import file_paths
from windlass.reverser.publish import path_ownership

BASE = "clusters/prod"
ALNUM = string.ascii_lowercase + string.digits
labels = choices(ALNUM + "---", min_size=1, max_size=8).map(
    lambda chars: "".join(chars).strip("-") or "a"
)
object_names = labels | st.sampled_from(["system:node", "con", "A b", "n" * 253])
groups = st.sampled_from(["", "apps", "velero.io", "v1"])
identities = st.builds(
    Identity,
    st.builds(GVR, groups, st.sampled_from(["v1", "v2"]), labels),
    st.just("") | labels,
    object_names,
)
generated = st.tuples(st.integers(), st.text(max_size=5), st.text(max_size=5))
KNOWN = ("apiVersion", "kind", "metadata", "name", "namespace")
json_values: st.SearchStrategy[JSON] = st.builds(
    lambda shape, leaves, names: substitute_numbers(
        shape, (None, False, True, *leaves), (*KNOWN, *names)
    ),
    values_of_json(range(60), range(42), 16),
    generated,
    st.tuples(st.text(max_size=8), st.text(max_size=8)),
)
contents: st.SearchStrategy[Object] = st.builds(
    lambda shape, leaves, names: substitute_numbers(shape, (None, False, True, *leaves), names),
    maps_of_json(range(60), range(42), 16),
    generated,
    st.tuples(st.text(max_size=8), st.text(max_size=8)),
)
path_sets = rows((1, 2, 3, 4), *["abc"] * 4, max_size=12).map(
    lambda drawn: frozenset("/".join(names[:depth]) for depth, *names in drawn)
)


def stored(identity: Identity, kind: str = "Thing") -> Object:
    """The object as its file holds it."""
    metadata = {"name": identity.name}
    if identity.namespace:
        metadata["namespace"] = identity.namespace
    return {"apiVersion": identity.gvr.api_version, "kind": kind, "metadata": metadata}


@given(identities, identities)
def test_files_are_located_without_knowing_their_type(identity: Identity, other: Identity) -> None:
    """SNP-3: content and path together give the object back; the path of another confirms none."""
    path = file_paths.file_path(BASE, identity)
    assert path_ownership.locate_object(stored(identity), path, BASE) == (identity, "Thing")
    if file_paths.file_path(BASE, other) != path:
        located = path_ownership.locate_object(stored(other), path, BASE)
        assert located is None or file_paths.file_path(BASE, located[0]) == path


@given(contents, st.text(max_size=20))
def test_any_content_can_be_located(content: Object, path: str) -> None:
    """6.3: content and paths of a repository are untrusted."""
    located = path_ownership.locate_object(content, f"{BASE}/{path}", BASE)
    assert located is None or file_paths.file_path(BASE, located[0]) == f"{BASE}/{path}"


@given(identities, identities)
def test_files_are_recognized_by_their_content(identity: Identity, other: Identity) -> None:
    """SNP-3: a file we would write is ours when read back; one of another object is not."""
    assert path_ownership.stored_identity(stored(identity), identity.gvr, "Thing") == identity
    assert path_ownership.stored_identity(stored(identity, "Other"), identity.gvr, "Thing") is None
    located = path_ownership.stored_identity(stored(identity), other.gvr, "Thing")
    same = (identity.gvr.api_version, identity.key) == (other.gvr.api_version, other.key)
    belongs = located is not None and file_paths.file_path(BASE, located) == file_paths.file_path(
        BASE, other
    )
    assert belongs == same


@given(identities, contents, json_values)
def test_any_content_is_judged_without_error(
    identity: Identity, content: Object, metadata: JSON
) -> None:
    """6.3: repository content is untrusted; any parsable content gets a verdict."""
    strange = {**content, "apiVersion": "v1", "kind": "Thing", "metadata": metadata}
    assert not path_ownership.holds_identity(content, identity, "Thing")
    path_ownership.stored_identity(strange, identity.gvr, "Thing")


@given(path_sets, path_sets)
def test_candidates_are_files_without_a_live_object(
    scope: frozenset[str], live: frozenset[str]
) -> None:
    """SNP-2, ING-12: a live path is never a candidate, any other always is."""
    located = path_ownership.orphan_candidates(scope, live)
    assert set(located) == scope - live


@given(path_sets, st.sampled_from([0o100644, 0o120000, 0o160000]), st.booleans(), st.booleans())
def test_writing_a_free_path_hides_no_entry(
    tree: frozenset[str], mode: int, claimed: bool, same: bool
) -> None:
    """SNP-10: a path that is not occupied can be written without removing another entry."""
    leaves = {path for path in tree if not any(one.startswith(f"{path}/") for one in tree)}
    modes = dict.fromkeys(leaves, mode)
    directories = path_ownership.all_directories(leaves)
    for path in ("a", "a/b", "b/c/a", "d/a"):
        located = path_ownership.path_entry(path, modes, directories)
        if not path_ownership.is_occupied(located, claimed=claimed, same_identity=same):
            hidden = {
                leaf
                for leaf in leaves
                if leaf.startswith(f"{path}/") or path.startswith(f"{leaf}/")
            }
            assert not hidden
