"""Valid and invalid values of every field of the reverser's kinds, each in a valid object.

The same list is judged by the code (unit) and by a real API server (integration): both
must agree with what is written here.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.unit.api import corpus_environments, corpus_gateways
from tests.unit.api.spec_cases import ABSENT, CANARY, GOOD, Case, case, listed, values
from tests.unit.api.texts import (
    BAD_BRANCHES,
    BAD_FOLDERS,
    BAD_GROUPS,
    BAD_LABELS,
    BAD_NAMES,
    BAD_PEOPLE,
    BAD_PLURALS,
    BAD_URLS,
    BAD_VERSIONS,
    BAD_WINDOWS,
    GOOD_BRANCHES,
    GOOD_FOLDERS,
    GOOD_GROUPS,
    GOOD_LABELS,
    GOOD_NAMES,
    GOOD_PEOPLE,
    GOOD_PLURALS,
    GOOD_URLS,
    GOOD_VERSIONS,
    GOOD_WINDOWS,
)

__all__ = ["ABSENT", "CANARY", "GOOD", "Case", "case", "cases"]


def _repo() -> Iterator[Case]:
    kind = "GitRepoConfig"
    yield from values(kind, "repoUrl", GOOD_URLS, [*BAD_URLS, 1, True, [], {}, ABSENT])
    branches = [*listed(GOOD_BRANCHES), ["a", "b"], [f"b{n}" for n in range(64)]]
    too_many = [f"b{n}" for n in range(65)]
    wrong = [*listed(BAD_BRANCHES), [], ["a", "a"], too_many, "main", [1], ABSENT]
    yield from values(kind, "allowedBranches", branches, wrong)
    grants = [*listed(GOOD_LABELS), ["*"], [], ["a", "b"], [f"n{n}" for n in range(256)], ABSENT]
    wrong = [*listed(BAD_LABELS), [""], ["a", "a"], [f"n{n}" for n in range(257)], "a"]
    yield from values(kind, "allowedNamespaces", grants, wrong)
    yield from values(kind, "secretRef.name", GOOD_NAMES, [*BAD_NAMES, 1, ABSENT])
    yield from values(kind, "hostKeyVerification", ["Strict", "Disabled"], ["", "strict", "Off"])
    yield from _sources(kind, "knownHostsRef")
    yield from _sources(kind, "caRef")
    yield from values(kind, "commit.committer.name", GOOD_PEOPLE, BAD_PEOPLE)
    yield from values(kind, "commit.committer.email", ["bot@example.com"], BAD_PEOPLE)


def _sources(kind: str, field: str) -> Iterator[Case]:
    good = [
        {"name": "x"},
        {"name": "x", "kind": "Secret"},
        {"name": "x", "kind": "ConfigMap", "key": "a.b_c-D"},
    ]
    bad = [
        {},
        {"kind": "Secret"},
        {"name": "X"},
        {"name": "x", "kind": "Pod"},
        {"name": "x", "key": ""},
        {"name": "x", "key": "a/b"},
        {"name": "x", "key": "a" * 254},
    ]
    yield from values(kind, field, good, bad)


def _destination() -> Iterator[Case]:
    kind = "GitDestination"
    yield from values(kind, "branch", GOOD_BRANCHES, [*BAD_BRANCHES, 1, ABSENT])
    yield from values(kind, "baseFolder", GOOD_FOLDERS, [*BAD_FOLDERS, 1, ABSENT])
    yield from values(kind, "commitWindow", [*GOOD_WINDOWS, ABSENT], BAD_WINDOWS)
    yield from values(kind, "createBranch", [True, False], ["true", 1, 10**30])
    yield from values(kind, "repoRef.name", GOOD_NAMES, [*BAD_NAMES, ABSENT])
    yield from values(kind, "repoRef.namespace", [*GOOD_LABELS, "", ABSENT], [*BAD_LABELS, "*"])
    yield case(kind, "repoRef", ABSENT, False)
    yield from values(kind, "allowedNamespaces", [["*"], []], listed(BAD_LABELS))


def _rule(kind: str) -> Iterator[Case]:
    at = "rules.0."
    plurals = [*listed(GOOD_PLURALS), [f"r{n}" for n in range(64)], ABSENT]
    wrong = [*listed(BAD_PLURALS), [], [f"r{n}" for n in range(65)]]
    yield from values(kind, at + "resources", plurals, wrong)
    groups = [*listed(GOOD_GROUPS), [], ABSENT]
    yield from values(kind, at + "apiGroups", groups, listed(BAD_GROUPS))
    versions = [*listed(GOOD_VERSIONS), [], ABSENT]
    yield from values(kind, at + "apiVersions", versions, listed(BAD_VERSIONS))
    operations = [["CREATE"], ["CREATE", "UPDATE", "DELETE"], ["*"], [], ABSENT]
    wrong = [["create"], ["CONNECT"], [""], "CREATE", ["*"] * 5]
    yield from values(kind, at + "operations", operations, wrong)
    yield from values(kind, at + "includeOwned", [True, False], ["yes", 1])
    item = GOOD[kind]["rules"][0]
    yield from values(kind, "rules", [[item] * 2, [item] * 64], [[], [item] * 65, {}, ABSENT])
    yield from values(kind, "destinationRef.name", GOOD_NAMES, [*BAD_NAMES, ABSENT])
    yield case(kind, "destinationRef", ABSENT, False)


def cases() -> list[Case]:
    """The cases of all kinds."""
    reverser_cases = [*_repo(), *_destination(), *_rule("WatchRule"), *_rule("ClusterWatchRule")]
    cluster, own = "ClusterWatchRule", "WatchRule"
    namespace = "destinationRef.namespace"
    reverser_cases += values(cluster, namespace, GOOD_LABELS, [*BAD_LABELS, "", "*", ABSENT])
    reverser_cases += values(own, namespace, [*GOOD_LABELS, "", ABSENT], [*BAD_LABELS, "*"])
    reverser_cases += values(
        cluster, "rules.0.scope", ["Cluster", "Namespaced"], ["", "cluster", "*", ABSENT]
    )
    return [*reverser_cases, *corpus_gateways.cases(), *corpus_environments.cases()]
