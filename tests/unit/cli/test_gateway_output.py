"""Messages of the agent with the flags of the command line instead of fields."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from windlass.base.errors import Stalled, WindlassError
from windlass.cli import gateway
from windlass.cli.gateway_output import errors_with_flags, with_flags
from windlass.gateways.agent import gateway_answers
from windlass.gateways.agent.gateway_answers import GatewayAnswer
from windlass.gateways.tree import file_policy, mapping, selection
from windlass.gateways.tree.file_policy import Caps
from windlass.gateways.tree.gateway_pod import GatewayPod
from windlass.gateways.tree.mapping import Convention
from windlass.gateways.volume.lock import VolumeLocked
from windlass.gateways.wire.routing import Routing, RoutingMapping, RoutingProfile
from windlass.git.errors import GitError
from windlass.git.format.remote import Remote
from windlass.git.runner import check_transport
from windlass.git.settings import GitSettings
from windlass.git.store import Entry

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


def _refusal(refuse: Callable[[], object]) -> str:
    with pytest.raises(WindlassError) as caught:
        refuse()
    return caught.value.message


_FILES = dict.fromkeys(("a", "b"), Entry(0o100644, "1"))


@pytest.mark.parametrize(
    ("refuse", "words"),
    [
        (
            lambda: file_policy.check_files(_FILES, Caps(max_files=1)),
            "the limit spec.safety.maxFiles in the file of --cr is 1",
        ),
        (
            lambda: file_policy.check_sizes({"a": 2}, Caps(max_file_bytes=1)),
            "the limit spec.safety.maxFileSize in the file of --cr is 1; raise the limit or "
            "exclude this path with --exclude",
        ),
        (
            lambda: file_policy.check_sizes({"a": 2}, Caps(max_total_bytes=1)),
            "the limit spec.safety.maxTotalSize in the file of --cr is 1",
        ),
        (
            lambda: selection.select_profile(Routing(), GatewayPod("a", "b")),
            "set --service-path or --profile, or add a profile named 'default' to the file of --cr",
        ),
        (
            lambda: mapping.convention_mappings(Convention("../x")),
            "--service-path: '../x' must not contain '..'",
        ),
        (
            lambda: mapping.profile_mappings(
                "line",
                RoutingProfile(mappings=(RoutingMapping("a", "db"),)),
                lambda _, text: text,
            ),
            "--cr: spec.profiles.line.mappings[0].destination: db is a protected path",
        ),
        (
            lambda: check_transport(Remote.parse("http://h/x"), GitSettings()),
            "use https or ssh, or add --insecure-host",
        ),
    ],
)
def test_refusals_name_flags_or_the_file_of_the_option(
    refuse: Callable[[], object], words: str
) -> None:
    """What has no flag of its own is set in the file of --cr."""
    assert words in with_flags(_refusal(refuse))


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (
            "exceeding spec.safety.maxDeletes (3): a",
            "exceeding spec.safety.maxDeletes in the file of --cr (3): a",
        ),
        (
            "exceeding spec.safety.maxDeletePercent (25) of 40 managed files",
            "exceeding spec.safety.maxDeletePercent in the file of --cr (25) of 40 managed files",
        ),
        (
            "map other collections with additionalFiles or a profile",
            "map other collections with additionalFiles or a profile in the file of --cr",
        ),
        (
            "correct the Secret named by spec.gateway.caSecretRef",
            "correct the Secret named by spec.gateway.caSecretRef in the file of --cr",
        ),
        ("siteNumber: must not contain", "--site-number: must not contain"),
        ("additionalFiles[0]: a not found", "--cr: spec.additionalFiles[0]: a not found"),
        (
            "no response within spec.ignition.scan.requestTimeout",
            "no response within spec.ignition.scan.requestTimeout in the file of --cr",
        ),
        ("--cr: cr.yaml: unknown field spec.gti", "--cr: cr.yaml: unknown field spec.gti"),
        ("schema 9; upgrade the agent", "schema 9; upgrade windlass"),
    ],
)
def test_fields_without_a_flag_are_in_the_file_of_the_option(text: str, output: str) -> None:
    """Also where a message names more than the field."""
    assert with_flags(text) == output


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
