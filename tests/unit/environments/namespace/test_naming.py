"""Which namespace an Environment gets."""

from __future__ import annotations

import pytest

from windlass.environments.namespace import naming as namespace_naming
from windlass.environments.namespace.naming import EnvironmentIdentity, NamespaceClaim, NamingRules

_RULES = NamingRules()
VECTORS = [
    (("default", "shop", "pr-12"), ("env-shop-pr-12", "env-shop-pr-12-37b0824a3880")),
    (("default", "shop", "shop-pr-12"), ("env-shop-pr-12", "env-shop-pr-12-58c08c3db050")),
    (("team-a", "shop", "shop-pr-12"), ("env-shop-pr-12-a7e991d7c11e",)),
    (("default", "a-b", "c"), ("env-a-b-c", "env-a-b-c-1b039a066902")),
    (("default", "a", "b-c"), ("env-a-b-c", "env-a-b-c-6356104b8b17")),
    (("default", "web.app", "pr.1"), ("env-web-app-pr-1-efd468f03d21",)),
    (
        ("default", "my-super-long-project-name", "feature-very-long-branch-name-for-login"),
        ("env-my-super-long-project-name-feature-very-long-b-c3c89865b586",),
    ),
]


@pytest.mark.scenario("E11")
@pytest.mark.parametrize(("identity", "expected"), VECTORS)
def test_the_vectors_of_the_specification(
    identity: tuple[str, str, str], expected: tuple[str, ...]
) -> None:
    """Names are exactly those that were published."""
    assert namespace_naming.candidate_names(EnvironmentIdentity(*identity), _RULES) == expected


@pytest.mark.scenario("E17")
def test_a_plain_name_never_has_the_form_of_a_hashed_one() -> None:
    """A name that ends in twelve hex digits gets the hashed form only."""
    [only] = namespace_naming.candidate_names(
        EnvironmentIdentity("default", "shop", "0123456789ab"), _RULES
    )
    assert only.startswith("env-shop-0123456789ab-")


def test_a_namespace_with_our_uid_is_kept() -> None:
    """Once claimed, a name stays, even if a better one becomes free."""
    identity = EnvironmentIdentity("default", "shop", "pr-12")
    _, hashed = namespace_naming.candidate_names(identity, _RULES)
    choice = namespace_naming.choose_namespace(
        identity, "u1", {hashed: NamespaceClaim("u1")}, _RULES
    )
    assert (choice.name, choice.refusal) == (hashed, "")


@pytest.mark.scenario("E13")
def test_a_plain_name_of_another_environment_leads_to_the_hashed_one() -> None:
    """Two Environments that want one plain name end in two namespaces."""
    taken = NamespaceClaim("u1", ("default", "c"))
    choice = namespace_naming.choose_namespace(
        EnvironmentIdentity("default", "a", "b-c"), "u2", {"env-a-b-c": taken}, _RULES
    )
    assert choice.name == "env-a-b-c-6356104b8b17"


@pytest.mark.scenario("E28")
def test_a_foreign_namespace_is_refused_by_name() -> None:
    """An existing namespace that is not ours is neither used nor avoided silently."""
    choice = namespace_naming.choose_namespace(
        EnvironmentIdentity("default", "shop", "pr-12"),
        "u1",
        {"env-shop-pr-12": NamespaceClaim()},
        _RULES,
    )
    assert choice.refusal == "NamespaceNotOwned"
    assert "env-shop-pr-12" in choice.message


def test_the_predecessor_of_the_same_name_is_waited_for() -> None:
    """An older Environment of this very name still has it."""
    older = NamespaceClaim("u0", ("default", "pr-12"))
    choice = namespace_naming.choose_namespace(
        EnvironmentIdentity("default", "shop", "pr-12"), "u1", {"env-shop-pr-12": older}, _RULES
    )
    assert (choice.name, choice.refusal) == ("env-shop-pr-12", "")


@pytest.mark.scenario("E15")
@pytest.mark.parametrize("project", ["kube", "openshift"])
def test_names_of_the_cluster_are_never_used(project: str) -> None:
    """Not even where the administrator took the prefix away."""
    naming = NamingRules(prefix="")
    choice = namespace_naming.choose_namespace(
        EnvironmentIdentity("default", project, "system"), "u1", {}, naming
    )
    assert choice.refusal == "NamespaceReserved"


def test_namespaces_in_use_are_reserved() -> None:
    """A namespace that holds Projects or the operator is never a preview."""
    choice = namespace_naming.choose_namespace(
        EnvironmentIdentity("default", "a", "b"), "u1", {}, _RULES, used={"env-a-b"}
    )
    assert choice.refusal == "NamespaceReserved"
