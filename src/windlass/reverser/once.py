"""One complete dump of a cluster into a directory, with the reader's own rights.

The same cleaning, emitter, layout and redaction as the operator's, so that a dump and a
mirror of one cluster hold the same bytes but for the salt of redacted values. A type that
may not be listed is told and left alone; its files stay. A second run over an unchanged
cluster writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from windlass.base.below import Below
from windlass.base.errors import WindlassError
from windlass.kube import discovery
from windlass.kube.api import Api
from windlass.kube.errors import ApiError
from windlass.objects import canonical, yaml_reader
from windlass.objects.gvr import GVR
from windlass.objects.identity import Identity
from windlass.objects.key import Key
from windlass.reverser import catalogue
from windlass.reverser.decide import claim, paths, rules, secrets, snapshot
from windlass.reverser.decide.catalogue import Catalogue
from windlass.reverser.decide.rules import Resolution, Rule, RuleItem, Selection
from windlass.reverser.sighting import Blurred, Lens

DESTINATION = "local/mirror"
_LARGEST_FILE = 4 << 20


@dataclass(frozen=True, slots=True)
class Choice:
    """What to dump; no namespaces means all of them, with the cluster-scoped types."""

    namespaces: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: frozenset[str] = frozenset()
    everything: bool = False
    include_owned: bool = False


@dataclass(slots=True)
class Difference:
    """What a dump changes, or would change."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.created or self.updated or self.removed)

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


def selections(choice: Choice, served: Catalogue) -> list[Selection]:
    """The scopes of a choice: rules as a user could have written them."""
    found: list[Selection] = []
    for namespace in choice.namespaces or ("",):
        kinds: tuple[rules.Reach, ...] = ("Namespaced",) if namespace else ("Namespaced", "Cluster")
        items = tuple(item for kind in kinds for item in _items(choice, kind))
        rule = Rule(
            key=Key(namespace, "mirror"),
            kind="WatchRule" if namespace else "ClusterWatchRule",
            namespace=namespace,
            destination=Key("local", "mirror"),
            items=items,
        )
        resolved: Resolution = rules.resolve(
            rule, served, watch_all=choice.everything, excluded=choice.exclude
        )
        found += resolved.scopes
    return found


def _items(choice: Choice, scope: rules.Reach) -> list[RuleItem]:
    base = RuleItem(include_owned=choice.include_owned, scope=scope)
    if not choice.include:
        named = (RuleItem(resources=("namespaces",), scope=scope),) if choice.everything else ()
        return [base, *named]
    items = []
    for entry in choice.include:
        group, slash, resource = entry.rpartition("/")
        items.append(
            RuleItem(
                api_groups=(group,) if slash else None,
                resources=(resource,),
                include_owned=choice.include_owned,
                scope=scope,
            )
        )
    return items


class Dump:
    """A running dump into `below`; `writes` is off for a dry run."""

    def __init__(
        self,
        api: Api,
        below: Below,
        lens: Lens,
        *,
        salt: bytes,
        cluster_uid: str,
        writes: bool,
        prunes: bool,
        progress: Callable[[str], None],
    ) -> None:
        self._api = api
        self._below = below
        self._lens = lens
        self._salt = salt
        self._claim = claim.Claim(cluster_uid, DESTINATION, canonical.EMITTER)
        self._writes = writes
        self._prunes = prunes
        self._progress = progress
        self.difference = Difference()

    async def run(self, choice: Choice) -> Difference:
        """Dump what `choice` names; FolderClaimed if the directory is somebody else's."""
        await asyncio.to_thread(self._take_claim)
        served = catalogue.decided(await discovery.discover(self._api))
        kinds = {one.gvr: one.kind for one in served.types}
        chosen = selections(choice, served)
        for number, selection in enumerate(chosen, start=1):
            where = f" in {selection.namespace}" if selection.namespace else ""
            self._progress(f"[{number}/{len(chosen)}] {selection.gvr}{where}")
            await self._scope(selection, kinds[selection.gvr])
        return self.difference

    def _take_claim(self) -> None:
        content = self._below.read(claim.FILE_NAME, limit=_LARGEST_FILE)
        found = claim.parse(content) if content is not None else None
        verdict = claim.verdict(found, self._claim, existing_destinations=frozenset())
        if isinstance(verdict, claim.Foreign):
            raise WindlassError("FolderClaimed", verdict.message)
        if self._writes and verdict != claim.Ours(outdated=False):
            self._below.write(claim.FILE_NAME, claim.render(self._claim))

    async def _scope(self, selection: Selection, kind: str) -> None:
        live: set[str] = set()
        try:
            async for page in self._api.pages(selection.gvr, selection.namespace):
                for raw in page.items:
                    live |= await asyncio.to_thread(self._object, selection, kind, raw)
        except ApiError as error:
            self.difference.unread.append(f"{selection.gvr}: {error.message}")
            return
        if self._prunes:
            await asyncio.to_thread(self._prune, selection, kind, live)

    def _object(self, selection: Selection, kind: str, raw: bytes) -> set[str]:
        """Bring one file up to date; the path that is alive because of it."""
        sighting = self._lens.look(selection.gvr, kind, raw)
        if isinstance(sighting, Blurred):
            self.difference.skip("Undecodable")
            return {paths.object_path(sighting.identity)} if sighting.identity else set()
        if sighting.noise is not None:
            self.difference.skip("Noise")
            return set()
        if sighting.controller_owned and not selection.include_owned:
            self.difference.skip("ControllerOwned")
            return set()
        if sighting.terminating:
            self.difference.skip("Terminating")
            return set()
        cleaned = sighting.cleaned
        if secrets.is_sensitive(selection.gvr, self._lens.sensitive):
            cleaned = secrets.redacted(cleaned, sighting.identity, self._salt)
        path = paths.object_path(sighting.identity)
        self._file(path, canonical.emit(cleaned))
        return {path}

    def _file(self, path: str, content: bytes) -> None:
        present = self._below.read(path, limit=_LARGEST_FILE)
        if present == content:
            self.difference.unchanged += 1
            return
        changed = self.difference.created if present is None else self.difference.updated
        changed.append(path)
        if self._writes:
            self._below.write(path, content)

    def _prune(self, selection: Selection, kind: str, live: set[str]) -> None:
        """Remove files of the scope whose object is gone, if they are ours by content."""
        folder = paths.scope_folder("", selection.gvr, selection.namespace).strip("/")
        for path in sorted(set(self._below.files(folder)) - live):
            if self._is_ours(path, selection.gvr, kind):
                self.difference.removed.append(path)
                if self._writes:
                    self._below.remove(path)

    def _is_ours(self, path: str, gvr: GVR, kind: str) -> bool:
        content = self._below.read(path, limit=_LARGEST_FILE)
        try:
            value = yaml_reader.read(content or b"")
        except ValueError:
            return False
        found = snapshot.subject(value) if isinstance(value, dict) else None
        if found is None or found[0].kind != kind:
            return False
        key = found[1]
        return paths.object_path(Identity(gvr, key.namespace, key.name)) == path
