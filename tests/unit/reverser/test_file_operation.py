"""Operations from the Git transition, and why one is not written."""

from __future__ import annotations

import pytest

from windlass.reverser import file_operation
from windlass.reverser.file_operation import Operation, PruneMode

ALL = frozenset(file_operation.OPERATIONS)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, "a", "CREATE"),
        ("a", "b", "UPDATE"),
        ("a", "a", None),
        ("a", None, "DELETE"),
        (None, None, None),
    ],
)
def test_operation_is_read_off_the_file(
    before: str | None, after: str | None, expected: Operation | None
) -> None:
    """RUL-7: the state of the file names the operation."""
    assert file_operation.operation_between(before, after) == expected


def test_create_only_mask_keeps_the_first_version() -> None:
    """RUL-7: with CREATE alone later updates and the deletion are masked."""
    mask: frozenset[Operation] = frozenset({"CREATE"})
    assert file_operation.skip_reason("CREATE", mask) is None
    assert file_operation.skip_reason("UPDATE", mask) == "OperationMasked"
    assert file_operation.skip_reason("DELETE", mask) == "OperationMasked"


@pytest.mark.scenario("A96")
@pytest.mark.parametrize(
    ("prune", "observed", "goes"),
    [
        ("Always", True, True),
        ("Always", False, True),
        ("OnEvent", True, True),
        ("OnEvent", False, False),
        ("Never", True, False),
        ("Never", False, False),
    ],
)
def test_prune_decides_which_removals_are_done(
    prune: PruneMode, observed: bool, goes: bool
) -> None:
    """SNP-6: files are written in every mode; a mask that hides the removal comes first."""
    reason = file_operation.skip_reason("DELETE", ALL, prune=prune, observed=observed)
    assert reason == (None if goes else "PruneRetained")
    assert file_operation.skip_reason("UPDATE", ALL, prune=prune, observed=observed) is None
    masked = file_operation.skip_reason(
        "DELETE", frozenset({"CREATE"}), prune=prune, observed=observed
    )
    assert masked == "OperationMasked"


def test_no_transition_is_a_status_change() -> None:
    """5.4: what leaves Git as it is has a reason too."""
    assert file_operation.skip_reason(None, ALL) == "StatusOnly"
