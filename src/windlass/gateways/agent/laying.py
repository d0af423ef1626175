"""The layout of the commit that was asked for last, and from it that of the next one.

A gateway's routing rarely changes and a commit changes few files, so the layout is kept and
brought up to the next commit by the difference of their trees. It is a shortcut only:
whatever does not fit, and the first commit of a process, is laid out from the whole listing.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.gateways.decide import layout as layouts
from windlass.gateways.decide import renewal
from windlass.gateways.decide.layout import Layout
from windlass.gateways.decide.policing import Caps
from windlass.gateways.decide.renewal import Foundation
from windlass.gateways.decide.selection import Selection
from windlass.git.commit_store import CommitStore


@dataclass(frozen=True, slots=True)
class _LaidOut:
    commit: str
    basis: Foundation
    layout: Layout


class Laying:
    """Layouts of the commits in one store; reads the disk and belongs in a thread."""

    def __init__(self, store: CommitStore) -> None:
        self._store = store
        self._last: _LaidOut | None = None

    def layout(self, commit: str, selection: Selection, caps: Caps) -> Layout:
        """The layout of `commit` for the gateway that `selection` speaks of."""
        basis = renewal.foundation(selection, caps)
        last, self._last = self._last, None
        layout = self._renewed(last, commit, basis) if last is not None else None
        del last
        if layout is None:
            layout = layouts.of_selection(self._store.listing(commit), selection, caps)
        self._last = _LaidOut(commit, basis, layout)
        return layout

    def _renewed(self, last: _LaidOut, commit: str, basis: Foundation) -> Layout | None:
        if last.basis != basis or self._store.missing([last.commit]):
            return None
        return renewal.renewed(last.layout, basis, self._store.diff(last.commit, commit))
