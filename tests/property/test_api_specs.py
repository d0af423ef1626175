"""Any valid spec survives decoding and encoding; the git room accepts what the schema accepts."""

from __future__ import annotations

import json
import string
from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support.cluster.api_kinds import get_kind
from tests.support.strategies.batched import choices, maps_of_json, substitute_numbers
from windlass.api.kinds.gitdestination import GitDestination
from windlass.api.kinds.gitrepoconfig import GitRepoConfig, GitRepoConfigSpec
from windlass.api.schema.resource import Resource
from windlass.api.schema.validation import validate
from windlass.base.errors import Stalled
from windlass.git.format import refs
from windlass.git.format.remote import Remote

ALNUM = string.ascii_lowercase + string.digits
WORD = string.ascii_letters + string.digits + "_"


def _label(text: str, most: int = 22) -> str:
    return text[:most].strip("-") or "a"


def _dotted(text: str) -> str:
    return ".".join(map(_label, text.split(".")[:3]))


def _grants(text: str) -> list[str]:
    return list(dict.fromkeys("*" if "*" in one else _label(one) for one in text.split()))[:4]


def _segment(text: str) -> str:
    """Two to ten characters, alphanumeric at both ends, nothing that git refuses."""
    text = text[:10].ljust(2, "_").replace("..", "._")
    first, last = ("_" if char in ".-" else char for char in (text[0], text[-1]))
    text = first + text[1:-1] + last
    return text[:-1] + "_" if text.endswith(".lock") else text


def _path(text: str) -> str:
    path = "/".join(map(_segment, text.split("/")[:4]))
    return "HEAD_" if path == "HEAD" else path


LABELS = choices(ALNUM + "---", min_size=1, max_size=22).map("".join).map(_label)
NAMES = choices(ALNUM + "---......", min_size=1, max_size=68).map("".join).map(_dotted)
GRANTS = choices(ALNUM + "---***" + " " * 9, max_size=91).map("".join).map(_grants)
SEGMENTS = choices(WORD + ".-" * 4, min_size=2, max_size=10).map("".join).map(_segment)
PATHS = choices(WORD + ".-" * 4 + "/" * 12, min_size=4, max_size=43).map("".join).map(_path)
HOSTS = st.builds(
    "{}{}".format,
    choices(ALNUM + "---", min_size=1, max_size=11).map("".join).map(_label),
    st.just("") | st.text(string.ascii_lowercase, min_size=2, max_size=5).map(".{}".format),
)
PORTS = st.just("") | st.integers(1, 65535).map(lambda port: f":{port}")
URLS = (
    st.builds("{}://{}{}/{}".format, st.sampled_from(["https", "http", "git"]), HOSTS, PORTS, PATHS)
    | st.builds("ssh://{}@{}{}/{}".format, SEGMENTS, HOSTS, PORTS, PATHS)
    | st.builds("{}@{}:{}".format, SEGMENTS, HOSTS, PATHS)
    | st.builds("file:///{}".format, PATHS)
)
PEOPLE = st.text(string.ascii_letters + " .@'", min_size=1, max_size=40).map(
    lambda text: text if any(char.isalpha() for char in text) else f"{text[:39]}a"
)


def _with(needed: dict[str, Any], some: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """All required fields, with any of the rest: one draw decides which."""
    subsets = chain(*(combinations(some.items(), count) for count in range(len(some) + 1)))
    return st.one_of([st.fixed_dictionaries({**needed, **dict(subset)}) for subset in subsets])


SOURCES = _with(
    {"name": NAMES}, {"kind": st.sampled_from(["ConfigMap", "Secret"]), "key": SEGMENTS}
)
REPOS = _with(
    {"repoUrl": URLS, "allowedBranches": st.lists(PATHS, min_size=1, max_size=4, unique=True)},
    {
        "allowedNamespaces": GRANTS,
        "secretRef": st.fixed_dictionaries({"name": NAMES}),
        "knownHostsRef": SOURCES,
        "caRef": SOURCES,
        "hostKeyVerification": st.sampled_from(["Strict", "Disabled"]),
        "commit": _with({}, {"committer": _with({}, {"name": PEOPLE})}),
    },
)
DESTINATIONS = _with(
    {
        "repoRef": _with({"name": NAMES}, {"namespace": LABELS}),
        "branch": PATHS,
        "baseFolder": PATHS,
    },
    {
        "allowedNamespaces": GRANTS,
        "createBranch": st.booleans(),
        "commitWindow": st.integers(0, 300).map(lambda count: f"{count}s"),
    },
)
ITEM = {
    "operations": choices(["CREATE", "UPDATE", "DELETE", "*"], max_size=4),
    "apiGroups": st.lists(NAMES | st.sampled_from(["", "*"]), max_size=3),
    "apiVersions": choices(["v1", "v1beta1", "*"], max_size=3),
    "resources": st.lists(LABELS | st.just("*"), min_size=1, max_size=4),
    "includeOwned": st.booleans(),
}
SCOPES = {"scope": st.sampled_from(["Cluster", "Namespaced"])}
RULES = st.fixed_dictionaries(
    {
        "destinationRef": _with({"name": NAMES}, {"namespace": LABELS}),
        "rules": st.lists(_with({}, ITEM), min_size=1, max_size=3),
    }
)
CLUSTER_RULES = st.fixed_dictionaries(
    {
        "destinationRef": st.fixed_dictionaries({"name": NAMES, "namespace": LABELS}),
        "rules": st.lists(_with(SCOPES, ITEM), min_size=1, max_size=3),
    }
)
SPECS = {
    "GitRepoConfig": REPOS,
    "GitDestination": DESTINATIONS,
    "WatchRule": RULES,
    "ClusterWatchRule": CLUSTER_RULES,
}

quick = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def _raw(spec: Any) -> bytes:
    return json.dumps({"metadata": {"name": "x"}, "spec": spec}).encode()


def _reason(resource: type[Resource], spec: Any) -> str:
    try:
        resource.decode(_raw(spec))
    except Stalled as refusal:
        return refusal.reason
    return ""


@pytest.mark.parametrize("kind", SPECS)
@quick
@given(data=st.data())
def test_valid_specs_survive_the_round_trip(kind: str, data: st.DataObject) -> None:
    """A random valid spec decodes, has no problems, and encodes to an equal value."""
    resource = get_kind(kind).resource
    value = resource.decode(_raw(data.draw(SPECS[kind])))
    assert validate(value.spec) == []  # type: ignore[attr-defined]
    assert resource.decode(value.encode()) == value


FIELDS = ("repoRef", "branch", "baseFolder", "x")
ANY = st.builds(
    lambda shape, leaves, names: substitute_numbers(
        shape, (None, False, True, *leaves), (*FIELDS, *names)
    ),
    maps_of_json(range(60), range(30), 16),
    st.tuples(st.integers(), st.text(max_size=20), st.text(max_size=20)),
    st.tuples(st.text(max_size=8), st.text(max_size=8)),
)


@quick
@given(spec=ANY)
def test_any_json_is_decoded_or_refused(spec: Any) -> None:
    """Any spec is decoded to a value or refused with SpecInvalid."""
    assert _reason(GitDestination, spec) in {"", "SpecInvalid"}


@quick
@given(url=st.text(max_size=60), part=st.sampled_from(["https://{}", "ssh://{}@h/x", "{}"]))
def test_any_address_error_hides_the_value(url: str, part: str) -> None:
    """No refusal repeats an address."""
    address = part.format(f"s3cr3t-canary{url}")
    try:
        GitRepoConfig.decode(_raw({"repoUrl": address, "allowedBranches": ["main"]}))
        message = ""
    except Stalled as refusal:
        message = str(refusal)
    assert "s3cr3t-canary" not in message


def _accepted(url: str = "https://h/x", branch: str = "main") -> bool:
    return validate(GitRepoConfigSpec(repo_url=url, allowed_branches=(branch,))) == []


TRICKY = st.text("ab./-@{}:\\~^*[? %HEADlock\u00fc\n\t\x7f\u202e", min_size=1, max_size=12)
BRANCH_PIECES = ("a", "b", "/", "/", ".", ".lock", "lock", "-", "@", "{", "HEAD", "..")
PIECED = choices(BRANCH_PIECES, min_size=1, max_size=8).map("".join)


@settings(max_examples=400, deadline=None)
@given(branch=TRICKY | PIECED | PATHS)
def test_branches_are_judged_as_git_judges(branch: str) -> None:
    """The rules of the schema and those of the git room accept the same branches."""
    try:
        refs.check_branch(branch)
        expected = True
    except refs.RefRefused:
        expected = False
    assert _accepted(branch=branch) == expected


URL_STARTS = ("https://", "ssh://", "file://", "git@", "host", "x.git", "a", "22")
URL_MARKS = (":", "/", "..", ".", "-", "%2e", "%0a", "?", "#", "@", "::", "\\", "[", "]", "~", " ")
URL_PIECES = (*URL_STARTS, *URL_MARKS, "\u00fc")


@settings(max_examples=400, deadline=None)
@given(url=URLS | choices(URL_PIECES, min_size=1, max_size=8).map("".join))
def test_accepted_addresses_can_be_used(url: str) -> None:
    """Any address that the schema accepts is parsed by the git room."""
    assume(_accepted(url=url))
    Remote.parse(url)


@quick
@given(url=URLS)
def test_usual_addresses_are_accepted(url: str) -> None:
    """Ordinary addresses of all forms pass."""
    assert _accepted(url=url)
