"""Secrets become credentials, and no value of them is printed."""

from __future__ import annotations

import pytest

from windlass.base import redaction
from windlass.git import credentials, environment
from windlass.git.credentials import Credentials, Proxy
from windlass.git.errors import SecretMalformed
from windlass.git.format.remote import Remote

VALUE = "hunter2-value"


@pytest.mark.parametrize("key", ["ssh-privatekey", "identity", "sshPrivateKey"])
def test_an_ssh_key_comes_first(key: str) -> None:
    """Beside a key, `password` is its passphrase unless `ssh-password` is set."""
    data = {key: b"KEY", "password": b"p", "username": b"u", "known_hosts": b"h k v", "token": b"t"}
    parsed = credentials.from_secret(data)
    assert (parsed.ssh_key, parsed.ssh_passphrase, parsed.known_hosts) == (b"KEY\n", "p", b"h k v")
    assert parsed.basic is None
    assert credentials.from_secret(data | {"ssh-password": b"q\n"}).ssh_passphrase == "q"


@pytest.mark.parametrize(
    ("data", "basic"),
    [
        ({"username": b"u", "password": b"p\n"}, ("u", "p")),
        ({"password": b"p"}, ("git", "p")),
        ({"token": b"t"}, ("x-access-token", "t")),
        ({"username": b"u", "token": b"t"}, ("u", "t")),
        ({"username": b"u", "password": b"p", "token": b"t"}, ("u", "p")),
        ({"bearerToken": b"b"}, None),
        ({"ca.crt": b"PEM"}, None),
    ],
)
def test_first_match_wins(data: dict[str, bytes], basic: tuple[str, str] | None) -> None:
    """User and password, then token, then bearer."""
    assert credentials.from_secret(data).basic == basic


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"username": VALUE.encode()},
        {"passwort": VALUE.encode()},
        {"password": b"  \n"},
        {"known_hosts": VALUE.encode()},
        {"password": f"{VALUE}\nx".encode()},
        {"password": b"\xff" + VALUE.encode()},
    ],
)
def test_other_secrets_are_malformed_and_not_repeated(data: dict[str, bytes]) -> None:
    """The message names keys, never values."""
    with pytest.raises(SecretMalformed) as caught:
        credentials.from_secret(data)
    assert VALUE not in str(caught.value)
    assert caught.value.reason == "SecretMalformed"


def test_missing_keys_are_named() -> None:
    """The message lists the keys that would be accepted."""
    with pytest.raises(SecretMalformed, match=r"ssh-privatekey.*password.*bearerToken"):
        credentials.from_secret({"user": b"x"})


def test_a_repr_is_empty_and_fingerprints_differ() -> None:
    """Equal credentials share a fingerprint, others do not."""
    one = Credentials(username="u", password=VALUE, proxy=Proxy("http://p:1", "u", VALUE))
    assert VALUE not in repr(one) + str(one) + one.fingerprint + repr(one.proxy)
    assert (
        one.fingerprint
        == Credentials("u", VALUE, proxy=Proxy("http://p:1", "u", VALUE)).fingerprint
    )
    others = [Credentials("u" + VALUE), Credentials("u", password=VALUE), Credentials(token=VALUE)]
    others += [Credentials("u", VALUE, host_key_verification=False), Credentials()]
    assert len({each.fingerprint for each in [one, *others]}) == 6


def test_values_are_redacted_while_in_use() -> None:
    """Also as base64 of user and password, and not afterwards."""
    own = Credentials(username="u", password=VALUE)
    with own.in_use():
        assert redaction.process.clean(f"a {VALUE} b") == "a [redacted] b"
        assert "dTpodW50" not in redaction.process.clean("dTpodW50ZXIyLXZhbHVl")
    assert redaction.process.clean(VALUE) == VALUE


def test_proxy_secret() -> None:
    """An address without a user, and user and password beside it."""
    parsed = credentials.proxy_from_secret(
        {"address": b"http://p:3128/", "username": b"u", "password": b"w"}
    )
    assert (parsed.address, parsed.username, parsed.password) == ("http://p:3128", "u", "w")


@pytest.mark.parametrize(
    "address", [b"", b"p:3128", b"http://p", b"http://u:w@p:1", b"ftp://p:1", b"http://[:1"]
)
def test_other_proxies_are_malformed(address: bytes) -> None:
    """A user in the address would appear in configuration."""
    with pytest.raises(SecretMalformed, match="address"):
        credentials.proxy_from_secret({"address": address})


def test_bearer_header_is_scoped_and_quoted() -> None:
    """Only requests to the remote's own address carry it."""
    remote = Remote.parse("https://h:8443/a")
    text = environment.bearer_config(remote, Credentials(bearer='a"b\\c')).decode()
    assert text.startswith('[http "https://h:8443/"]\n')
    assert 'extraHeader = "Authorization: Bearer a\\"b\\\\c"' in text
