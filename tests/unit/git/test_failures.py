"""The output of a git child becomes one of a closed set of reasons."""

from __future__ import annotations

import pytest

from windlass.git.errors import REASONS
from windlass.git.format import failures

OUTPUTS = [
    ("fatal: Authentication failed for 'https://h/a'", "", "AuthFailed"),
    ("fatal: could not read Username for 'http://h': terminal prompts disabled", "", "AuthFailed"),
    ("git@h: Permission denied (publickey).\nfatal: Could not read from remote", "", "AuthFailed"),
    (
        "fatal: unable to access 'https://h/a': The requested URL returned error: 403",
        "",
        "AuthFailed",
    ),
    ("Host key verification failed.\nfatal: Could not read from remote", "", "HostKeyMismatch"),
    ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @", "", "HostKeyMismatch"),
    ("No ED25519 host key is known for h and you have requested strict", "", "HostKeyMismatch"),
    ("fatal: repository 'https://h/a/' not found", "", "NotFound"),
    ("fatal: '/a' does not appear to be a git repository", "", "NotFound"),
    ("fatal: couldn't find remote ref refs/heads/x", "", "RefNotFound"),
    ("fatal: remote error: upload-pack: not our ref 1234", "", "RefNotFound"),
    ("error: Server does not allow request for unadvertised object 12", "", "RefNotFound"),
    ("error: failed to push", "!\ta:b\t[rejected] (stale info)\n", "NonFastForward"),
    ("error: failed to push", "!\ta:b\t[rejected] (fetch first)\n", "NonFastForward"),
    ("error: failed to push", "!\ta:b\t[rejected] (non-fast-forward)\n", "NonFastForward"),
    (
        "",
        "!\ta:b\t[remote rejected] (cannot lock ref 'x': is at 1)\n",
        "NonFastForward",
    ),
    ("", "!\ta:b\t[remote rejected] (incorrect old value provided)\n", "NonFastForward"),
    ("", "!\ta:b\t[remote rejected] (failed to update ref)\n", "NonFastForward"),
    ("", "!\ta:b\t[remote rejected] (reference already exists)\n", "NonFastForward"),
    ("remote: no", "!\ta:b\t[remote rejected] (pre-receive hook declined)\n", "Rejected"),
    ("remote: error: GH006: Protected branch update failed", "", "Rejected"),
    ("remote: fatal: pack exceeds maximum allowed size", "", "Rejected"),
    ("remote: fatal: write error: No space left on device", "", "Unavailable"),
    ("fatal: write error: No space left on device", "", "DiskFull"),
    ("fatal: Out of memory, malloc failed", "", "TooLarge"),
    ("error: index-pack died of signal 25", "", "TooLarge"),
    ("fatal: loose object 12 (stored in objects/1/2) is corrupt", "", "Corrupt"),
    ("fatal: fsck error in packed object", "", "Corrupt"),
    ("fatal: not a git repository: '/x'", "", "Corrupt"),
    ("fatal: mismatched algorithms: client sha1; server sha256", "", "UnsupportedObjectFormat"),
    ("fatal: unable to access 'https://h/': SSL certificate problem: expired", "", "Unavailable"),
    ("fatal: unable to access: Could not resolve host: h", "", "Unavailable"),
    ("fatal: the remote end hung up unexpectedly", "", "Unavailable"),
    ("", "", "Unavailable"),
]


@pytest.mark.parametrize(("stderr", "stdout", "reason"), OUTPUTS)
def test_known_output_has_a_reason(stderr: str, stdout: str, reason: str) -> None:
    """The known texts of git, ssh and the common hosts are recognized."""
    assert failures.failure_reason(stderr, stdout) == reason
    assert reason in REASONS


def test_readable_is_one_line_without_hints() -> None:
    """Advice and repetition are dropped; of long text the end is kept."""
    text = "remote: no\nremote: no\nhint: do this\n\nfatal: end\n"
    assert failures.readable_stderr(text) == "remote: no; fatal: end"
    assert failures.readable_stderr("a" * 50 + "\nend", limit=10).endswith("end")
    url = "fatal: unable to access 'https://h/x/': The requested URL returned error: 503"
    assert failures.readable_stderr(url) == "fatal: The requested URL returned error: 503"


def test_a_changed_host_key_is_two_fingerprints() -> None:
    """The one that was sent and the expected one, without the warning; else the text of ssh."""
    sent = "SHA256:" + "a" * 43
    warning = f"@@@@\n@ IDENTIFICATION HAS CHANGED! @\nThe key sent by the host is\n{sent}.\n"
    assert failures.host_key_message("h", ("SHA256:b",), warning) == (
        f"host key of h does not match: the server sent {sent}; expected SHA256:b"
    )
    short = failures.host_key_message("h", ("SHA256:b",), "Bad server host key: Invalid length\n")
    assert short == (
        "host key of h does not match: Bad server host key: Invalid length; expected SHA256:b"
    )


@pytest.mark.parametrize("word", ["repository ", "load key ", "remote branch ", "index file "])
def test_one_endless_line_is_judged_by_its_beginning(word: str) -> None:
    """Output that a server causes cannot keep the process busy, nor hide the reason."""
    endless = word * ((1 << 20) // len(word))
    assert (
        failures.failure_reason(f"fatal: repository 'https://h/{'a' * 2048}' not found\n")
        == "NotFound"
    )
    assert failures.failure_reason(f"fatal: remote error: {endless}") == "Unavailable"


def test_the_advice_that_git_appends_to_every_ssh_failure_is_left_out() -> None:
    """One cause, once; without any other line git's own is the cause."""
    advice = (
        "fatal: Could not read from remote repository.\n\n"
        "Please make sure you have the correct access rights\nand the repository exists.\n"
    )
    denied = "git@h: Permission denied (publickey)."
    assert failures.readable_stderr(f"{denied}\n{advice}") == denied
    assert "Could not read from remote repository" in failures.readable_stderr(advice)
