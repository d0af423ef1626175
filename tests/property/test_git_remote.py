"""Remotes: parsing is idempotent, and identity does not depend on the spelling."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from windlass.git.format.refs import RefRefused, check_branch
from windlass.git.format.remote import Remote, RemoteRefused

LABEL = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
HOST = st.lists(LABEL, min_size=1, max_size=3).map(".".join)
PART = st.text(string.ascii_letters + string.digits + "_~", min_size=1, max_size=8)
PATH = st.lists(PART, min_size=1, max_size=3).map("/".join)


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    """No text crashes the parser, and parsed remotes are parsed to themselves."""
    try:
        remote = Remote.parse(text)
    except RemoteRefused:
        return
    assert Remote.parse(remote.url) == remote
    assert not any(char.isspace() for char in remote.url)


@given(
    st.sampled_from(["https", "http", "ssh", "git"]),
    HOST,
    st.none() | st.integers(1, 65535),
    PATH,
    st.booleans(),
)
def test_url_is_a_fixed_point(
    scheme: str, host: str, port: int | None, path: str, slash: bool
) -> None:
    """Parsing `url` changes neither remote, identity nor endpoint."""
    path_part = host if port is None else f"{host}:{port}"
    remote = Remote.parse(f"{scheme}://{path_part}/{path}{'/' if slash else ''}")
    again = Remote.parse(remote.url)
    assert again == remote
    assert (again.identity, again.endpoint) == (remote.identity, remote.endpoint)


@given(HOST, PATH)
def test_identity_is_stable_across_spellings(host: str, path: str) -> None:
    """Every usual way to write one repository has one identity."""
    spellings = [
        f"https://{host}/{path}",
        f"https://{host.upper()}:443/{path}/",
        f"https://{host}/{path}.git",
        f"http://{host}:80/{path}",
        f"ssh://git@{host}:22//{path}.git/",
        f"ssh://{host}/{path}",
        f"git@{host}:{path}.git",
        f"git@{host}:/{path}",
        f"git://{host}:9418/{path}",
    ]
    assert len({Remote.parse(text).identity for text in spellings}) == 1


@given(st.text(max_size=40))
def test_accepted_branches_are_safe(name: str) -> None:
    """They are no options, have no revision syntax and stay below refs/heads."""
    try:
        check_branch(name)
    except RefRefused:
        return
    assert not name.startswith("-")
    assert not set(name) & set(" ~^:?*[\\")
    assert ".." not in name
    assert name.isprintable()
