"""The program git asks for a password: answers from a descriptor it inherited.

On Linux credential_helper.sh does the same in a tenth of the time; this one serves where
a descriptor cannot be opened anew.

It runs alone (`python -I -S credential_helper.py FD get`), so it imports nothing of
ours. The descriptor holds blocks of `key=value` lines, one block per place. A block is
printed only if protocol and host, port included, are exactly those git asks for, so a
server that sends git elsewhere learns nothing. `store` and `erase` do nothing.
"""

from __future__ import annotations

import os
import sys

_LIMIT = 1 << 20


def fields(text: str) -> dict[str, str]:
    """The `key=value` lines of one block."""
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def answer(request: str, known: str) -> str:
    """What git gets: user and password of the one place that fits, else nothing."""
    wanted = fields(request)
    for block in known.split("\n\n"):
        place = fields(block)
        if not place or "host" not in wanted:
            continue
        if place["protocol"] != wanted.get("protocol") or place["host"] != wanted["host"]:
            continue
        if wanted.get("username", place["username"]) != place["username"]:
            continue
        return f"username={place['username']}\npassword={place['password']}\n"
    return ""


def main() -> None:
    """Answer one question of git's."""
    descriptor, operation = int(sys.argv[1]), sys.argv[2]
    if operation != "get":
        return
    # git may ask more than once in a call, hence no read that would use the content up.
    known = os.pread(descriptor, _LIMIT, 0).decode("utf-8")
    sys.stdout.write(answer(sys.stdin.read(), known))


if __name__ == "__main__":
    main()
