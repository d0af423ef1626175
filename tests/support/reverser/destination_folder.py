"""A destination's folder without a server behind it."""

from __future__ import annotations

from windlass.git.credentials import ANONYMOUS
from windlass.git.format.objects import Person
from windlass.git.format.remote import Remote
from windlass.objects.names import Key
from windlass.reverser.publish.folder import Folder, WriteTarget

DESTINATION = Key("ns", "dest")


def empty_folder() -> Folder:
    """The folder `base` of ns/dest, not opened yet."""
    return Folder(
        WriteTarget(
            key=DESTINATION,
            uid="u",
            repository=Key("ns", "repo"),
            remote=Remote.parse("https://git.example.org/x"),
            branch="main",
            base_folder="base",
            create_branch=False,
            window_seconds=None,
            committer=Person("windlass", "noreply@windlass.invalid"),
            credentials=ANONYMOUS,
            takeover=None,
            salt=b"",
        )
    )
