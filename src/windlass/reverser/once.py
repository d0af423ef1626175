"""One complete dump of a cluster into a directory, with the reader's own rights.

The same cleaning, emitter, layout and redaction as the operator's, so that a dump and a
mirror of one cluster hold the same bytes but for the salt of redacted values. What holds
there holds here: a type that may not be listed is told and left alone, a file goes only
after a complete list and only if it is ours, an empty list must be confirmed object by
object, and what stood there before our claim stays. A second run over an unchanged cluster
writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from windlass.base.errors import WindlassError
from windlass.base.safe_directory import SafeDirectory
from windlass.kube import discovery
from windlass.kube.api import Api
from windlass.kube.errors import ApiError
from windlass.objects import yaml_emitter, yaml_reader
from windlass.objects.names import Identity, Key, Object
from windlass.reverser import absence, catalogue
from windlass.reverser.decide import claim, paths, rules, snapshot
from windlass.reverser.decide.catalogue import Catalogue
from windlass.reverser.decide.rules import Resolution, Rule, RuleItem, Selection
from windlass.reverser.sighting import Blurred, Lens, Sighting
from windlass.telemetry.reasons import SkipReason

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

    def skip(self, reason: SkipReason) -> None:
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


def _refuse_unknown(choice: Choice, chosen: list[Selection]) -> None:
    """A type that somebody names and that cannot be dumped is a mistake, not an empty dump."""
    found = {name for one in chosen for name in (one.gvr.resource, _name(one))}
    unknown = [entry for entry in choice.include if entry.lower() not in found]
    if unknown:
        where = " with a namespace" if choice.namespaces else ""
        raise WindlassError(
            "NotServed",
            f"--include {unknown[0]}: no such type{where} can be mirrored from this cluster; "
            "say [group/]resource as in `kubectl api-resources`",
        )


def _name(one: Selection) -> str:
    return f"{one.gvr.group}/{one.gvr.resource}"


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


@dataclass(slots=True)
class _Seen:
    """What the list of one scope held."""

    items: int = 0
    live: set[str] = field(default_factory=set)
    nameless: bool = False


class Dump:
    """A running dump into `below`; `writes` is off for a dry run."""

    def __init__(
        self,
        api: Api,
        below: SafeDirectory,
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
        self._claim = claim.Claim(cluster_uid, DESTINATION, yaml_emitter.EMITTER)
        self._writes = writes
        self._prunes = prunes
        self._progress = progress
        self._claimed = False
        self.difference = Difference()

    async def run(self, choice: Choice) -> Difference:
        """Dump what `choice` names; FolderClaimed if the directory is somebody else's."""
        served = catalogue.decided(await discovery.discover(self._api))
        kinds = {one.gvr: one.kind for one in served.types}
        chosen = selections(choice, served)
        _refuse_unknown(choice, chosen)
        await asyncio.to_thread(self._take_claim)
        for number, selection in enumerate(chosen, start=1):
            where = f" in {selection.namespace}" if selection.namespace else ""
            self._progress(f"[{number}/{len(chosen)}] {selection.gvr}{where}")
            await self._scope(selection, kinds[selection.gvr])
        return self.difference

    def _take_claim(self) -> None:
        content = self._below.read(claim.FILE_NAME, limit=_LARGEST_FILE)
        try:
            found = claim.parse(content) if content is not None else None
        except claim.ClaimUnreadable as error:
            text = f"{error}; remove the file if the directory may be used"
            raise WindlassError("FolderClaimed", text) from error
        verdict = claim.verdict(found, self._claim, existing_destinations=frozenset())
        if isinstance(verdict, claim.Foreign):
            raise WindlassError("FolderClaimed", verdict.message)
        self._claimed = not isinstance(verdict, claim.Absent)
        if self._writes and verdict != claim.Ours(outdated=False):
            self._below.write(claim.FILE_NAME, claim.render(self._claim))

    async def _scope(self, selection: Selection, kind: str) -> None:
        seen = _Seen()
        try:
            async for page in self._api.pages(selection.gvr, selection.namespace):
                for raw in page.items:
                    await asyncio.to_thread(self._object, selection, kind, raw, seen)
        except ApiError as error:
            self.difference.unread.append(f"{selection.gvr}: {error.message}")
            return
        if seen.nameless:
            self.difference.unread.append(f"{selection.gvr}: an object without a readable name")
        elif self._prunes and self._claimed:
            await self._prune(selection, kind, seen)

    def _object(self, selection: Selection, kind: str, raw: bytes, seen: _Seen) -> None:
        """Bring one file up to date, and note which path is alive because of it."""
        seen.items += 1
        sighting = self._lens.look(selection.gvr, kind, raw)
        if isinstance(sighting, Blurred):
            self.difference.skip(SkipReason.UNDECODABLE)
            if sighting.identity is None:
                seen.nameless = True
            else:
                seen.live.add(paths.object_path(sighting.identity))
            return
        reason = sighting.unwanted(include_owned=selection.include_owned)
        if reason is None and sighting.terminating:
            reason = SkipReason.TERMINATING
        if reason is not None:
            self.difference.skip(reason)
            return
        path = paths.object_path(sighting.identity)
        seen.live.add(path)
        self._file(path, sighting, kind)

    def _file(self, path: str, sighting: Sighting, kind: str) -> None:
        identity = sighting.identity
        content = yaml_emitter.emit(self._lens.protected(sighting.cleaned, identity, self._salt))
        try:
            present = self._below.read(path, limit=_LARGEST_FILE)
        except IsADirectoryError:
            self.difference.skip(SkipReason.PATH_OCCUPIED)
            return
        if present == content:
            self.difference.unchanged += 1
            return
        foreign = present is not None and not snapshot.same_identity(_read(present), identity, kind)
        if foreign and not self._claimed:
            self.difference.skip(SkipReason.PATH_OCCUPIED)
            return
        changed = self.difference.created if present is None else self.difference.updated
        changed.append(path)
        if self._writes:
            self._below.write(path, content)

    async def _prune(self, selection: Selection, kind: str, seen: _Seen) -> None:
        """Remove files of the scope whose object is gone, if they are ours by content."""
        orphans = await asyncio.to_thread(self._orphans, selection, kind, seen.live)
        for path, identity in orphans.items():
            if seen.items == 0 and not await self._gone(identity):
                continue
            self.difference.removed.append(path)
            if self._writes:
                await asyncio.to_thread(self._below.remove, path)

    def _orphans(self, selection: Selection, kind: str, live: set[str]) -> dict[str, Identity]:
        gvr, found = selection.gvr, {}
        folder = paths.scope_folder("", gvr, selection.namespace).strip("/")
        for path in sorted(set(self._below.files(folder)) - live):
            content = _read(self._below.read(path, limit=_LARGEST_FILE))
            identity = snapshot.owner(content, gvr, kind)
            if identity is not None and paths.object_path(identity) == path:
                found[path] = identity
        return found

    async def _gone(self, identity: Identity) -> bool:
        await asyncio.sleep(absence.QUESTION_SECONDS)
        return await absence.proven(self._api, identity)


def _read(content: bytes | None) -> Object | None:
    try:
        value = yaml_reader.read(content or b"")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
