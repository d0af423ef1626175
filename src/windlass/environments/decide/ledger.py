"""What must be remembered of an Environment beyond what the cluster shows.

Kept in one ConfigMap inside its namespace, so it comes and goes with it: the inventory of
applied objects, and the wished revision with the moments it began and first was ready.
Text that cannot be read counts as nothing remembered. Then revisions are counted on from the
one that was last reported, and the inventory is put together from what the cluster shows; only
a Secret that is no longer wanted can be missed, because nobody may list those, and it goes with
the namespace.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeVar

import msgspec

from windlass.environments.decide import inventory
from windlass.environments.decide.bundle import Bundle
from windlass.environments.decide.inventory import Entry, Identity, Inventory
from windlass.objects.names import Object

CONFIG_MAP = "windlass-inventory"

_T = TypeVar("_T")

_INVENTORY = "inventory"
_REVISION = "revision"


class Revision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One wished state; `digest` is that of its bundle.

    It is an upgrade if a revision before it was ready, and stays so.
    """

    number: int = 0
    digest: str = ""
    began: datetime | None = None
    ready: datetime | None = None
    is_upgrade: bool = False


class Ledger(msgspec.Struct, frozen=True):
    """Everything remembered of one Environment."""

    inventory: Inventory = ()
    revision: Revision = Revision()


def decoded(config_map: Object | None) -> Ledger:
    """The ledger in its ConfigMap."""
    data = (config_map or {}).get("data") or {}
    return _decoded(str(data.get(_INVENTORY) or ""), str(data.get(_REVISION) or ""))


@functools.lru_cache(maxsize=256)
def _decoded(entries: str, revision: str) -> Ledger:
    """A pass looks at its ledger again and again."""
    return Ledger(tuple(_read(entries, list[Entry]) or ()), _read(revision, Revision) or Revision())


def encoded(ledger: Ledger) -> dict[str, str]:
    """The data of its ConfigMap."""
    return {
        _INVENTORY: msgspec.json.encode(sorted(ledger.inventory)).decode(),
        _REVISION: msgspec.json.encode(ledger.revision).decode(),
    }


def recovered(ledger: Ledger, present: Iterable[Object], owner_uid: str) -> Ledger:
    """A ledger without inventory, with the one that the cluster shows."""
    if ledger.inventory:
        return ledger
    return Ledger(inventory.found(present, owner_uid), ledger.revision)


def begun(ledger: Ledger, bundle: Bundle, now: datetime, *, at_least: int = 0) -> Ledger:
    """Before anything of `bundle` is applied: all of it listed, its revision numbered.

    `at_least` is the newest number that was reported; a ledger that lost count goes on there.
    """
    revision, listed = ledger.revision, ledger.inventory
    if revision.digest != bundle.digest or revision.number < at_least:
        listed = inventory.unfinished(listed, bundle.hooks)
        is_upgrade = revision.is_upgrade or revision.ready is not None
        number = max(revision.number, at_least) + 1
        revision = Revision(number, bundle.digest, _whole_seconds(now), is_upgrade=is_upgrade)
    return Ledger(inventory.widened(listed, bundle), revision)


def begun_again(ledger: Ledger, now: datetime) -> Ledger:
    """The same revision with all of its time before it."""
    revision = msgspec.structs.replace(ledger.revision, began=_whole_seconds(now))
    return Ledger(ledger.inventory, revision)


def hook_ended(ledger: Ledger, live: Object, ended: Mapping[Identity, str]) -> Ledger:
    """After a hook ran to its end: it is done for good in this revision."""
    named = inventory.with_uids(ledger.inventory, (live,))
    return Ledger(inventory.finished(named, ended), ledger.revision)


def applied(ledger: Ledger, present: Iterable[Object], gone: Iterable[Entry]) -> Ledger:
    """After everything was applied and what was stale is gone."""
    named = inventory.with_uids(ledger.inventory, present)
    return Ledger(inventory.without(named, gone), ledger.revision)


def looked_at(
    ledger: Ledger, ended: Mapping[Identity, str], *, is_ready: bool, now: datetime
) -> Ledger:
    """After a look: Jobs that ended are done for good, a first readiness is noted."""
    revision = ledger.revision
    if is_ready and revision.ready is None:
        revision = msgspec.structs.replace(revision, ready=_whole_seconds(now))
    return Ledger(inventory.finished(ledger.inventory, ended), revision)


def _read(text: str, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return None


def _whole_seconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
