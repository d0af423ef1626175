"""Valid and invalid values of the fields of a Project and an Environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tests.unit.api.corpus_gateways import BAD_PATHS, GOOD_PATHS
from tests.unit.api.spec_cases import ABSENT, GOOD, Case, case, listed, values
from tests.unit.api.texts import BAD_LABELS, BAD_NAMES, BAD_URLS, GOOD_LABELS, GOOD_NAMES, GOOD_URLS

PROJECT = "Project"
ENVIRONMENT = "Environment"

GOOD_BRANCHES = ["", "main", "release/1.2", "x" * 255, "\u00fcber"]
BAD_BRANCHES = ["-x", "a..b", "a@{0}", "a b", "a\nb", "HEAD", "a.lock", "x" * 256, 1]
GOOD_AMOUNTS = ["2", "500m", "1.5", "0.1", ".5", "4Gi", "1e3", "1E3", "2k", 1, 4096, "100n"]
BAD_AMOUNTS = ["", "0", "0m", "0.0", "-1", "+1", "1 Gi", "1gi", "two", "1e", "1Gi\n", 0, -1, 1.5]
GOOD_CIDRS = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "255.255.255.255/32",
    "::/0",
    "2001:db8::/32",
    "fe80::1:2/128",
    "1:2:3:4:5:6:7:8/64",
    "::1/128",
    "1::/16",
    "1:2:3:4:5:6:7::/112",
]
BAD_CIDRS = [
    "",
    "10.0.0.0",
    "10.0.0.0/33",
    "256.0.0.0/8",
    "10.0.0/8",
    "010.0.0.0/8",
    "::/129",
    "1:2:3:4:5:6:7:8:9/64",
    "1::2::3/64",
    "g::/8",
    "::",
    "10.0.0.0/8 ",
    "any",
    1,
]


def _project_sources() -> Iterator[Case]:
    yield from values(PROJECT, "sources.0.repositoryUrl", GOOD_URLS, [*BAD_URLS, 1, ABSENT])
    yield from values(PROJECT, "sources.0.name", GOOD_LABELS, [*BAD_LABELS, "", ABSENT])
    yield from values(PROJECT, "sources.0.branch", GOOD_BRANCHES, BAD_BRANCHES)
    yield from values(PROJECT, "sources.0.secretRef.name", GOOD_NAMES, [*BAD_NAMES, ABSENT])
    one = GOOD[PROJECT]["sources"][0]
    many = [one | {"name": f"s{n}"} for n in range(17)]
    yield from values(
        PROJECT, "sources", [[one], many[:16]], [[], many, [one, one], "x", {}, ABSENT]
    )


def _aliases() -> Iterator[Case]:
    both = {"repositoryUrl": "https://h/x"}
    yield case(PROJECT, "source", both, False)
    bare = {"source": both, "deployment": {"type": "manifest", "path": "k8s"}}
    yield Case(PROJECT, "source", bare, True)
    yield Case(PROJECT, "source", bare | {"source": both | {"branch": "x"}}, True)
    yield Case(PROJECT, "sources", {"templates": {}}, False)
    for url in BAD_URLS:
        yield Case(PROJECT, "source", bare | {"source": {"repositoryUrl": url}}, False)
    yield case(PROJECT, "deployment", {"type": "manifest"}, False)
    wrong = [
        {"type": "kustomize"},
        {"path": "x"},
        {"type": "manifest", "path": "../x"},
        {"type": "manifest", "values": {"a": 1}},
    ]
    for deployment in wrong:
        yield Case(PROJECT, "deployment", bare | {"deployment": deployment}, False)
    chart = {"type": "helm", "path": "chart", "values": {"a": {"b": [1, None, "x"]}}}
    yield Case(PROJECT, "deployment", bare | {"deployment": chart}, True)
    primary = {"default": {"type": "manifest", "sourceRef": "primary"}}
    named = {"default": {"type": "manifest", "sourceRef": "app"}}
    yield Case(PROJECT, "templates", {"source": both, "templates": primary}, True)
    yield Case(PROJECT, "templates", {"source": both, "templates": named}, False)
    bare = {"projectRef": {"name": "shop"}, "type": "staging"}
    for source in ({}, {"commitSha": "a" * 40}, {"branch": "x"}):
        yield Case(ENVIRONMENT, "source", bare | {"source": source}, True)
    yield Case(ENVIRONMENT, "sources", bare, False)
    yield case(ENVIRONMENT, "source", {"commitSha": "HEAD"}, False)
    yield Case(ENVIRONMENT, "source", bare | {"source": {"commitSha": "xyz"}}, False)


def _templates() -> Iterator[Case]:
    plain = {"type": "manifest"}
    keys = ["a", "default", "a-1", "x" * 30]
    wrong = ["", "A", "1a", "-a", "a_b", "x" * 31]
    yield from values(
        PROJECT,
        "templates",
        [*({key: plain} for key in keys), {}, {f"t{n}": plain for n in range(16)}, ABSENT],
        [*({key: plain} for key in wrong), {f"t{n}": plain for n in range(17)}, []],
    )
    yield from values(
        PROJECT,
        "templates",
        [{"a": plain | {"path": path}} for path in [*GOOD_PATHS, ""]],
        [{"a": plain | {"path": path}} for path in BAD_PATHS if path != ""],
    )
    yield from values(
        PROJECT,
        "templates",
        [{"a": plain | {"sourceRef": name}} for name in ("", "app")],
        [{"a": plain | {"sourceRef": name}} for name in ("other", "primary", "A", 1)],
    )
    modes = ["kustomize", "managed", "docker-compose", "foo", ""]
    yield from values(PROJECT, "templates", [], [{"a": {"type": mode}} for mode in modes])
    chart: dict[str, Any] = {"type": "helm"}
    paths = [*([path] for path in GOOD_PATHS), [], [f"{n}.yaml" for n in range(8)]]
    crooked = [*([path] for path in BAD_PATHS), [""], [f"{n}.yaml" for n in range(9)], "a.yaml"]
    yield from values(
        PROJECT,
        "templates",
        [
            {"a": chart},
            {"a": chart | {"values": {}}},
            {"a": chart | {"values": {"A b": {"c": [None, 1.5, True, {}]}}}},
            *({"a": chart | {"valuesFiles": files}} for files in paths),
        ],
        [
            *({"a": chart | {"values": wrong}} for wrong in ("a: 1", 1, [], True)),
            *({"a": chart | {"valuesFiles": files}} for files in crooked),
            {"a": plain | {"values": {}}},
            {"a": plain | {"valuesFiles": []}},
        ],
    )
    yield from values(PROJECT, "templates", [], [{"a": {}}])


def _resources() -> Iterator[Case]:
    default = "resources.defaultQuota"
    for field in ("cpu", "memory", "limitsMemory", "storage", "ephemeralStorage", "limitsCpu"):
        yield from values(PROJECT, f"{default}.{field}", GOOD_AMOUNTS, BAD_AMOUNTS)
    for field in ("pods", "services", "jobs", "secrets", "configMaps", "persistentVolumeClaims"):
        yield from values(PROJECT, f"{default}.{field}", [1, 100_000], [0, -1, "20", 100_001])
    yield from values(ENVIRONMENT, "quota.cpu", GOOD_AMOUNTS, BAD_AMOUNTS)
    yield from values(ENVIRONMENT, "quota", [{}, {"pods": 3, "memory": "1Gi"}], ["x", {"pods": 0}])
    yield from values(PROJECT, "resources.maxQuota", [{}, {"cpu": 2}, {"cpu": "4000m"}], [])
    yield from _costly("resources.maxQuota", [{"cpu": "1"}, {"memory": "4000Mi"}, {"pods": 19}])
    limits: list[Any] = [
        {},
        {"defaultRequest": {"cpu": "500m"}},
        {"defaultRequest": {"cpu": 1}, "default": {"cpu": "1000m"}, "max": {"cpu": 1}},
        {"max": {"memory": "1Mi"}},
    ]
    yield from values(PROJECT, "resources.limitRange", limits, [{"max": {"cpu": 0}}, {"max": 1}])
    crossed = [
        {"defaultRequest": {"cpu": "501m"}},
        {"defaultRequest": {"memory": "2Gi"}, "default": {"memory": "1Gi"}},
        {"default": {"cpu": 2}, "max": {"cpu": 1}},
    ]
    yield from _costly("resources.limitRange", crossed)


def _costly(field: str, bad: list[Any]) -> Iterator[Case]:
    for value in bad:
        yield dataclasses.replace(case(PROJECT, field, value, False), costly=True)


def _network() -> Iterator[Case]:
    yield from values(PROJECT, "network.webEgress", ["Public", "None"], ["", "none", "Private"])
    door = {"name": "a", "cidrs": ["10.0.0.0/8"]}
    yield from values(
        PROJECT,
        "network.egress",
        [
            *([door | {"cidrs": [cidr]}] for cidr in GOOD_CIDRS),
            [door | {"ports": [{"port": 5432}, {"port": 53, "protocol": "UDP"}]}],
            [door | {"name": f"e{n}"} for n in range(32)],
            [door | {"untrusted": True}],
            [],
        ],
        [
            *([door | {"cidrs": [cidr]}] for cidr in BAD_CIDRS),
            [door | {"cidrs": []}],
            [door | {"cidrs": ["::/0", "::/0"]}],
            [door | {"ports": [{"port": 0}]}],
            [door | {"ports": [{"port": 65536}]}],
            [door | {"ports": [{"port": 1, "protocol": "SCTP"}]}],
            [door, door],
            [door | {"untrusted": "yes"}],
            [{"name": "a"}],
            [{"cidrs": ["::/0"]}],
            [door | {"name": f"e{n}"} for n in range(33)],
            *([door | {"name": name}] for name in BAD_LABELS),
        ],
    )
    yield from values(
        PROJECT, "security.podSecurity", ["restricted", "baseline"], ["privileged", ""]
    )
    grants = [*listed(GOOD_LABELS), [], [f"n{n}" for n in range(64)]]
    wrong = [*listed(BAD_LABELS), ["*"], ["a", "a"], [f"n{n}" for n in range(65)]]
    yield from values(PROJECT, "environmentNamespaces", grants, wrong)
    yield from values(PROJECT, "suspend", [True, False], ["yes"])


def _environment() -> Iterator[Case]:
    kind = ENVIRONMENT
    yield case(kind, "projectRef", ABSENT, False)
    yield from values(kind, "projectRef.name", GOOD_NAMES, [*BAD_NAMES, ABSENT])
    yield from values(kind, "projectRef.namespace", [*GOOD_LABELS, "", ABSENT], [*BAD_LABELS, "*"])
    types = ["a", "staging", "pr-1", "x" * 30]
    yield from values(kind, "type", types, ["", "A", "1", "a_b", "x" * 31, 1, ABSENT])
    modes = ["foo", "production", "workspace", "kustomize", ""]
    yield from values(kind, "deploymentMode", ["manifest", "helm", ABSENT], modes)
    yield from values(kind, "values", [{}, {"a": {"b": [1, {}]}}], ["a", 1, [], True])
    commits = ["", "HEAD", "abcdef0", "a" * 40, "0" * 64]
    wrong = ["xyz", "abc", "A" * 40, "a" * 41, "a" * 65, "head", "--x", 1]
    yield from values(kind, "sources.0.commitSha", commits, wrong)
    yield from values(kind, "sources.0.branch", GOOD_BRANCHES, BAD_BRANCHES)
    yield from values(kind, "sources.0.name", GOOD_LABELS, [*BAD_LABELS, "", ABSENT])
    many = [{"name": f"s{n}"} for n in range(17)]
    twice = [{"name": "a"}, {"name": "a"}]
    yield from values(kind, "sources", [[], many[:16]], [many, twice, "x", ABSENT])
    yield from values(kind, "trust", ["trusted", "untrusted", ABSENT], ["", "none", True])
    yield from values(kind, "suspend", [True, False], ["yes"])


def cases() -> list[Case]:
    """The cases of both kinds."""
    return [
        *_project_sources(),
        *_aliases(),
        *_templates(),
        *_resources(),
        *_network(),
        *_environment(),
    ]
