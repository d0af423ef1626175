"""Validating values that were built in the process, without a decoder."""

from __future__ import annotations

from typing import cast, get_type_hints

import pytest

from windlass.api.install import crd
from windlass.api.kinds import registry
from windlass.api.kinds.gitrepoconfig import GitRepoConfigSpec, HostKeyVerification
from windlass.api.kinds.ignitionsync import IgnitionSyncSpec
from windlass.api.kinds.watchrules import RuleSelector, WatchRuleSpec
from windlass.api.schema.kind import Kind
from windlass.api.schema.object_references import CrossNamespaceRef, SecretRef
from windlass.api.schema.validation import FieldError, unknown_fields, validate


def _repo(url: str = "https://h/x", branches: tuple[str, ...] = ("main",)) -> GitRepoConfigSpec:
    return GitRepoConfigSpec(repo_url=url, allowed_branches=branches)


def test_a_good_value_has_no_problems() -> None:
    """Nothing is wrong with a plain repository."""
    assert validate(_repo()) == []


def test_every_problem_is_listed_in_order() -> None:
    """Each with its path."""
    spec = GitRepoConfigSpec(
        repo_url="ssh://git:pw@host/x",
        allowed_branches=("a..b", "ok", "-x"),
        secret_ref=SecretRef(name="UPPER"),
    )
    assert [problem.path for problem in validate(spec)] == [
        "spec.allowedBranches[0]",
        "spec.allowedBranches[2]",
        "spec.secretRef.name",
        "spec.repoUrl",
    ]


def test_bounds() -> None:
    """Empty and overlong texts and lists are reported with their bounds."""
    empty = validate(_repo(branches=()))
    assert empty == [FieldError("spec.allowedBranches", "must have at least 1 entry")]
    long = validate(_repo(url="https://h/" + "x" * 2050))
    assert long == [FieldError("spec.repoUrl", "must have at most 2048 characters")]


def test_duplicates() -> None:
    """A duplicate entry of a set is reported at its second index."""
    (problem,) = validate(_repo(branches=("a", "b", "a")))
    assert problem == FieldError("spec.allowedBranches[2]", "duplicate entry")


def test_a_closing_line_break_is_not_overlooked() -> None:
    """A pattern must match to the end."""
    spec = WatchRuleSpec(destination_ref=CrossNamespaceRef(name="x\n"), rules=(RuleSelector(),))
    (problem,) = validate(spec)
    assert problem.path == "spec.destinationRef.name"


def test_choices() -> None:
    """A value outside an enumeration is reported with the supported ones."""
    wrong = cast("HostKeyVerification", "Off")
    spec = GitRepoConfigSpec(
        repo_url="https://h/x", allowed_branches=("a",), host_key_verification=wrong
    )
    (problem,) = validate(spec)
    assert (
        str(problem) == "spec.hostKeyVerification: unsupported value; supported: Disabled, Strict"
    )


def test_messages_hold_no_value() -> None:
    """No message repeats the value."""
    spec = _repo(url="https://s3cr3t-canary@host/x?y=s3cr3t-canary")
    problems = validate(spec)
    assert len(problems) == 2
    assert all("s3cr3t" not in str(problem) for problem in problems)


def test_fields_that_are_not_declared_are_named() -> None:
    """At any depth, in lists and in maps; a value of another type is refused by the decoder."""
    mapping = {"source": "a", "destination": "b", "patches": [{"set": {".a": "1"}, "fil": "x"}]}
    raw = {
        "git": {"repo": "https://h/x", "ref": "main", "branch": "main"},
        "profiles": {"p": {"mappings": [mapping], "vars": {"any": "name"}}},
        "additionalFiles": "not a list",
        "Paused": True,
    }
    assert sorted(unknown_fields(IgnitionSyncSpec, raw)) == [
        "spec.Paused",
        "spec.git.branch",
        "spec.profiles[p].mappings[0].patches[0].fil",
    ]


@pytest.mark.parametrize("kind", registry.KINDS, ids=lambda kind: kind.name)
def test_a_sample_has_declared_fields_only(kind: Kind) -> None:
    """Samples for users are not refused."""
    assert (
        unknown_fields(get_type_hints(kind.resource)["spec"], crd.sample_manifest(kind)["spec"])
        == []
    )
