"""Which commits an Environment is made from."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.api.scalar import LabelName, RefOrDefault

CommitChoice = Annotated[str, Meta(max_length=64, pattern="^(HEAD|[0-9a-f]{7,40}|[0-9a-f]{64})?$")]
"""A commit; empty or HEAD means the newest of the branch."""

_COMMIT_TEXT = "The exact commit; left out or HEAD, the newest one of the branch is followed."
_BRANCH_TEXT = (
    "The branch to follow, and the one a given commit must lie on; left out, that of the Project."
)


class EnvironmentSource(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to take from one repository of the Project."""

    name: Annotated[
        LabelName,
        Meta(
            description="Name of the source in the Project. Where both have one source only, any "
            "name will do."
        ),
    ]
    commit_sha: Annotated[CommitChoice, Meta(description=_COMMIT_TEXT)] = ""
    branch: Annotated[RefOrDefault, Meta(description=_BRANCH_TEXT)] = ""


class SingleCommit(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to take from the only repository, in the older way to write it."""

    commit_sha: Annotated[CommitChoice, Meta(description=_COMMIT_TEXT)] = ""
    branch: Annotated[RefOrDefault, Meta(description=_BRANCH_TEXT)] = ""
