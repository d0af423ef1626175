"""Unencrypted transports need explicit permission."""

from __future__ import annotations

import pytest

from windlass.git.errors import InsecureTransport
from windlass.git.format.remote import Remote
from windlass.git.runner import check_transport
from windlass.git.settings import GitSettings


@pytest.mark.parametrize("url", ["http://host/a", "git://host/a", "file:///srv/a"])
def test_insecure_transports_are_refused(url: str) -> None:
    """http, git and file fail closed."""
    with pytest.raises(InsecureTransport) as caught:
        check_transport(Remote.parse(url), GitSettings())
    assert caught.value.reason == "InsecureTransport"


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("http://host:8080/a", GitSettings(insecure_hosts=frozenset({"host"}))),
        ("git://host/a", GitSettings(insecure_hosts=frozenset({"host"}))),
        ("file:///srv/a", GitSettings(allow_file=True)),
        ("https://host/a", GitSettings()),
        ("git@host:a", GitSettings()),
    ],
)
def test_listed_hosts_and_secure_transports_pass(url: str, settings: GitSettings) -> None:
    """A listed host, development mode, https and ssh."""
    check_transport(Remote.parse(url), settings)
