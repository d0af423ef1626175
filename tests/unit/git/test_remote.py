"""Remotes are parsed once, and dangerous ones are refused without repeating them."""

from __future__ import annotations

import pytest

from windlass.git.format.remote import Remote, RemoteRefused

REFUSED = [
    "",
    "x" * 2049,
    "ext::sh -c id",
    "ext::id",
    "https://host/a b",
    "https://host/a\nb",
    "https://host/\u00a0b",
    "https://host/a\x7f",
    "https://user@host/a",
    "https://user:hunter2@host/a",
    "http://hunter2@host/a",
    "git://hunter2@host/a",
    "file://hunter2@/a",
    "file://host/a",
    "ssh://git:hunter2@host/a",
    "ssh://-oProxyCommand=hunter2/a",
    "ssh://git@-oProxyCommand=x/a",
    "git@-host:a",
    "-git@host:a",
    "git@host:-upload",
    "git@host:",
    "ssh://git@host/-a",
    "https://host/-a",
    "https://host",
    "https://host/",
    "https:///a",
    "https://host:0/a",
    "https://host:65536/a",
    "https://host:abc/a",
    "https://host:\u0661/a",
    "https://ho%0ast/a",
    "https://höst/a",
    "https://host/a/../b",
    "https://host/a/%2e%2E/b",
    "https://host/a%0ab",
    "https://host/a?private_token=hunter2",
    "https://host/a#b",
    "ftp://host/a",
    "--upload-pack=hunter2",
    "host:path",
    "/srv/git/a",
    "C:\\repo",
]


@pytest.mark.parametrize("text", REFUSED)
def test_dangerous_remotes_are_refused_and_never_repeated(text: str) -> None:
    """The error names the rule; the value may contain a password."""
    with pytest.raises(RemoteRefused) as caught:
        Remote.parse(text)
    assert "hunter2" not in str(caught.value)
    assert str(caught.value)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://GitHub.com/Org/Repo.git", "https://github.com/Org/Repo.git"),
        ("HTTPS://host:443/a/", "https://host/a"),
        ("http://host:8080/a", "http://host:8080/a"),
        ("ssh://git@host:22/a.git", "ssh://git@host/a.git"),
        ("ssh://host:2222/a", "ssh://host:2222/a"),
        ("git@host:a/b.git", "git@host:a/b.git"),
        ("git@host:/srv/b.git", "ssh://git@host/srv/b.git"),
        ("git://host/a", "git://host/a"),
        ("file:///srv/a.git", "file:///srv/a.git"),
        ("file://localhost/srv/a.git", "file:///srv/a.git"),
        ("https://[2001:db8:0:0:0:0:0:1]:8443/a", "https://[2001:db8:0:0:0:0:0:1]:8443/a"),
        ("https://host./a", "https://host/a"),
    ],
)
def test_url_is_normal_and_parses_to_the_same_remote(text: str, url: str) -> None:
    """Git gets one spelling, and parsing it again changes nothing."""
    remote = Remote.parse(text)
    assert remote.url == url
    assert Remote.parse(remote.url) == remote


@pytest.mark.parametrize(
    "spellings",
    [
        [
            "https://github.com/Org/Repo.git",
            "https://github.com/org/repo/",
            "git@github.com:org/repo.git",
            "ssh://git@ssh.github.com:443/org/repo.git",
            "ssh://git@github.com:22/org/repo",
        ],
        [
            "git@altssh.gitlab.com:g/p.git",
            "https://gitlab.com/G/P",
            "ssh://altssh.gitlab.com:443/g/p",
        ],
        [
            "https://dev.azure.com/org/project/_git/repo",
            "git@ssh.dev.azure.com:v3/org/project/repo",
        ],
        ["https://host/a/%7euser/x.git", "https://HOST//a/~user/x"],
        ["file:///srv/a.git", "file:///srv/a/"],
    ],
)
def test_identity_is_one_for_all_spellings(spellings: list[str]) -> None:
    """Scheme, user git, case of host, default port, slash and .git do not matter."""
    assert len({Remote.parse(text).identity for text in spellings}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://host/a", "https://host:8443/a"),
        ("https://host/a", "https://host/A"),
        ("https://host/a", "https://host/b"),
        ("https://host/a", "https://other/a"),
        ("ssh://alice@host/a", "ssh://bob@host/a"),
        ("alice@host:a", "git@host:a"),
    ],
)
def test_identity_distinguishes_repositories(one: str, other: str) -> None:
    """By ports, paths, hosts and users, and by case where hosts are case-sensitive."""
    assert Remote.parse(one).identity != Remote.parse(other).identity


def test_endpoint_distinguishes_transports_and_display_hides_the_user() -> None:
    """An endpoint has scheme and port; the display form has no user."""
    remote = Remote.parse("ssh://deploy@host/a.git")
    assert remote.endpoint == "ssh://deploy@host:22/a.git"
    assert Remote.parse("https://host/a.git").endpoint == "https://host:443/a.git"
    assert remote.display == "ssh://host/a.git"
    assert Remote.parse("git@host:a.git").display == "ssh://host/a.git"
