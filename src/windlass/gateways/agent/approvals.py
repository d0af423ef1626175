"""What the annotation allow-mass-delete approves, and what a person was asked before (APP-9).

The annotation names a commit. It may have been set for another gateway or another routing, or stay
from long ago, so the name alone approves little:

| the annotation | more files than safety allows | adopted files |
|---|---|---|
| does not name the commit | held | kept, and asked about |
| names it, first seen under this routing | deleted | those that were asked about are deleted |
| names it, first seen under another routing | held | kept |

`DeleteApproval` is the annotation with the routing that was in force when it was first seen; it
ends when the annotation no longer names that commit. `DeleteRequest` is the question: which adopted
files one commit under one routing would delete. It was asked once it is published while no
annotation names the commit: one that is set later can only be an answer. Both are part of
the durable state: without them, as on a new volume, nobody was asked.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import structs

from windlass.gateways.tree import deletes
from windlass.gateways.tree.deletes import DeleteAllowance


class DeleteApproval(msgspec.Struct, frozen=True, rename="camel"):
    """An annotation that approves the deletions of a commit."""

    commit: str
    routing_hash: str  # in force when the annotation was first seen


class DeleteRequest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The adopted files that were kept because nobody has approved their deletion."""

    commit: str  # that the approval has to name
    routing_hash: str  # of the plan that kept them
    files: tuple[str, ...] = ()  # sorted
    is_published: bool = False  # reported while no annotation named the commit

    def is_for(self, commit: str, routing_hash: str) -> bool:
        return (self.commit, self.routing_hash) == (commit, routing_hash)


def approval_in_force(
    known: DeleteApproval | None, annotated: Collection[str], commit: str, routing_hash: str
) -> DeleteApproval | None:
    """The approval by the `annotated` commits, for the desired commit and routing.

    One that is `known` stays what it is for as long as the annotation names its commit.
    """
    if commit in annotated and (known is None or known.commit != commit):
        return DeleteApproval(commit, routing_hash)
    return known if known is not None and known.commit in annotated else None


def allowance(
    approval: DeleteApproval | None, request: DeleteRequest | None
) -> DeleteAllowance | None:
    """What a sync may delete; of adopted files only those that were asked about."""
    if approval is None:
        return None
    commit, routing_hash = approval.commit, approval.routing_hash
    is_answer = (
        request is not None and request.is_published and request.is_for(commit, routing_hash)
    )
    files = request.files if request is not None and is_answer else ()
    return DeleteAllowance(commit, routing_hash, frozenset(files))


def is_granted(approval: DeleteApproval | None, request: DeleteRequest | None) -> bool:
    """Whether a sync may delete files of `request` now."""
    allowed = allowance(approval, request)
    return allowed is not None and bool(allowed.adopted)


def is_early(approval: DeleteApproval | None, request: DeleteRequest) -> bool:
    """Whether the annotation names the commit, so that setting it is no answer to `request`."""
    return approval is not None and approval.commit == request.commit


def needs_publication(approval: DeleteApproval | None, request: DeleteRequest | None) -> bool:
    """Whether publishing `request` now means that a person was asked."""
    if request is None or request.is_published or not request.files:
        return False
    return not is_early(approval, request)


def published(request: DeleteRequest) -> DeleteRequest:
    """`request` once a person was asked."""
    return structs.replace(request, is_published=True)


def message(approval: DeleteApproval | None, request: DeleteRequest | None) -> str:
    """The question to publish; empty if there is none."""
    if request is None or not request.files:
        return ""
    return deletes.confirmation_warning(
        request.files, commit=request.commit, is_early=is_early(approval, request)
    )
