"""Any valid spec survives decoding and encoding; what we accept, git's own room accepts."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support.kinds import kind_of
from windlass.api.gitdestination import GitDestination
from windlass.api.gitrepoconfig import GitRepoConfig, GitRepoConfigSpec
from windlass.api.resource import Resource
from windlass.api.validation import validate
from windlass.base.errors import Stalled
from windlass.git.format import refs
from windlass.git.format.remote import Remote

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=3).map(".".join)
GRANTS = st.lists(LABELS | st.just("*"), max_size=4, unique=True)
SEGMENTS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,8}[A-Za-z0-9_]", fullmatch=True).filter(
    lambda text: ".." not in text and not text.endswith(".lock")
)
PATHS = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join).filter(lambda text: text != "HEAD")
HOSTS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,9}[a-z0-9])?(\.[a-z]{2,5})?", fullmatch=True)
PORTS = st.just("") | st.integers(1, 65535).map(lambda port: f":{port}")
URLS = (
    st.builds("{}://{}{}/{}".format, st.sampled_from(["https", "http", "git"]), HOSTS, PORTS, PATHS)
    | st.builds("ssh://{}@{}{}/{}".format, SEGMENTS, HOSTS, PORTS, PATHS)
    | st.builds("{}@{}:{}".format, SEGMENTS, HOSTS, PATHS)
    | st.builds("file:///{}".format, PATHS)
)
SOURCES = st.fixed_dictionaries(
    {"name": NAMES},
    optional={"kind": st.sampled_from(["ConfigMap", "Secret"]), "key": SEGMENTS},
)
PEOPLE = st.text(string.ascii_letters + " .@'", min_size=1, max_size=40).filter(
    lambda text: any(char.isalpha() for char in text)
)

REPOS = st.fixed_dictionaries(
    {"repoUrl": URLS, "allowedBranches": st.lists(PATHS, min_size=1, max_size=4, unique=True)},
    optional={
        "allowedNamespaces": GRANTS,
        "secretRef": st.fixed_dictionaries({"name": NAMES}),
        "knownHostsRef": SOURCES,
        "caRef": SOURCES,
        "hostKeyVerification": st.sampled_from(["Strict", "Disabled"]),
        "commit": st.fixed_dictionaries(
            {}, optional={"committer": st.fixed_dictionaries({}, optional={"name": PEOPLE})}
        ),
    },
)
DESTINATIONS = st.fixed_dictionaries(
    {
        "repoRef": st.fixed_dictionaries({"name": NAMES}, optional={"namespace": LABELS}),
        "branch": PATHS,
        "baseFolder": PATHS,
    },
    optional={
        "allowedNamespaces": GRANTS,
        "createBranch": st.booleans(),
        "commitWindow": st.integers(0, 300).map(lambda count: f"{count}s"),
    },
)
ITEM = {
    "operations": st.lists(st.sampled_from(["CREATE", "UPDATE", "DELETE", "*"]), max_size=4),
    "apiGroups": st.lists(NAMES | st.sampled_from(["", "*"]), max_size=3),
    "apiVersions": st.lists(st.sampled_from(["v1", "v1beta1", "*"]), max_size=3),
    "resources": st.lists(LABELS | st.just("*"), min_size=1, max_size=4),
    "includeOwned": st.booleans(),
}
SCOPES = {"scope": st.sampled_from(["Cluster", "Namespaced"])}
RULES = st.fixed_dictionaries(
    {
        "destinationRef": st.fixed_dictionaries({"name": NAMES}, optional={"namespace": LABELS}),
        "rules": st.lists(st.fixed_dictionaries({}, optional=ITEM), min_size=1, max_size=3),
    }
)
CLUSTER_RULES = st.fixed_dictionaries(
    {
        "destinationRef": st.fixed_dictionaries({"name": NAMES, "namespace": LABELS}),
        "rules": st.lists(st.fixed_dictionaries(SCOPES, optional=ITEM), min_size=1, max_size=3),
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
    resource = kind_of(kind).resource
    value = resource.decode(_raw(data.draw(SPECS[kind])))
    assert validate(value.spec) == []  # type: ignore[attr-defined]
    assert resource.decode(value.encode()) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@quick
@given(spec=st.dictionaries(st.sampled_from(["repoRef", "branch", "baseFolder", "x"]), JSON))
def test_any_json_is_decoded_or_refused(spec: Any) -> None:
    """Whatever stands in a spec, decoding ends in a value or in SpecInvalid."""
    assert _reason(GitDestination, spec) in {"", "SpecInvalid"}


@quick
@given(url=st.text(max_size=60), part=st.sampled_from(["https://{}", "ssh://{}@h/x", "{}"]))
def test_any_address_error_hides_the_value(url: str, part: str) -> None:
    """No refusal repeats an address."""
    address = part.format(f"s3cr3t-canary{url}")
    try:
        GitRepoConfig.decode(_raw({"repoUrl": address, "allowedBranches": ["main"]}))
        told = ""
    except Stalled as refusal:
        told = str(refusal)
    assert "s3cr3t-canary" not in told


def _accepted(url: str = "https://h/x", branch: str = "main") -> bool:
    return validate(GitRepoConfigSpec(repo_url=url, allowed_branches=(branch,))) == []


TRICKY = st.text("ab./-@{}:\\~^*[? %HEADlock\u00fc\n\t\x7f\u202e", min_size=1, max_size=12)


@settings(max_examples=400, deadline=None)
@given(branch=TRICKY | PATHS)
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
URL_PIECES = st.sampled_from((*URL_STARTS, *URL_MARKS, "\u00fc"))


@settings(max_examples=400, deadline=None)
@given(url=URLS | st.lists(URL_PIECES, min_size=1, max_size=8).map("".join))
def test_accepted_addresses_can_be_used(url: str) -> None:
    """Whatever address the schema lets in, the git room can take apart."""
    assume(_accepted(url=url))
    Remote.parse(url)


@quick
@given(url=URLS)
def test_usual_addresses_are_accepted(url: str) -> None:
    """Ordinary addresses of all forms pass."""
    assert _accepted(url=url)
