"""What a GitRepoConfig says of its remote.

| Remote | Ready | Reason |
|---|---|---|
| not asked yet, and nothing is stored | Unknown | Checking |
| all branches there | True | BranchFound |
| no refs at all | True | EmptyRepository |
| a branch missing that nobody will create | False | BranchNotFound |
| cannot be asked | False | ConnectionFailed, or what fails closed |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from windlass.base.errors import Stalled, WindlassError
from windlass.objects.condition import Condition
from windlass.objects.names import Object
from windlass.runtime.outcome import Outcome, Verdict

_HEADS = "refs/heads/"
_SHORT = 8
TRANSPORT_VERIFIED = "TransportVerified"


def checking(*, after: float) -> Outcome:
    """The report of a remote that nobody has asked yet."""
    return Outcome(
        ready=Verdict("Unknown", "Checking", "the remote is being asked"),
        reconciling=True,
        requeue_after=after,
    )


def reached(
    refs: Mapping[str, str],
    branches: Collection[str],
    *,
    creating: Collection[str],
    remote: str,
    verified: bool,
    after: float | None,
) -> Outcome:
    """The report of a remote that answered."""
    rows = [_branch(name, refs, creating) for name in branches]
    missing = [row["name"] for row in rows if row["state"] == "Missing"]
    transport = Condition(
        TRANSPORT_VERIFIED,
        "False",
        "HostKeyVerificationDisabled",
        "spec.hostKeyVerification is Disabled: anybody in between can read and change what is "
        "sent; set it to Strict and give the host keys",
    )
    return Outcome(
        ready=_verdict(rows, missing, empty=not refs),
        conditions=() if verified else (transport,),
        withdrawn=frozenset({TRANSPORT_VERIFIED}) if verified else frozenset(),
        fields={"remote": remote, "branches": rows},
        requeue_after=after,
    )


def _branch(name: str, refs: Mapping[str, str], creating: Collection[str]) -> Object:
    sha = refs.get(_HEADS + name)
    if sha is not None:
        return {"name": name, "state": "Found", "sha": sha}
    pending = name in creating or not refs
    return {"name": name, "state": "PendingCreation" if pending else "Missing"}


def _verdict(rows: list[Object], missing: list[str], *, empty: bool) -> Verdict:
    if missing:
        return Verdict(
            "False",
            "BranchNotFound",
            f"the remote has no branch {', '.join(missing)}; create it, remove it from "
            "spec.allowedBranches, or let a GitDestination create it with spec.createBranch",
        )
    if empty:
        return Verdict(
            "True", "EmptyRepository", "repository is empty; the first push will create the branch"
        )
    tips = ", ".join(_tip(row) for row in rows)
    return Verdict("True", "BranchFound", f"All {len(rows)} branches validated: {tips}")


def _tip(row: Object) -> str:
    return f"{row['name']}@{row['sha'][:_SHORT]}" if "sha" in row else f"{row['name']} (to come)"


def unreachable(error: WindlassError, remote: str, *, after: float) -> Outcome:
    """The report of a remote that could not be asked."""
    stalled = isinstance(error, Stalled)
    return Outcome(
        ready=Verdict("False", error.reason, f"{remote}: {error.message}"),
        stalled=stalled,
        reconciling=not stalled,
        requeue_after=after,
        warns=True,
    )
