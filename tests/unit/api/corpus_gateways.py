"""Valid and invalid values of the fields of an IgnitionSync."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tests.unit.api.spec_cases import ABSENT, Case, case, listed, values
from tests.unit.api.texts import BAD_NAMES, BAD_URLS, GOOD_NAMES, GOOD_URLS

KIND = "IgnitionSync"

GOOD_REFS = ["main", "v1.2", "refs/heads/x", "refs/tags/v1", "a" * 40, "f" * 64, "x" * 255]
BAD_REFS = [
    "",
    "--upload-pack=x",
    "-x",
    "a..b",
    "a\nb",
    "a b",
    "a@{0}",
    "a//b",
    "a/",
    "a.",
    "a.lock",
    "@",
    "a~1",
    "a^",
    "a:b",
    "a?",
    "a*",
    "a[b",
    "a\\b",
    "x" * 256,
    1,
]
GOOD_PATHS = [
    ".",
    "a",
    "a/b c",
    "{{.GatewayName}}/x",
    "a..b",
    "..a",
    "a/b../c",
    "./a",
    "a//b",
    "x" * 512,
    "\u00fc",
]
BAD_PATHS = [
    "",
    "/",
    "/a",
    "~/a",
    "~",
    "..",
    "../a",
    "a/..",
    "a/../b",
    "a\\b",
    "a\nb",
    "a\x00",
    "a\x7f",
    "x" * 513,
    1,
]
GOOD_GLOBS = ["**/.git/", "*.json", "a/[!b]/c", "x" * 256, "a b", "{a}"]
BAD_GLOBS = ["", "!a", "a\nb", "\x01", "a\x7f", "x" * 257, 1]

GOOD_SELECTORS = [
    {},
    {"matchLabels": {"app": "ignition", "example.com/site": ""}},
    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]},
    {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "a", "operator": "DoesNotExist", "values": []}]},
]
BAD_SELECTORS = [
    {"matchLabels": {"-a": "b"}},
    {"matchLabels": {"a": "b c"}},
    {"matchLabels": {"a": 1}},
    {"matchLabels": {f"k{n}": "v" for n in range(33)}},
    {"matchExpressions": [{"key": "a", "operator": "In"}]},
    {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": []}]},
    {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
    {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
    {"matchExpressions": [{"operator": "Exists"}]},
]


def _references(field: str) -> Iterator[Case]:
    yield from values(KIND, f"{field}.name", GOOD_NAMES, [*BAD_NAMES, 1, ABSENT])
    yield from values(
        KIND,
        field,
        [{"name": "x"}, {"name": "x", "key": "a.b_c-D"}, {"name": "x", "key": ""}],
        [{}, {"key": "a"}, {"name": "x", "key": "a/b"}, {"name": "x", "key": "a" * 254}, "x"],
    )


def _lengths(field: str, good: list[str], bad: list[str]) -> Iterator[Case]:
    never = ["", "0", "1", "-1s", "1y", "1.5s", "s", "1 s", "1000000s", "999999h" * 4, 5, {}]
    yield from values(KIND, field, good, [*bad, *never])


def _git() -> Iterator[Case]:
    yield from values(KIND, "git.repo", GOOD_URLS, [*BAD_URLS, 1, ABSENT])
    yield from values(KIND, "git.ref", GOOD_REFS, [*BAD_REFS, ABSENT])
    yield case(KIND, "git", ABSENT, False)
    ssh, token = {"secretRef": {"name": "a"}}, {"secretRef": {"name": "b"}}
    yield from values(
        KIND, "git.auth", [{}, {"sshKey": ssh}, {"token": token}], [{"sshKey": {}}, {"token": {}}]
    )
    yield from values(KIND, "git.auth", [], [{"sshKey": ssh, "token": token}])
    hosts = ssh | {"knownHostsSecretRef": {"name": "h"}, "insecureSkipHostKeyCheck": True}
    yield from values(KIND, "git.auth.sshKey", [hosts], [ssh | {"insecureSkipHostKeyCheck": "y"}])
    yield from _references("git.auth.token.secretRef")
    yield from _references("git.caSecretRef")
    yield from _lengths("git.timeout", ["5s", "30m", "5000ms", "1m30s"], ["4s", "31m", "1h"])
    yield from _lengths("polling.interval", ["5s", "24h", "60s"], ["4999ms", "25h"])
    yield from values(KIND, "polling.enabled", [True, False], ["true", 1])


def _gateway() -> Iterator[Case]:
    yield case(KIND, "gateway", ABSENT, False)
    yield from _references("gateway.apiKeySecretRef")
    yield case(KIND, "gateway.apiKeySecretRef", ABSENT, False)
    yield from values(KIND, "gateway.port", [1, 8088, 65535], [0, -1, 65536, "8088", 1.5])
    yield from values(KIND, "gateway.tls", [True, False], ["no"])
    yield from values(KIND, "siteNumber", ["", "12", "x" * 64], ["x" * 65, 12])
    yield from values(KIND, "podSelector", GOOD_SELECTORS, BAD_SELECTORS)


def _mapped(**more: Any) -> dict[str, Any]:
    return {"a": {"mappings": [{"source": "s", "destination": "d"} | more]}}


def _profiles() -> Iterator[Case]:
    plain = _mapped()["a"]
    names = ["a", "default", "a-b", "1", "x" * 63]
    wrong = ["A", "-a", "a-", "a.b", "a_b", "", "x" * 64]
    yield from values(
        KIND,
        "profiles",
        [*({name: plain} for name in names), {f"p{n}": plain for n in range(64)}],
        [*({name: plain} for name in wrong), {}, {f"p{n}": plain for n in range(65)}],
    )
    for part in ("source", "destination"):
        yield from values(
            KIND,
            "profiles",
            [_mapped(**{part: path}) for path in GOOD_PATHS],
            [_mapped(**{part: path}) for path in BAD_PATHS],
        )
    yield from values(
        KIND,
        "profiles.a.mappings",
        [[plain["mappings"][0]] * 64],
        [[], [plain["mappings"][0]] * 65, [{"source": "s"}], [{"destination": "d"}], ABSENT],
    )
    good = [{"type": "dir"}, {"type": "file"}, {"required": True}, {"template": True}]
    bad = [{"type": "link"}, {"required": 1}, {"template": "yes"}]
    yield from values(
        KIND, "profiles", [_mapped(**more) for more in good], [_mapped(**more) for more in bad]
    )
    yield from _profile_options(plain)
    yield from _patches()


def _profile_options(plain: dict[str, Any]) -> Iterator[Case]:
    good: list[dict[str, Any]] = [
        {"vars": {"A_1": "x", "_b": ""}},
        {"vars": {}},
        {"syncPeriod": 5},
        {"syncPeriod": 3600},
        {"dryRun": True},
        {"paused": True},
        {"excludePatterns": GOOD_GLOBS},
    ]
    bad: list[dict[str, Any]] = [
        {"vars": {"1a": "x"}},
        {"vars": {"a-b": "x"}},
        {"vars": {"a": 1}},
        {"vars": {"a": "x" * 1025}},
        {"vars": {f"v{n}": "" for n in range(65)}},
        {"syncPeriod": 4},
        {"syncPeriod": 3601},
        {"syncPeriod": "30"},
        *({"excludePatterns": [glob]} for glob in BAD_GLOBS),
    ]
    yield from values(
        KIND,
        "profiles",
        [{"a": plain | more} for more in good],
        [{"a": plain | more} for more in bad],
    )


def _patches() -> Iterator[Case]:
    edit = {".a.b[0].c": "1"}
    odd = {'["a.b"].c': "x", '.a["\\""]': "", "[0].b": "1", ".a[-]": "{}"}
    good = [{"set": edit}, {"file": "", "set": edit}, {"file": "*.json", "set": odd}]
    bad = [
        {},
        {"set": {}},
        {"set": {".a": 1}},
        {"set": {f".k{n}": "" for n in range(65)}},
        *({"file": glob, "set": edit} for glob in BAD_GLOBS if glob),
    ]
    yield from values(
        KIND,
        "profiles",
        [_mapped(patches=[patch]) for patch in good] + [_mapped(patches=good[:1] * 32)],
        [_mapped(patches=[patch]) for patch in bad] + [_mapped(patches=good[:1] * 33)],
    )
    for path in ("a", "", ".", "..a", ".a[", ".a[01]", '["a', ".a\n", "." + "x" * 256):
        single_case = case(KIND, "profiles", _mapped(patches=[{"set": {path: "x"}}]), False)
        yield dataclasses.replace(single_case, costly=True)


def _files() -> Iterator[Case]:
    for part in ("source", "dest"):
        plain = {"source": "s", "dest": "d"}
        yield from values(
            KIND,
            "additionalFiles",
            [[plain | {part: path}] for path in GOOD_PATHS],
            [[plain | {part: path}] for path in BAD_PATHS],
        )
    yield from values(
        KIND,
        "additionalFiles",
        [[], [plain] * 128, [plain | {"type": "dir"}]],
        [[plain] * 129, [plain | {"type": "x"}], [{"source": "s"}], [{"dest": "d"}]],
    )
    globs = [*listed(GOOD_GLOBS), [], ["x"] * 128]
    yield from values(KIND, "excludePatterns", globs, [*listed(BAD_GLOBS), ["x"] * 129])
    path, value = "jsonPath", "valueTemplate"
    yield from values(
        KIND,
        "normalize.fields",
        [[], [{path: ".a.b[0].c", value: "{{.GatewayName}}"}], [{path: ".a", value: ""}] * 32],
        [
            [{path: "a", value: "x"}],
            [{path: ".", value: "x"}],
            [{path: "." + "x" * 256, value: "x"}],
            [{path: ".a", value: "x" * 1025}],
            [{path: ".a"}],
            [{path: ".a", value: ""}] * 33,
        ],
    )
    yield from values(KIND, "normalize.systemNameScope", ["AnyDepth", "TopLevel"], ["anyDepth", ""])
    yield from values(KIND, "normalize.systemName", [True], ["x"])


def _policies() -> Iterator[Case]:
    yield from values(KIND, "paused", [True, False], ["true"])
    enums = {
        "ignition.deploymentModeLayout": ["overlay", "native"],
        "ignition.signaturePolicy": ["drop", "keep"],
        "ignition.scan.mode": ["Required", "BestEffort", "Off"],
        "ignition.scan.order": ["projects-config", "config-projects"],
        "safety.deletePolicy": ["Mirror", "Manifest", "Never"],
        "drift.mode": ["Off", "Report", "Remediate"],
        "agent.initialSyncPolicy": ["Wait", "StartAnyway"],
    }
    for field, choices in enums.items():
        yield from values(KIND, field, choices, ["", "x", choices[0].swapcase(), 1])
    yield from _lengths("ignition.scan.requestTimeout", ["1s", "5m"], ["999ms", "6m"])
    yield from _lengths("ignition.scan.completionTimeout", ["1s", "1h"], ["0s", "2h"])
    yield from _lengths("drift.interval", ["5s", "24h"], ["1s", "25h"])
    yield from _lengths("drift.fullHashInterval", ["1m", "8760h"], ["59s", "8761h"])
    yield from values(KIND, "safety.maxDeletes", [1, 100_000], [0, 100_001, "5"])
    yield from values(KIND, "safety.maxDeletePercent", [1, 100], [0, 101])
    yield from values(KIND, "safety.maxFiles", [1, 1_000_000], [0, 1_000_001])
    for field in ("safety.maxFileSize", "safety.maxTotalSize"):
        sizes = ["1", "100Mi", "999999999Ti", "2Gi", "1Ki"]
        yield from values(KIND, field, sizes, ["", "0", "0Mi", "1M", "1.5Gi", "1Pi", "-1", 100])


def cases() -> list[Case]:
    """The cases of IgnitionSync."""
    return [*_git(), *_gateway(), *_profiles(), *_files(), *_policies()]
