"""Labels and annotations by which an object belongs to an Environment."""

from __future__ import annotations

import pytest

from windlass.api.install.environment_objects import ENVIRONMENT_UID
from windlass.environments import ownership
from windlass.environments.ownership import Ownership
from windlass.objects.names import Object

OWNER = Ownership("uid-1", "team-a", "shop-pr-1", "shop", "feature/x:y..")


def _obj(annotation: str | None, label: str | None) -> Object:
    metadata: Object = {}
    if annotation is not None:
        metadata["annotations"] = {ENVIRONMENT_UID: annotation}
    if label is not None:
        metadata["labels"] = {ENVIRONMENT_UID: label}
    return {"metadata": metadata}


@pytest.mark.parametrize(
    ("annotation", "label", "owner"),
    [
        ("u", "u", "u"),
        ("u", "v", ""),
        ("u", None, ""),
        (None, "u", ""),
        (None, None, ""),
        ("", "", ""),
    ],
)
def test_annotation_and_label_must_agree(
    annotation: str | None, label: str | None, owner: str
) -> None:
    """A label alone, which a template or a person may copy, owns nothing."""
    assert ownership.owner_uid(_obj(annotation, label)) == owner


def test_labels_lead_back_to_their_environment() -> None:
    """Reading returns what was written."""
    obj = {"metadata": {"labels": OWNER.labels, "annotations": OWNER.annotations}}
    assert ownership.owner_uid(obj) == "uid-1"
    assert ownership.owner_key(obj) == ("team-a", "shop-pr-1")
    assert ownership.owner_key({}) == ("", "")


@pytest.mark.scenario("E16")
@pytest.mark.parametrize("branch", ["feature/x:y..", "b" * 300, "\N{PARTY POPPER}", "-", "a_b.c"])
def test_any_branch_makes_a_label(branch: str) -> None:
    """Cleaned and cut with a hash, so that two branches never have the same label."""
    value = Ownership("u", "n", "e", "p", branch).labels["catalyst.dev/branch"]
    assert 0 < len(value) <= 63
    assert value == ownership.label_value(branch)
    assert ownership.label_value(branch + "x") != value


def test_no_branch_makes_no_label() -> None:
    """An empty value would mean an empty branch."""
    assert "catalyst.dev/branch" not in Ownership("u", "n", "e", "p").labels


def test_the_labels_for_selecting_are_known() -> None:
    """Those on pods, and never branch or team, which may change."""
    assert OWNER.pod_labels.keys() == ownership.POD_LABELS
    assert OWNER.labels.keys() - OWNER.pod_labels.keys() == {"catalyst.dev/branch", ownership.TEAM}


def test_the_team_is_the_namespace_unless_another_is_named() -> None:
    """Cleaned like every label."""
    assert OWNER.labels[ownership.TEAM] == "team-a"
    assert Ownership("u", "n", "e", "p", team="payments").labels[ownership.TEAM] == "payments"
    assert Ownership("u", "n", "e", "p", team="a b").labels[
        ownership.TEAM
    ] == ownership.label_value("a b")
