"""The closed set of causes, each with its decision."""

from __future__ import annotations

import pytest

from windlass.base.errors import Retryable, Stalled
from windlass.git.errors import REASONS, GitError, InsecureTransport, SecretMalformed
from windlass.sources import proofs


def test_every_git_reason_becomes_a_cause() -> None:
    """Users read only causes of the set."""
    for reason in REASONS:
        translated = proofs.translate_error(GitError(reason, "words"))
        assert translated.reason in proofs.STALLED_CAUSES | proofs.RETRYABLE_CAUSES
        assert isinstance(
            translated, Stalled if translated.reason in proofs.STALLED_CAUSES else Retryable
        )


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("NotFound", "", "RepoNotFound"),
        ("StoreCorrupt", "", "Corrupt"),
        ("DiskFull", "", "Unavailable"),
        ("Unavailable", "SSL certificate problem: self-signed certificate", "TLSFailed"),
        ("Unavailable", "server certificate verification failed. CAfile: none", "TLSFailed"),
        ("Unavailable", "The requested URL returned error: 302", "HostBlocked"),
        ("Unavailable", "Could not connect to server", "Unavailable"),
        ("UnsupportedObjectFormat", "", "CommitUnreachable"),
    ],
)
def test_names_that_differ(reason: str, message: str, expected: str) -> None:
    """Where git's reasons and the users' causes have different names."""
    assert proofs.translate_error(GitError(reason, message)).reason == expected


def test_stalled_causes_are_checked_again() -> None:
    """Every five minutes; the message stays."""
    for error in (InsecureTransport("use https"), SecretMalformed("no key")):
        translated = proofs.translate_error(error)
        assert isinstance(translated, Stalled)
        assert (translated.after, translated.message) == (300.0, error.message)
