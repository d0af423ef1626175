"""Credential helper of git: answers with user and password from an inherited descriptor.

On Linux credential_helper.sh does the same in a tenth of the time; this one is for systems where a
descriptor cannot be opened again.

It runs alone (`python -I -S credential_helper.py FD get`), so it imports nothing of ours. The
descriptor holds blocks of `key=value` lines, one block per host. A block is printed only if
protocol and host, port included, are exactly those of git's request, so a server that redirects
git elsewhere learns nothing. `store` and `erase` do nothing.
"""

from __future__ import annotations

import os
import sys

_LIMIT = 1 << 20


def fields(text: str) -> dict[str, str]:
    """The `key=value` lines of one block."""
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def answer(request: str, known: str) -> str:
    """User and password of the block that matches the request, else nothing."""
    requested = fields(request)
    for block in known.split("\n\n"):
        credential = fields(block)
        if not credential or "host" not in requested:
            continue
        if (
            credential["protocol"] != requested.get("protocol")
            or credential["host"] != requested["host"]
        ):
            continue
        if requested.get("username", credential["username"]) != credential["username"]:
            continue
        return f"username={credential['username']}\npassword={credential['password']}\n"
    return ""


def main() -> None:
    """Answer one request of git."""
    descriptor, operation = int(sys.argv[1]), sys.argv[2]
    if operation != "get":
        return
    # git may run this more than once per call, so the offset of the descriptor must not move.
    known = os.pread(descriptor, _LIMIT, 0).decode("utf-8")
    sys.stdout.write(answer(sys.stdin.read(), known))


if __name__ == "__main__":
    main()
