"""The development git server: access, repository names, faults."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from windlass_dev.git_server.bare_repositories import BareRepositories, InvalidRepositoryName
from windlass_dev.git_server.fault_injection import ActiveFault, GitFault
from windlass_dev.git_server.git_backend import AsgiMessage, GitRequest
from windlass_dev.git_server.smart_http import GitServer, GitServerSettings


def _server(**settings: str) -> GitServer:
    return GitServer(GitServerSettings(root=Path("/nowhere"), **settings))  # type: ignore[arg-type]


def _request(
    path: str = "/a.git/info/refs", query: str = "", authorization: str = ""
) -> GitRequest:
    headers = [(b"authorization", authorization.encode())] if authorization else []
    scope = {"method": "GET", "path": path, "query_string": query.encode(), "headers": headers}

    async def nothing() -> AsgiMessage:
        return {"type": "http.disconnect"}

    async def send(message: AsgiMessage) -> None:
        return None

    return GitRequest(scope, nothing, send)


def _basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "allowed"),
    [
        ("", False),
        (_basic("git:right"), True),
        (_basic("git:wrong"), False),
        (_basic("other:right"), False),
        (_basic("anybody:token"), True),
        ("Bearer token", True),
        ("Bearer right", False),
        ("Bearer ", False),
        ("Basic ???", False),
    ],
)
def test_accepted_credentials(authorization: str, allowed: bool) -> None:
    """Password with its user, token as password or bearer."""
    server = _server(password="right", token="token")
    assert server._is_allowed(_request(authorization=authorization)) is allowed


def test_without_credentials_every_request_is_accepted() -> None:
    """A server without passwords is open."""
    assert _server()._is_allowed(_request())


@pytest.mark.parametrize(
    ("path", "query", "service", "repository"),
    [
        ("/a/b.git/info/refs", "service=git-upload-pack", "upload-pack", "/a/b.git"),
        ("/a/b.git/git-receive-pack", "", "receive-pack", "/a/b.git"),
        ("/a.git/HEAD", "", "HEAD", "/a"),
    ],
)
def test_service_and_repository(path: str, query: str, service: str, repository: str) -> None:
    """Both requests of an exchange name the same service and repository."""
    request = _request(path, query)
    assert (request.service, request.repository) == (service, repository)


@pytest.mark.parametrize("name", ["", "..", "a/../b", "-a", ".hidden", "a b", "a//b"])
def test_names_that_leave_the_root_are_refused(name: str) -> None:
    """No request reaches a directory outside."""
    with pytest.raises(InvalidRepositoryName):
        BareRepositories(Path("/srv")).path(name)


def test_a_name_has_one_directory() -> None:
    """With and without .git it is the same directory."""
    repositories = BareRepositories(Path("/srv"))
    assert repositories.path("/a/b.git") == repositories.path("a/b") == Path("/srv/a/b.git")


def test_faults_are_for_a_service_and_end_by_count() -> None:
    """A fault affects its service only, as often as configured."""
    faults = ActiveFault()
    faults.set(GitFault("error", service="receive-pack", times=2))
    assert faults.take("upload-pack", advertisement=True) is None
    assert faults.take("receive-pack", advertisement=True) is not None
    assert faults.take("receive-pack", advertisement=False) is not None
    assert faults.take("receive-pack", advertisement=False) is None


def test_faults_may_spare_the_advertisement() -> None:
    """So that a client gets as far as sending its pack."""
    faults = ActiveFault()
    faults.set(GitFault("hang", advertisement=False))
    assert faults.take("receive-pack", advertisement=True) is None
    assert faults.take("receive-pack", advertisement=False) is not None
    faults.clear()
    assert faults.take("receive-pack", advertisement=False) is None


def test_unknown_faults_are_refused() -> None:
    """The message lists the supported ones."""
    with pytest.raises(ValueError, match="refuse-auth"):
        GitFault("explode")
    with pytest.raises(ValueError, match="upload-pack"):
        GitFault("hang", service="x")


def test_control_file_switches_faults(tmp_path: Path) -> None:
    """An absent or empty file is no fault; an invalid one is an error with its path."""
    file = tmp_path / "fault"
    faults = ActiveFault(file)
    assert faults.take("upload-pack", advertisement=True) is None
    file.write_text('{"mode": "reject", "text": "no"}')
    assert faults.take("receive-pack", advertisement=True) == GitFault("reject", text="no")
    file.write_text("")
    assert faults.take("upload-pack", advertisement=True) is None
    file.write_text('{"mode": "x"}')
    with pytest.raises(ValueError, match="fault: "):
        faults.take("upload-pack", advertisement=True)
