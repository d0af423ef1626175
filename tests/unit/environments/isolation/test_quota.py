"""How much one Environment may use."""

from __future__ import annotations

import pytest

from windlass.api.kinds.project_limits import DefaultQuota
from windlass.environments import spec
from windlass.environments.isolation import quota
from windlass.environments.isolation.quota import ContainerBounds, QuotaAboveMaximum
from windlass.objects import quantity

DEFAULT = quota.hard_limits(quota.trusted_amounts({}, {}, {}))
RESOURCES = ("cpu", "memory", "ephemeral-storage")


@pytest.mark.scenario("E33")
def test_the_default_quota() -> None:
    """The quota of a Project that sets none; CPU has no limit."""
    assert DEFAULT == {
        "requests.cpu": "2",
        "requests.memory": "4Gi",
        "limits.memory": "8Gi",
        "requests.storage": "20Gi",
        "requests.ephemeral-storage": "10Gi",
        "limits.ephemeral-storage": "20Gi",
        "pods": "20",
        "persistentvolumeclaims": "10",
        "services": "20",
        "services.loadbalancers": "0",
        "services.nodeports": "0",
        "count/jobs.batch": "28",
        "count/secrets": "66",
        "count/configmaps": "64",
    }


def test_the_declared_defaults_are_these() -> None:
    """The API declares the same numbers that are used."""
    declared = quota.trusted_amounts(spec.named_amounts(DefaultQuota()), {}, {})
    assert quota.hard_limits(declared) == DEFAULT


def test_our_own_objects_come_on_top() -> None:
    """A namespace that is full to the brim still takes the operator's objects."""
    requested = {"secrets": "1", "configMaps": "1", "jobs": "1"}
    hard = quota.hard_limits(quota.trusted_amounts(requested, {}, {}))
    assert hard["count/secrets"] == str(1 + quota.OWN_SECRETS)
    assert hard["count/configmaps"] == str(1 + quota.OWN_CONFIG_MAPS)
    assert hard["count/jobs.batch"] == str(1 + quota.OWN_JOBS)


@pytest.mark.parametrize(
    ("memory", "limit"),
    [("4Gi", "8Gi"), ("1.5Gi", "3221225472"), ("1e9", "2000000000"), ("100", "200"), ("1E", "2E")],
)
def test_the_memory_limit_is_twice_the_requests(memory: str, limit: str) -> None:
    """However the amount is written, and the writing is kept where it can be."""
    assert quota.trusted_amounts({"memory": memory}, {}, {})["limitsMemory"] == limit


def test_set_limits_are_used() -> None:
    """Both limits can be set."""
    hard = quota.hard_limits(
        quota.trusted_amounts({"limitsCpu": "3", "limitsMemory": "5Gi"}, {}, {})
    )
    assert (hard["limits.cpu"], hard["limits.memory"]) == ("3", "5Gi")


@pytest.mark.scenario("E39")
@pytest.mark.parametrize(
    ("project", "requested", "maximum"),
    [
        ({}, {"cpu": "3"}, {}),
        ({}, {"cpu": "2001m"}, {}),
        ({"cpu": "4"}, {"cpu": "9"}, {"cpu": "8"}),
        ({}, {"pods": "21"}, {"cpu": "8"}),
        ({}, {"limitsMemory": "9Gi"}, {}),
        ({}, {"limitsMemory": "33Gi"}, {"memory": "16Gi"}),
        ({"limitsCpu": "4"}, {"limitsCpu": "5"}, {}),
    ],
)
def test_a_quota_above_the_maximum_is_refused(
    project: dict[str, str], requested: dict[str, str], maximum: dict[str, str]
) -> None:
    """What the Project leaves out of its maximum cannot be raised above its default."""
    [name] = requested
    with pytest.raises(QuotaAboveMaximum, match=rf"spec.quota.{name} .*maxQuota.{name}"):
        quota.trusted_amounts(project, requested, maximum)


def test_up_to_the_maximum_an_environment_chooses() -> None:
    """Less always, more up to the bound; the limit follows the requests."""
    amounts = quota.trusted_amounts({}, {"cpu": "8", "memory": "1Gi", "pods": "5"}, {"cpu": "8"})
    assert (amounts["cpu"], amounts["memory"], amounts["limitsMemory"], amounts["pods"]) == (
        "8",
        "1Gi",
        "2Gi",
        "5",
    )


@pytest.mark.scenario("E35")
def test_the_limit_range_covers_what_the_quota_counts() -> None:
    """Else the API server would refuse every pod without these resources."""
    row = quota.container_limit_range(ContainerBounds(), {**DEFAULT, "limits.cpu": "4"})
    counted = {key.partition(".")[2] for key in DEFAULT if key.startswith(("requests.", "limits."))}
    assert counted - {"storage"} <= row["default"].keys() == row["defaultRequest"].keys()
    assert row["max"] == {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "20Gi"}


def test_the_default_row() -> None:
    """The limits of a container without resources."""
    assert quota.container_limit_range(ContainerBounds(), DEFAULT) == {
        "default": {"cpu": "500m", "memory": "400Mi", "ephemeral-storage": "1Gi"},
        "defaultRequest": {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "256Mi"},
        "max": {"memory": "8Gi", "ephemeral-storage": "20Gi"},
    }


@pytest.mark.parametrize(
    ("limits", "requested"),
    [
        (ContainerBounds(), {"cpu": "20m", "memory": "16Mi", "ephemeralStorage": "10Mi"}),
        (ContainerBounds(default={"memory": "2Gi"}), {"memory": "100Mi"}),
        (ContainerBounds(default_request={"memory": "500Mi"}), {"memory": "100Mi"}),
        (ContainerBounds(default_request={"cpu": "400m"}, max={"cpu": "300m"}), {}),
        (ContainerBounds(max={"cpu": "10m", "memory": "10Mi"}), {"limitsCpu": "1"}),
    ],
)
def test_the_row_never_contradicts_itself_or_the_quota(
    limits: ContainerBounds, requested: dict[str, str]
) -> None:
    """Request <= limit <= max, as the API server demands, and one pod fits the quota."""
    hard = quota.hard_limits(quota.trusted_amounts({}, requested, {}))
    row = quota.container_limit_range(limits, hard)
    for name in RESOURCES:
        request = quantity.parse(row["defaultRequest"][name])
        limit = quantity.parse(row["default"][name])
        assert request <= limit
        assert limit <= quantity.parse(row["max"].get(name, "1E"))
        assert request <= quantity.parse(hard[f"requests.{name}"])
        assert limit <= quantity.parse(hard.get(f"limits.{name}", "1E"))


def test_a_quota_is_in_force_once_all_of_its_amounts_are_counted() -> None:
    """By value; before that the API server admits pods uncounted."""
    hard = {"requests.cpu": "2", "pods": "20"}
    assert not quota.is_in_force(hard, {})
    assert not quota.is_in_force(hard, {"status": {"hard": {"pods": "20"}}})
    assert quota.is_in_force(hard, {"status": {"hard": {"pods": "20", "requests.cpu": "2000m"}}})


def test_usage_above_the_quota_is_named() -> None:
    """A lowered quota keeps what runs; only more than it allows is worth a text."""
    status = {
        "hard": {"pods": "2", "requests.cpu": "1"},
        "used": {"pods": "3", "requests.cpu": "1"},
    }
    assert quota.usage_message({"status": status}) == (
        "In force; usage exceeds the quota (pods); existing pods keep running"
    )
    assert quota.usage_message({}) == ""
