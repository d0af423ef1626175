"""Messages of `windlass gateway`, in terms of command-line flags.

The engine's messages name annotations and fields of an IgnitionSync, because in a cluster those
are what a person sets; here they are replaced by flags. Plans as JSON keep the engine's words:
they are equal wherever they are made.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from windlass.base.errors import WindlassError
from windlass.gateways.volume.completion import TransactionEnd
from windlass.gateways.volume.journal import TransactionRecord
from windlass.gateways.wire.routing import ANNOTATION_PREFIX
from windlass.git.errors import GitError
from windlass.git.format import failures

_FLAGS = "service-path|profile|gateway-name|deployment-mode|tag-provider"
_IN_CR = "in the file of --cr"
_ANNOTATION = re.escape(ANNOTATION_PREFIX)

# From the special to the general: the first that fits wins.
_REPLACEMENTS = (
    (rf'annotate with {_ANNOTATION}allow-mass-delete="([0-9a-f]+)"', r"add --allow-mass-delete=\1"),
    (rf"{_ANNOTATION}exclude-patterns", "--exclude"),
    (rf"{_ANNOTATION}({_FLAGS})\b", r"--\1"),
    (rf"{_ANNOTATION}([a-z-]+)", r"--annotation \1"),
    (r"; use system-name-template", "; use --annotation system-name-template=TEMPLATE"),
    (r"; waiting for it to be released", "; try again when it is released"),
    (r"Secret and key named by spec\.gateway\.apiKeySecretRef", "file named by --token-file"),
    (r"key named by spec\.gateway\.apiKeySecretRef", "file named by --token-file"),
    (r"spec\.gateway\.apiKeySecretRef", "--token-file"),
    (r"while spec\.gateway\.tls is false", "while --scan uses http"),
    (
        r"set spec\.gateway\.port to ([0-9]+) and spec\.gateway\.tls to true",
        r"use --scan=https://127.0.0.1:\1",
    ),
    (
        r"set spec\.gateway\.port to ([0-9]+) and spec\.gateway\.tls to false",
        r"use --scan=http://127.0.0.1:\1",
    ),
    (r"set spec\.gateway\.port and spec\.gateway\.tls to where", "set --scan to where"),
    (r"set spec\.ignition\.scan\.mode to Off, or to BestEffort .*", "omit --scan"),
    (r"in the Secret with the SSH key|to the Secret$", "in the directory of --git-auth"),
    (r"exclude this path with excludePatterns", "exclude this path with --exclude"),
    (r"add the host to --git-insecure-hosts", "add --insecure-host"),
    (r"with additionalFiles or a profile$", rf"\g<0> {_IN_CR}"),
    (r"to the IgnitionSync$", "to the file of --cr"),
    (rf"^({_FLAGS}): ", r"--\1: "),
    (r"^siteNumber: ", "--site-number: "),
    # Mappings, and what else of the spec a message begins with.
    (r"^(profiles\.|additionalFiles\[|normalize\.)", r"--cr: spec.\1"),
    (r", or set fsGroup on the pod", ", or share a group and set the set-group-id bit"),
    (r"\bthe agent\b", "windlass"),
)
_REMEDIES = {
    "AuthFailed": "check the user, token or key in --git-auth and its access to the repository",
    "RepoNotFound": "check --repo and that the credentials in --git-auth may read it",
}
# What is left of the spec has no flag of its own.
_FIELD = re.compile(r"\bspec(?:\.[A-Za-z]+)+")
_PATTERNS = tuple((re.compile(pattern), replacement) for pattern, replacement in _REPLACEMENTS)


def with_flags(text: str) -> str:
    """`text` of the engine with flags in the place of annotations and fields."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    # Messages that begin with --cr are about that file already.
    return text if text.startswith("--cr: ") else _FIELD.sub(rf"\g<0> {_IN_CR}", text)


@contextlib.contextmanager
def errors_with_flags() -> Iterator[None]:
    """Errors that leave the block name flags, those of Git with what to do."""
    try:
        yield
    except WindlassError as error:
        text = with_flags(error.message)
        raise WindlassError(error.reason, text + _git_remedy(error, text)) from error


def _git_remedy(error: WindlassError, text: str) -> str:
    """What to do about an error of Git; empty if it is none or `text` has a remedy already."""
    if not isinstance(error, GitError) or "--git-auth" in text:
        return ""
    remedy = _REMEDIES.get(failures.describe_cause(error.reason, error.message))
    return f"; {remedy}" if remedy else ""


def interrupted_note(record: TransactionRecord) -> str:
    """The note of a plan about an interrupted apply."""
    return (
        f"{_apply_name(record)} was interrupted; the next apply or rollback completes or undoes "
        "it first"
    )


def resumed_note(ended: TransactionEnd) -> str:
    """The note of an apply about an interrupted one that it has completed or undone."""
    what = "completed" if ended.tree == "new" else "undone"
    return f"{_apply_name(ended.record)} was interrupted and has been {what}"


def _apply_name(record: TransactionRecord) -> str:
    return f"the apply of {record.to_commit[:7] or 'the state before the first sync'}"
