"""Which files a sync renders: only those that changed."""

from __future__ import annotations

import pytest

from tests.support.gateways.sync_model import Commit, GatewayModel, annotated_pod
from windlass.gateways.tree import changes as changing
from windlass.gateways.wire.routing import NormalizeRules, Routing

NAMED = b'{"systemName":"old"}'
SIGNED = b'{"attributes":{"lastModificationSignature":"s","e":1}}'
RESOURCE = {
    "s/config/resources/core/a/config.json": NAMED,
    "s/config/resources/core/a/resource.json": SIGNED,
    "s/config/resources/core/b/config.json": b'{"x":1}',
    "s/config/resources/core/b/resource.json": SIGNED,
}
A, B = "config/resources/core/a", "config/resources/core/b"


def _gateway(*, normalized: bool = False) -> GatewayModel:
    return GatewayModel(
        annotated_pod(service_path="s"), Routing(normalize=NormalizeRules(normalized))
    )


@pytest.mark.scenario("G45")
def test_one_changed_file_is_rendered_once() -> None:
    """No other file is hashed, rendered or written."""
    files = {f"s/projects/p/{number}": b"%d" % number for number in range(1000)}
    gateway = _gateway()
    gateway.sync(Commit(files))
    files["s/projects/p/7"] = b"new"
    result = gateway.sync(Commit(files))
    assert result.changes.render == ("projects/p/7",)
    assert result.changes.causes == {"projects/p/7": "content"}
    assert result.steps == [("put", "projects/p/7")]
    assert len(result.changes.kept) == 999


def test_a_touched_file_with_equal_content_is_kept() -> None:
    """Its stat is updated, so it is hashed once and not at every sync."""
    gateway = _gateway()
    gateway.sync(Commit({"s/projects/a": b"1"}))
    gateway.disk.replace("projects/a", b"1")
    result = gateway.sync(Commit({"s/projects/a": b"1"}))
    assert result.changes.restat == {"projects/a"}
    assert result.steps == []
    assert gateway.manifest is not None
    assert changing.paths_to_hash(result.layout, gateway.manifest, gateway.disk.stats) == ()


@pytest.mark.parametrize("edit", [b"hand", None])
def test_an_edited_or_missing_file_is_restored(edit: bytes | None) -> None:
    """Drift of a managed file is corrected by the next sync."""
    gateway = _gateway()
    gateway.sync(Commit({"s/projects/a": b"1"}))
    if edit is None:
        del gateway.disk.files["projects/a"], gateway.disk.stats["projects/a"]
    else:
        gateway.disk.replace("projects/a", edit)
    result = gateway.sync(Commit({"s/projects/a": b"1"}))
    assert result.changes.causes == {"projects/a": "drift"}
    assert gateway.disk.files["projects/a"] == b"1"


@pytest.mark.scenario("G47")
def test_a_stamp_of_the_gateway_is_not_drift() -> None:
    """DRF-2: noise is not corrected, but a new commit of that file is applied."""
    gateway = _gateway()
    gateway.sync(Commit(RESOURCE))
    path = f"{A}/resource.json"
    gateway.disk.replace(path, b'{"attributes":{"e":1,"lastModificationSignature":"new"}}')
    layout = gateway.plan(Commit(RESOURCE)).layout
    stats = gateway.disk.stats
    assert changing.find_changes(layout, gateway.manifest, stats).causes == {path: "drift"}
    assert changing.find_changes(layout, gateway.manifest, stats, {}, {path}).render == ()
    newer = {**RESOURCE, f"s/{path}": b"{}"}
    layout = gateway.plan(Commit(newer)).layout
    changes = changing.find_changes(layout, gateway.manifest, stats, {}, {path})
    assert changes.causes == {path: "content"}


@pytest.mark.scenario("G36")
def test_another_system_name_renders_config_files_without_a_new_commit() -> None:
    """Only files that the changed routing affects are rendered again."""
    gateway = _gateway(normalized=True)
    commit = Commit({**RESOURCE, "s/projects/p/x": b"1"})
    gateway.sync(commit)
    gateway.pod = annotated_pod(service_path="s", system_name="other")
    result = gateway.sync(commit)
    assert result.changes.causes == {f"{A}/config.json": "recipe", f"{B}/config.json": "recipe"}
    assert result.steps == [("put", f"{A}/config.json")]
    assert gateway.disk.files[f"{A}/config.json"] == b'{"systemName":"other"}'


@pytest.mark.scenario("G32")
def test_a_signature_is_removed_only_if_a_payload_was_altered() -> None:
    """A recipe that changes nothing leaves the resource.json beside it unchanged."""
    gateway = _gateway(normalized=True)
    result = gateway.sync(Commit(RESOURCE))
    assert gateway.disk.files[f"{A}/resource.json"] == b'{"attributes":{"e":1}}'
    assert gateway.disk.files[f"{B}/resource.json"] == SIGNED
    assert result.rendered[f"{A}/resource.json"].transforms == ("signature",)
    again = gateway.plan(Commit(RESOURCE))
    assert again.changes.render == ()


def test_a_payload_that_is_no_longer_altered_restores_the_signature() -> None:
    """The resource.json is rendered again although its own blob and mapping are the same."""
    gateway = _gateway(normalized=True)
    gateway.sync(Commit(RESOURCE))
    plain = {**RESOURCE, "s/config/resources/core/a/config.json": b'{"y":1}'}
    result = gateway.sync(Commit(plain))
    assert gateway.disk.files[f"{A}/resource.json"] == SIGNED
    assert result.changes.causes == {f"{A}/config.json": "content", f"{A}/resource.json": "recipe"}


def test_a_changed_payload_that_stays_altered_costs_one_render() -> None:
    """The resource.json beside it stays correct."""
    gateway = _gateway(normalized=True)
    gateway.sync(Commit(RESOURCE))
    longer = {**RESOURCE, "s/config/resources/core/a/config.json": b'{"z":1,"systemName":"n"}'}
    assert gateway.sync(Commit(longer)).changes.render == (f"{A}/config.json",)


def test_undecided_changes_require_their_rendered_payloads() -> None:
    """A caller that did not render them gets an error."""
    gateway = _gateway(normalized=True)
    layout = gateway.plan(Commit(RESOURCE)).layout
    changes = changing.find_changes(layout, None, {})
    assert changes.undecided == (f"{A}/resource.json", f"{B}/resource.json")
    with pytest.raises(ValueError, match="was not rendered"):
        changing.resolve_undecided(changes, layout, {})
