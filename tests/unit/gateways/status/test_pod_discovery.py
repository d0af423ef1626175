"""Which pods are gateways."""

from __future__ import annotations

import pytest

from tests.support.gateways.samples import live_pod
from windlass.api.schema.object_references import LabelSelector
from windlass.gateways.status import pod_discovery
from windlass.gateways.status.pod_discovery import Discovery, ObservedPod, PodClaim

SITE = PodClaim("site")


def _discover(*pods: ObservedPod, claims: tuple[PodClaim, ...] = (SITE,)) -> Discovery:
    return pod_discovery.discover_gateways(claims[0], claims, pods)


@pytest.mark.parametrize(
    ("pod", "counts", "reports"),
    [
        (live_pod("a"), True, True),
        (live_pod("a", agent="missing"), True, False),
        (live_pod("a", phase="Pending", agent="running"), True, True),
        (live_pod("a", phase="Pending", agent="stopped"), True, True),
        (live_pod("a", phase="Pending", agent="waiting"), False, True),
        (live_pod("a", phase="Pending", agent="missing"), False, False),
        (live_pod("a", phase="Succeeded"), False, False),
        (live_pod("a", is_terminating=True), False, False),
    ],
)
def test_the_phase_of_a_pod_decides_whether_it_counts(
    pod: ObservedPod, counts: bool, reports: bool
) -> None:
    """Every row of the table; rights are granted in all of them."""
    discovery = _discover(pod)
    assert bool(discovery.gateways) is counts
    assert bool(discovery.reporters) is reports
    assert discovery.service_accounts == ("default",)


@pytest.mark.parametrize("text", ["True", "yes", "false", ""])
def test_only_the_value_true_injects(text: str) -> None:
    """Any other value of the annotation has no effect."""
    assert _discover(live_pod("a", inject=text)) == Discovery()


def test_a_named_sync_owns_the_pod() -> None:
    """A pod that names another IgnitionSync is not ours, whatever its labels."""
    assert not _discover(live_pod("a", cr_name="other")).gateways
    assert _discover(live_pod("a", cr_name="site")).gateways


def test_without_a_name_the_only_match_owns_the_pod() -> None:
    """With two matches it belongs to neither; a selector that does not match does not count."""
    team = PodClaim("other", LabelSelector(match_labels={"team": "b"}))
    assert not _discover(live_pod("a"), claims=(SITE, PodClaim("other"))).gateways
    assert _discover(live_pod("a"), claims=(SITE, team)).gateways
    assert not _discover(live_pod("a", labels={"team": "b"}), claims=(SITE, team)).gateways


def test_a_selector_applies_to_named_pods_too() -> None:
    """A pod outside the selector is not ours, even if it names our IgnitionSync."""
    mine = PodClaim("site", LabelSelector(match_labels={"team": "a"}))
    assert not _discover(live_pod("a", cr_name="site"), claims=(mine,)).gateways


def test_replicas_get_distinct_names() -> None:
    """The first keeps the shared name, so scaling up renames no gateway (GDS-4)."""
    label = "apps.kubernetes.io/pod-index"
    pods = [live_pod(f"gw-{n}", labels={label: str(n)}, gateway_name="front") for n in range(3)]
    assert [gateway.name for gateway in _discover(*pods).gateways] == [
        "front",
        "front-1",
        "front-2",
    ]


def test_an_invalid_gateway_name_is_reported() -> None:
    """The gateway is shown under its pod's name, with the problem."""
    (gateway,) = _discover(live_pod("a", gateway_name="../x")).gateways
    assert gateway.name == "a"
    assert "gateway-name" in gateway.problem


def test_the_order_of_pods_does_not_matter() -> None:
    """Gateways are sorted by name, and each account is listed once."""
    pods = [live_pod("b", account="x"), live_pod("a", account="y"), live_pod("c", account="x")]
    assert _discover(*pods) == _discover(*reversed(pods))
    assert _discover(*pods).service_accounts == ("x", "y")
