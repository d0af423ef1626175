"""Messages of the agent with the flags of the command line instead of fields."""

from __future__ import annotations

import pytest

from windlass.base.errors import Stalled, WindlassError
from windlass.cli import gateway
from windlass.cli.gateway_output import errors_with_flags, with_flags
from windlass.gateways.agent import gateway_answers
from windlass.gateways.agent.gateway_answers import GatewayAnswer
from windlass.gateways.volume.lock import VolumeLocked
from windlass.git.errors import GitError

COMMIT = "a1" * 20


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (
            f'To allow it, annotate with ignition-sync.io/allow-mass-delete="{COMMIT}"',
            f"To allow it, add --allow-mass-delete={COMMIT}",
        ),
        ("set ignition-sync.io/service-path or", "set --service-path or"),
        ("ignition-sync.io/exclude-patterns: x", "--exclude: x"),
        ("ignition-sync.io/system-name-template: x", "--annotation system-name-template: x"),
        ("projects/a: invalid JSON", "projects/a: invalid JSON"),
        (
            VolumeLocked(None).message,
            "the data volume is in use by an unknown process; try again when it is released",
        ),
        (
            "no SSH key for h; add one to the Secret",
            "no SSH key for h; add one in the directory of --git-auth",
        ),
    ],
)
def test_annotations_become_flags(text: str, output: str) -> None:
    """Those that have a flag of their own, and all others."""
    assert with_flags(text) == output


@pytest.mark.parametrize(
    "text",
    [
        *(
            gateway_answers.judge_post(GatewayAnswer(status), tls=False).message
            for status in (301, 401, 403, 404)
        ),
        gateway_answers.other_port_hint(8088, tls=False),
        gateway_answers.other_port_hint(8043, tls=True),
    ],
)
def test_scan_messages_name_flags_instead_of_fields(text: str) -> None:
    """Address and token are flags here."""
    output = with_flags(text)
    assert "spec." not in output
    assert "https://127.0.0.1:8043" in output or "8043" not in text


def test_errors_keep_their_reason() -> None:
    """Only the message changes."""
    with pytest.raises(WindlassError) as caught, errors_with_flags():
        raise Stalled("NoRouting", "ignition-sync.io/profile: 'x' not found")
    assert (caught.value.reason, caught.value.message) == ("NoRouting", "--profile: 'x' not found")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (GitError("AuthFailed", "denied"), "denied; check the user, token or key in --git-auth"),
        (GitError("NotFound", "no x"), "no x; check --repo and that the credentials in --git-auth"),
        (GitError("AuthFailed", "add one to the Secret"), "add one in the directory of --git-auth"),
        (GitError("Unavailable", "timeout"), "timeout"),
    ],
)
def test_errors_of_git_name_the_flag_to_check(error: GitError, message: str) -> None:
    """One remedy each, and none where nothing is known."""
    with pytest.raises(WindlassError) as caught, errors_with_flags():
        raise error
    assert caught.value.message.startswith(message)
    assert caught.value.message.count("--git-auth") == message.count("--git-auth")


def test_notes_are_printed_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """A note names the commit of a journal, which a gateway can write."""
    gateway._print_note("the apply of \x1bc was interrupted")
    assert capsys.readouterr().err == "windlass: the apply of \\u001bc was interrupted\n"
