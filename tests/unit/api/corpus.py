"""Good and bad values of every field, each in an otherwise good object.

The same list is judged by the code (unit) and by a real API server (integration): both
must agree with what is written here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

CANARY = "s3cr3t-canary"

GOOD: dict[str, dict[str, Any]] = {
    "GitRepoConfig": {"repoUrl": "https://git.example.com/infra.git", "allowedBranches": ["main"]},
    "GitDestination": {"repoRef": {"name": "infra"}, "branch": "main", "baseFolder": "clusters/x"},
    "WatchRule": {"destinationRef": {"name": "prod"}, "rules": [{}]},
    "ClusterWatchRule": {
        "destinationRef": {"name": "prod", "namespace": "windlass-system"},
        "rules": [{"scope": "Namespaced"}],
    },
}


@dataclass(frozen=True)
class Case:
    """A spec, whether it is good, and the field that decides."""

    kind: str
    field: str
    spec: dict[str, Any]
    good: bool

    def __str__(self) -> str:
        verdict = "good" if self.good else "bad"
        return f"{verdict} {self.kind} {self.field}: {str(self.spec)[:300]!r}"


ABSENT = object()


def case(kind: str, field: str, value: Any, good: bool) -> Case:
    """The good object of `kind` with `value` at the dotted `field`; numbers index lists."""
    spec = copy.deepcopy(GOOD[kind])
    place: Any = spec
    *steps, last = field.split(".")
    for step in steps:
        place = place[int(step)] if step.isdigit() else place.setdefault(step, {})
    if value is ABSENT:
        place.pop(last, None)
    elif last.isdigit():
        place[int(last)] = value
    else:
        place[last] = value
    return Case(kind, field, spec, good)


GOOD_URLS = [
    "https://git.example.com/infra.git",
    "https://git.example.com:8443/a/b/c",
    "http://127.0.0.1:3000/x.git",
    "git://host/x",
    "ssh://git@git.example.com/infra.git",
    "ssh://git@git.example.com:2222/infra.git",
    "ssh://git.example.com/~user/x",
    "ssh://git_user.name+x@h/x",
    "git@git.example.com:infra.git",
    "git@git.example.com:22/infra.git",
    "git@host:/absolute/path",
    "file:///srv/git/x.git",
    "https://[2001:db8:1:2:3:4:5:6]/x",
    "https://git.example.com/a@b/c",
    "https://git.example.com/a:b/c",
    "https://git.example.com/a%20b",
    "https://git.example.com/caf\u00e9",
    "https://git.example.com./x",
    "https://h/x-/-y",
    "https://h:65535/x",
    "https://h/" + "x" * 2000,
    "https://h/" + "x" * 2038,
]
BAD_URLS = [
    "",
    " ",
    "x",
    "/srv/git/x",
    "../x",
    "host/path",
    "ext::sh -c id",
    "ext::sh",
    "https://host/a::b",
    "fd::17",
    "--upload-pack=touch /tmp/x",
    "--upload-pack=x",
    "-oProxyCommand=x",
    "ssh://-oProxyCommand=x/y",
    "ssh://-oProxyCommand=x@host/y",
    "ssh://git@-oProxyCommand=x/y",
    "git@-host:path",
    "-git@host:path",
    "git@host:-path",
    "https://-host/x",
    "https://h/-x",
    "https://host-/x",
    "ssh://%2doProxyCommand/x",
    "ftp://host/x",
    "HTTPS://host/x",
    "javascript:alert(1)",
    "https://",
    "https:///x",
    "https://host",
    "https://host/",
    "https://host//",
    "https://host:0/x",
    "https://host:65536/x",
    "https://host:99999/x",
    "https://host:x/y",
    "https://ho st/x",
    "https://host/x\n",
    "https://host/x\r\ny",
    "https://host/\tx",
    "https://host/\x00x",
    "https://host/\x7fx",
    "https://host/\u2028x",
    "https://host/\u202ex",
    "https://host/\u00a0x",
    "https://host/\u200bx",
    f"https://{CANARY}@host/x",
    f"https://user:{CANARY}@host/x",
    f"https://:{CANARY}@host/x",
    f"https://@{CANARY}@host/x",
    f"http://{CANARY}@host/x",
    f"git://{CANARY}@host/x",
    f"file://{CANARY}@/x",
    f"ssh://git:{CANARY}@host/x",
    f"ssh://git%3A{CANARY}@host/x",
    f"ssh://{CANARY}@x@host/x",
    f"https://host\\@{CANARY}/x",
    f"https://{CANARY}@host/x ",
    f"https://{CANARY}@host/" + "x" * 3000,
    f"https://host/x?private_token={CANARY}",
    f"https://host/x#{CANARY}",
    f"git:{CANARY}@host:path",
    f"{CANARY}",
    "ssh://@host/x",
    "git@host:",
    "git@host:/",
    "git@host:a\\b",
    "@host:path",
    "https://host/a/../b",
    "https://host/..",
    "https://host/a/./b",
    "https://host/%2e%2e/b",
    "https://host/a%0ab",
    "https://host/a%7fb",
    "file://host/x",
    "file:///",
    "https://h/" + "x" * 2039,
]

GOOD_BRANCHES = [
    "main",
    "a",
    "release/1.2",
    "feature/a_b-c",
    "a.b",
    "a./b",
    "user@host",
    "#1",
    "\u00fcber",
    "a%b",
    "refs/heads/x",
    "x" * 244,
    "lock",
    "a.locks",
    "head",
]

BAD_BRANCHES = [
    "",
    "--x",
    "-",
    "/x",
    "x/",
    "a..b",
    "a//b",
    "@{u}",
    "a@{0}",
    "@",
    "HEAD",
    "a b",
    "a\nb",
    "main\n",
    "a\tb",
    "a\x7fb",
    "a~1",
    "a^",
    "a:b",
    "a?",
    "a*",
    "a[b",
    "a\\b",
    ".a",
    "a/.b",
    "a.",
    "a.lock",
    "a.lock/b",
    "a\u202eb",
    "x" * 245,
    "\u00fc" * 123,
    "x" * 100000,
]

GOOD_FOLDERS = [
    "clusters/prod",
    "a",
    "a.b",
    "a_b-c/d",
    "A/B",
    "-a",
    "a/b/c/d/e/f/g",
    "a..b",
    "x" * 512,
]

BAD_FOLDERS = [
    "",
    "/",
    "/x",
    "x/",
    "a//b",
    ".",
    "..",
    "a/..",
    "../a",
    "a/../b",
    "a/./b",
    ".github",
    ".git",
    "a/.git/b",
    "a./b",
    "a/b.",
    "a b",
    "a\\b",
    "a\n",
    "a/b\n",
    "caf\u00e9",
    "a:b",
    "~a",
    "x" * 513,
    "x" * 1000000,
]

GOOD_WINDOWS = ["0s", "1ms", "500ms", "30s", "2m", "5m", "4m60s", "300s", "300000ms", "0h5m", "00s"]

BAD_WINDOWS = [
    "",
    "0",
    "1",
    "-1s",
    "+1s",
    "1y",
    "1d",
    "1e9h",
    "1.5s",
    "6m",
    "5m1ms",
    "301s",
    "1h",
    "1000000000h",
    "999999999999999999999h",
    "9223372036854775807ms",
    "s",
    " 1s",
    "1s ",
    "1s\n",
    "1 s",
    "5m" * 17,
    "0s" * 17,
    "1us",
    "1\u00b5s",
    "\u0661s",
    5,
    True,
    {},
    ["1s"],
]

GOOD_LABELS = ["a", "team-a", "x1", "1x", "a" * 63]
BAD_LABELS = ["A", "-a", "a-", "a.b", "a_b", "a/b", "a\n", "**", "a" * 64, "\u00fc"]

GOOD_NAMES = ["a", "infra-git", "a.b", "1.2.3", "a" * 253]
BAD_NAMES = ["", "A", "a..b", ".a", "a.", "-a", "a-", "a/b", "a\n", "a" * 254, "*"]

GOOD_PEOPLE = ["windlass", "Jos\u00e9 P.", "bot@example.com", "x" * 128, "a'b\"c"]
BAD_PEOPLE = ["", " ", "...", "a\nb", "a<b", "a>b", "a\x00b", "a\x85b", "x" * 129, ",;:", "\"\\'"]

GOOD_PLURALS = ["*", "deployments", "Deployments", "a", "a-b", "x" * 63]
BAD_PLURALS = ["", "a/b", "deployments/status", "*/*", "pods/*", "a b", "-a", "a.", "a\n", "x" * 64]

GOOD_GROUPS = ["", "*", "apps", "networking.k8s.io"]
BAD_GROUPS = ["Apps", "a/b", "a..b", "apps/v1", "*.x", "a\n", "x" * 254]

GOOD_VERSIONS = ["*", "v1", "v1beta1", "v2alpha3"]
BAD_VERSIONS = ["", "1", "V1", "apps/v1", "v1\n", "v1-", "x" * 64]


def _values(kind: str, field: str, good: list[Any], bad: list[Any]) -> Iterator[Case]:
    yield from (case(kind, field, value, True) for value in good)
    yield from (case(kind, field, value, False) for value in bad)


def _listed(values: list[Any]) -> list[Any]:
    return [[value] for value in values]


def _repo() -> Iterator[Case]:
    kind = "GitRepoConfig"
    yield from _values(kind, "repoUrl", GOOD_URLS, [*BAD_URLS, 1, True, [], {}, ABSENT])
    branches = [*_listed(GOOD_BRANCHES), ["a", "b"], [f"b{n}" for n in range(64)]]
    crowd = [f"b{n}" for n in range(65)]
    wrong = [*_listed(BAD_BRANCHES), [], ["a", "a"], crowd, "main", [1], ABSENT]
    yield from _values(kind, "allowedBranches", branches, wrong)
    grants = [*_listed(GOOD_LABELS), ["*"], [], ["a", "b"], [f"n{n}" for n in range(256)], ABSENT]
    wrong = [*_listed(BAD_LABELS), [""], ["a", "a"], [f"n{n}" for n in range(257)], "a"]
    yield from _values(kind, "allowedNamespaces", grants, wrong)
    yield from _values(kind, "secretRef.name", GOOD_NAMES, [*BAD_NAMES, 1, ABSENT])
    yield from _values(kind, "hostKeyVerification", ["Strict", "Disabled"], ["", "strict", "Off"])
    yield from _sources(kind, "knownHostsRef")
    yield from _sources(kind, "caRef")
    yield from _values(kind, "commit.committer.name", GOOD_PEOPLE, BAD_PEOPLE)
    yield from _values(kind, "commit.committer.email", ["bot@example.com"], BAD_PEOPLE)


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
    yield from _values(kind, field, good, bad)


def _destination() -> Iterator[Case]:
    kind = "GitDestination"
    yield from _values(kind, "branch", GOOD_BRANCHES, [*BAD_BRANCHES, 1, ABSENT])
    yield from _values(kind, "baseFolder", GOOD_FOLDERS, [*BAD_FOLDERS, 1, ABSENT])
    yield from _values(kind, "commitWindow", [*GOOD_WINDOWS, ABSENT], BAD_WINDOWS)
    yield from _values(kind, "createBranch", [True, False], ["true", 1, 10**30])
    yield from _values(kind, "repoRef.name", GOOD_NAMES, [*BAD_NAMES, ABSENT])
    yield from _values(kind, "repoRef.namespace", [*GOOD_LABELS, "", ABSENT], [*BAD_LABELS, "*"])
    yield case(kind, "repoRef", ABSENT, False)
    yield from _values(kind, "allowedNamespaces", [["*"], []], _listed(BAD_LABELS))


def _rule(kind: str) -> Iterator[Case]:
    at = "rules.0."
    plurals = [*_listed(GOOD_PLURALS), [f"r{n}" for n in range(64)], ABSENT]
    wrong = [*_listed(BAD_PLURALS), [], [f"r{n}" for n in range(65)]]
    yield from _values(kind, at + "resources", plurals, wrong)
    groups = [*_listed(GOOD_GROUPS), [], ABSENT]
    yield from _values(kind, at + "apiGroups", groups, _listed(BAD_GROUPS))
    versions = [*_listed(GOOD_VERSIONS), [], ABSENT]
    yield from _values(kind, at + "apiVersions", versions, _listed(BAD_VERSIONS))
    operations = [["CREATE"], ["CREATE", "UPDATE", "DELETE"], ["*"], [], ABSENT]
    wrong = [["create"], ["CONNECT"], [""], "CREATE", ["*"] * 5]
    yield from _values(kind, at + "operations", operations, wrong)
    yield from _values(kind, at + "includeOwned", [True, False], ["yes", 1])
    item = GOOD[kind]["rules"][0]
    yield from _values(kind, "rules", [[item] * 2, [item] * 64], [[], [item] * 65, {}, ABSENT])
    yield from _values(kind, "destinationRef.name", GOOD_NAMES, [*BAD_NAMES, ABSENT])
    yield case(kind, "destinationRef", ABSENT, False)


def cases() -> list[Case]:
    """All of them."""
    found = [*_repo(), *_destination(), *_rule("WatchRule"), *_rule("ClusterWatchRule")]
    cluster, own = "ClusterWatchRule", "WatchRule"
    namespace = "destinationRef.namespace"
    found += _values(cluster, namespace, GOOD_LABELS, [*BAD_LABELS, "", "*", ABSENT])
    found += _values(own, namespace, [*GOOD_LABELS, "", ABSENT], [*BAD_LABELS, "*"])
    found += _values(
        cluster, "rules.0.scope", ["Cluster", "Namespaced"], ["", "cluster", "*", ABSENT]
    )
    return found
