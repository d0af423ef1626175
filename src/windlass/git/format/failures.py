"""Classifies failures of git by its output, as one of a closed set of reasons.

The text decides only between reasons; whether a push took effect is never decided here but by
reading the remote ref again. Lines that begin with `remote:` are the server's: its full disk is not
ours, so they count only where a server refuses. A server can make git print one line of 64 KiB;
only its beginning is matched, because some patterns restart at every word.

`describe_cause` reduces the reasons to causes that users see, since those of git are finer than
what a person can act on. There is one list for all readers, so that a status has the same word
whether the controller or an agent met the fault.

Pure.
"""

from __future__ import annotations

import re

HINTS = ("hint:", "warning: redirecting")

# Lines that follow every failure over ssh, whatever its cause.
_BOILERPLATE = (
    "fatal: could not read from remote repository.",
    "please make sure you have the correct access rights",
    "and the repository exists.",
)

_LINE_CHARS = 4096

_OURS: tuple[tuple[str, str], ...] = (
    (
        # A host without any known key never gets here (`ssh.check`), so where ssh knows no key of
        # the offered type, it knows one of another type: the host differs from what is expected.
        "HostKeyMismatch",
        r"host key verification failed|identification has changed|host key is known"
        r"|bad server host key|invalid key length",
    ),
    ("DiskFull", r"no space left on device|disk quota exceeded"),
    (
        "TooLarge",
        r"out of memory|file too large|signal 25|exceeds maximum allowed size|mmap failed",
    ),
    (
        "AuthFailed",
        r"authentication failed|could not read (username|password)|permission denied \("
        r"|returned error: 40[137]|terminal prompts disabled|invalid credentials|access denied"
        r"|too many authentication failures|load key .*: (invalid format|error in libcrypto)",
    ),
    ("UnsupportedObjectFormat", r"mismatched algorithms|unsupported object.format"),
    (
        "RefNotFound",
        r"couldn't find remote ref|remote branch .* not found|not our ref|no such remote ref"
        r"|request for unadvertised object|want [0-9a-f]{40,64} not valid",
    ),
    (
        "NotFound",
        r"repository .*not found|does not appear to be a git repository|returned error: 404"
        r"|not exported|no such repository",
    ),
    (
        "Corrupt",
        r"fsck error|corrupt|bad object|bad tree|bad signature|inflate|not a git repository"
        r"|unable to read [0-9a-f]{7,}|missing (blob|tree|commit)|unresolved deltas|bad config"
        r"|failed to (parse|read) (commit|tree|object)|pack has bad|invalid object|sha1 mismatch"
        r"|index file .* is too small|not a valid object|could not read [0-9a-f]{40}"
        r"|unable to parse object|did not send all necessary objects|could not parse commit",
    ),
)
_RACE = (
    r"stale info|fetch first|non-fast-forward|cannot lock ref|incorrect old value"
    r"|failed to update ref|reference already exists|remote ref updated since checkout"
)
_UNTRUSTED = (
    r"certificate|ssl peer|gnutls|self.signed|tls (alert|handshake)|ssl_error|unable to get local"
    r"|error setting certificate|problem with the ssl"
)
_REDIRECTED = r"returned error: 30[12378]|update url base from redirection"
# No response of a git server: closed and filtered ports, and ports of other services.
_UNREACHABLE = (
    r"could(n't| not) (connect|resolve)|failed to connect|connection (refused|timed out|reset)"
    r"|no route to host|network is unreachable|empty reply|operation timed out|http/0\.9"
    r"|(recv|send) failure|unexpected tls packet|wrong version number|unexpected eof"
    r"|ssl_error_syscall|(non-properly|improperly) terminated|ssh: connect to host"
    r"|kex_exchange_identification|banner exchange|connection closed by|operation too slow"
    r"|connection timeout"
)
_REFUSAL = (
    r"remote rejected|hook declined|protected branch|quota|exceeds|pre-receive|not permitted"
    r"|permission|denied|prohibited|unpacker error|shallow update not allowed|gh0\d\d"
)

_OURS_COMPILED = tuple((name, re.compile(text, re.IGNORECASE)) for name, text in _OURS)
_RACE_COMPILED = re.compile(_RACE, re.IGNORECASE)
_REFUSAL_COMPILED = re.compile(_REFUSAL, re.IGNORECASE)
_UNTRUSTED_COMPILED = re.compile(_UNTRUSTED, re.IGNORECASE)
_UNREACHABLE_COMPILED = re.compile(_UNREACHABLE, re.IGNORECASE)
_REDIRECTED_COMPILED = re.compile(_REDIRECTED, re.IGNORECASE)
_URL_PREFIX = re.compile(r"unable to access '[^']*': ")
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


def failure_reason(stderr: str, stdout: str = "") -> str:
    """The reason why git failed; `Unavailable` where the output has no more precise one."""
    lines = (line for line in stderr.splitlines() if not line.startswith("remote:"))
    ours = "\n".join(line[:_LINE_CHARS] for line in lines)
    for name, pattern in _OURS_COMPILED:
        if pattern.search(ours):
            return name
    if _RACE_COMPILED.search(ours) or _RACE_COMPILED.search(stdout):
        return "NonFastForward"
    if "[remote rejected]" in stdout or _REFUSAL_COMPILED.search(stdout + stderr):
        return "Rejected"
    return "Unavailable"


def is_untrusted(words: str) -> bool:
    """Whether an `Unavailable` remote failed TLS verification."""
    return bool(_UNTRUSTED_COMPILED.search(words))


def is_unreachable(words: str) -> bool:
    """Whether an `Unavailable` remote gave no response of a git server."""
    return bool(_UNREACHABLE_COMPILED.search(words))


def unreachable_message(host: str, port: int) -> str:
    """The one message for every address without a reachable git server."""
    shown_host = f"[{host}]" if ":" in host else host
    return (
        f"git server {shown_host}:{port} cannot be reached: it does not answer, or its address is "
        "not allowed; check the URL and the network"
    )


def is_redirected(words: str) -> bool:
    """Whether an `Unavailable` remote answered with a redirect."""
    return bool(_REDIRECTED_COMPILED.search(words))


def readable_stderr(stderr: str, limit: int = 2000) -> str:
    """Stderr for people: without hints and advice, on one line, rather its end than its start."""
    lines = [line.strip() for line in stderr.replace("\r", "\n").splitlines()]
    relevant = [line for line in lines if line and not line.lower().startswith(HINTS)]
    causes = [line for line in relevant if not line.lower().startswith(_BOILERPLATE)]
    # Callers name the remote, so git need not repeat its URL.
    text = _URL_PREFIX.sub("", "; ".join(dict.fromkeys(causes or relevant)))
    return text if len(text) <= limit else "…" + text[-limit:]


def host_key_message(host: str, expected: tuple[str, ...], stderr: str) -> str:
    """The fingerprints sent and expected, instead of the long warning of ssh."""
    sent = _FINGERPRINT.search(stderr)
    cause = f"the server sent {sent.group()}" if sent is not None else readable_stderr(stderr)
    return f"host key of {host} does not match: {cause}; expected {', '.join(expected)}"


NEEDS_A_PERSON = frozenset(
    {
        "AuthFailed",
        "HostKeyMismatch",
        "HostKeyUnknown",
        "RepoNotFound",
        "CommitUnreachable",
        "HostBlocked",
        "TLSFailed",
    }
)
"""Causes that persist until somebody changes something."""

_NAMES = {
    "NotFound": "RepoNotFound",
    "InsecureTransport": "HostBlocked",
    "StoreCorrupt": "Corrupt",
    "SecretMalformed": "AuthFailed",
    # A server that rejects a read rejects the user, not the request.
    "Rejected": "AuthFailed",
    "UnsupportedObjectFormat": "CommitUnreachable",
}


_REMEDIES = {
    "AuthFailed": "check the user, token or key in the Secret and its access to the repository",
    "HostKeyUnknown": "or set spec.git.auth.sshKey.knownHostsSecretRef",
    "RepoNotFound": "check the URL and that the credentials may read the repository",
}


def remedy(cause: str) -> str:
    """Advice for a cause, appended to its message; empty where the message has it."""
    return f"; {_REMEDIES[cause]}" if cause in _REMEDIES else ""


def describe_cause(reason: str, message: str) -> str:
    """The cause of a failed read; a reason without a mapping stays as it is."""
    cause = _NAMES.get(reason, reason)
    if cause != "Unavailable":
        return cause
    if is_redirected(message):
        return "HostBlocked"
    return "TLSFailed" if is_untrusted(message) else cause
