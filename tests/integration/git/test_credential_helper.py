"""The credential helper, called as git calls it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass.base import files
from windlass.git import environment
from windlass.git.credentials import Credentials, Proxy
from windlass.git.format.remote import Remote

REMOTE = Remote.parse("https://h:8443/a")
# Nothing in it means anything to whoever hands it on.
PASSWORD = r"-n p=w \t %s $(id) 'é\\" + "\u2028\x85"
KNOWN = environment.helper_content(
    REMOTE, Credentials("u", PASSWORD, proxy=Proxy("http://p:3128", "pu", "proxied"))
)

Ask = Callable[..., list[str]]


@pytest.fixture(params=["descriptor", "file"])
def ask(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Ask]:
    """The helper's responses to the requests of one call, one after the other."""
    if request.param == "file":
        monkeypatch.setattr(environment, "_DESCRIPTORS", Path("/nonexistent"))

    def responses_of(*questions: str, operation: str = "get") -> list[str]:
        descriptor = files.anonymous_file(KNOWN)
        try:
            command = environment._helper_command(descriptor, directory).removeprefix("!")
            return [
                subprocess.run(
                    ["/bin/sh", "-c", f"{command} {operation}"],
                    input=question.encode(),
                    pass_fds=(descriptor,),
                    stdout=subprocess.PIPE,
                    check=True,
                ).stdout.decode()
                for question in questions
            ]
        finally:
            os.close(descriptor)

    with environment.PrivateDirectory(tmp_path) as directory:
        yield responses_of


def test_one_exact_origin_is_served_any_number_of_times(ask: Ask) -> None:
    """Scheme, host and port must be equal; every byte of a password arrives."""
    origin = "protocol=https\nhost=h:8443\n"
    right = f"username=u\npassword={PASSWORD}\n"
    questions = (origin, f"{origin}username=u\npath=a\n", f"{origin}capability[]=authtype\n")
    assert ask(*questions) == [right, right, right]


@pytest.mark.parametrize(
    "question",
    [
        "protocol=https\nhost=h:8443\nusername=other\n",
        "protocol=http\nhost=h:8443\n",
        "protocol=https\nhost=h\n",
        "protocol=https\nhost=h:8443.evil\n",
        "protocol=https\nhost=H:8443\n",
        "protocol=https\nhost=*\n",
        "protocol=https\n",
        "",
    ],
)
def test_no_other_origin_gets_a_password(ask: Ask, question: str) -> None:
    """A server that redirects git elsewhere gets no password."""
    assert ask(question) == [""]


def test_the_proxy_has_its_own_password(ask: Ask) -> None:
    """The remote's password never goes to the proxy, nor the reverse."""
    proxied = "protocol=http\nhost=p:3128\nusername=pu\n"
    assert ask(proxied) == ["username=pu\npassword=proxied\n"]


@pytest.mark.parametrize("operation", ["store", "erase"])
def test_nothing_is_stored(ask: Ask, operation: str) -> None:
    """Neither store nor erase has an effect."""
    assert ask("protocol=https\nhost=h:8443\n", operation=operation) == [""]
