"""One complete dump of a cluster into a local directory, with the rights of the caller.

Run by `windlass mirror`. Sanitizing, emitter, layout and redaction are the operator's, so a dump
and a mirror of one cluster hold the same bytes but for the salt of redacted values. The same
rules hold: a type that may not be listed is reported and its files stay, a file is removed only
after a complete list and only if it is ours, an empty list must be confirmed object by object,
and files from before our claim stay. A second run over an unchanged cluster writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from windlass.base.errors import WindlassError
from windlass.base.safe_directory import SafeDirectory
from windlass.kube import discovery
from windlass.kube.api import Api
from windlass.kube.discovery import ApiTypes
from windlass.kube.errors import ApiError
from windlass.objects import yaml_emitter
from windlass.objects.names import Identity, Key
from windlass.reverser.content import file_paths
from windlass.reverser.content.clean_object import CleanObject, ObjectReader, UnreadableLiveObject
from windlass.reverser.publish import batch_builder, folder_claim, path_ownership
from windlass.reverser.selection import rules
from windlass.reverser.selection.rules import RuleItem, RuleResolution, SelectedScope, SelectionRule
from windlass.telemetry.reasons import SkipReason

DESTINATION = "local/mirror"
"""The destination that the claim of a dump names."""

_MAX_FILE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class DumpSelection:
    """Scopes and types of a dump, from the flags of the command line.

    No namespaces means all of them, with the cluster-scoped types; no `include` means the preset
    of rules, or every type with `watch_all`.
    """

    namespaces: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: frozenset[str] = frozenset()
    watch_all: bool = False
    include_owned: bool = False


@dataclass(slots=True)
class DumpDiff:
    """What a dump changes, or would change."""

    created: list[str] = field(default_factory=list)
    """Paths of new files, relative to the directory."""
    updated: list[str] = field(default_factory=list)
    """Paths of files with other content."""
    removed: list[str] = field(default_factory=list)
    """Paths of files whose object is gone."""
    unchanged: int = 0
    """Files that are up to date already."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Objects that are not dumped, counted by skip reason."""
    unreadable: list[str] = field(default_factory=list)
    """Types that could not be listed completely, each with the cause."""

    def __bool__(self) -> bool:
        return bool(self.created or self.updated or self.removed)

    def add_skip(self, reason: SkipReason) -> None:
        """Count an object that is not dumped."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


def select_scopes(selection: DumpSelection, catalog: ApiTypes) -> list[SelectedScope]:
    """The scopes of a selection, resolved as if a user had written it as rules."""
    scopes: list[SelectedScope] = []
    for namespace in selection.namespaces or ("",):
        kinds: tuple[rules.TypeScope, ...] = (
            ("Namespaced",) if namespace else ("Namespaced", "Cluster")
        )
        items = tuple(item for kind in kinds for item in _rule_items(selection, kind))
        rule = SelectionRule(
            key=Key(namespace, "mirror"),
            kind="WatchRule" if namespace else "ClusterWatchRule",
            namespace=namespace,
            destination=Key("local", "mirror"),
            items=items,
        )
        resolved: RuleResolution = rules.resolve(
            rule, catalog, watch_all=selection.watch_all, excluded=selection.exclude
        )
        scopes += resolved.scopes
    return scopes


def _refuse_unknown(selection: DumpSelection, scopes: list[SelectedScope]) -> None:
    """Raise NotServed for an included type without a scope: a typo must not give an empty dump."""
    known = {name for scope in scopes for name in (scope.gvr.resource, _qualified_name(scope))}
    unknown = [entry for entry in selection.include if entry.lower() not in known]
    if unknown:
        namespaced = "namespaced " if selection.namespaces else ""
        raise WindlassError(
            "NotServed",
            f"--include {unknown[0]}: the cluster serves no such {namespaced}type that can be "
            "mirrored; use [group/]resource as in `kubectl api-resources`",
        )


def _qualified_name(scope: SelectedScope) -> str:
    return f"{scope.gvr.group}/{scope.gvr.resource}"


def _rule_items(selection: DumpSelection, scope: rules.TypeScope) -> list[RuleItem]:
    base = RuleItem(include_owned=selection.include_owned, scope=scope)
    if not selection.include:
        named = (RuleItem(resources=("namespaces",), scope=scope),) if selection.watch_all else ()
        return [base, *named]
    items = []
    for entry in selection.include:
        group, slash, resource = entry.rpartition("/")
        items.append(
            RuleItem(
                api_groups=(group,) if slash else None,
                resources=(resource,),
                include_owned=selection.include_owned,
                scope=scope,
            )
        )
    return items


@dataclass(slots=True)
class _ScopeListing:
    """What the list of one scope contained."""

    items: int = 0
    live: set[str] = field(default_factory=set)  # paths of objects that exist
    nameless: bool = False  # an object without a name: no path can be proven to be an orphan


class Dump:
    """One dump into `directory`; without `writes` it only computes the difference."""

    def __init__(
        self,
        api: Api,
        directory: SafeDirectory,
        object_reader: ObjectReader,
        *,
        salt: bytes,
        cluster_uid: str,
        writes: bool,
        prunes: bool,
        progress: Callable[[str], None],
    ) -> None:
        self._api = api
        self._directory = directory
        self._object_reader = object_reader
        self._salt = salt
        self._claim = folder_claim.FolderClaim(cluster_uid, DESTINATION, yaml_emitter.EMITTER)
        self._writes = writes
        self._prunes = prunes
        self._progress = progress
        # The directory had our claim, or one that we take over; else nothing is removed.
        self._claimed = False
        # Grows while the dump runs; returned by `run`.
        self.difference = DumpDiff()

    async def run(self, selection: DumpSelection) -> DumpDiff:
        """Dump `selection`; raises FolderClaimed if the directory has a foreign claim."""
        catalog = await discovery.discover(self._api)
        kinds = {type_.gvr: type_.kind for type_ in catalog.types}
        scopes = select_scopes(selection, catalog)
        _refuse_unknown(selection, scopes)
        await asyncio.to_thread(self._check_claim)
        for number, scope in enumerate(scopes, start=1):
            where = f" in {scope.namespace}" if scope.namespace else ""
            self._progress(f"[{number}/{len(scopes)}] {scope.gvr}{where}")
            await self._dump_scope(scope, kinds[scope.gvr])
        return self.difference

    def _check_claim(self) -> None:
        """Refuse a directory with a foreign claim; write our own where there is none."""
        content = self._directory.read(folder_claim.FILE_NAME, limit=_MAX_FILE_BYTES)
        try:
            existing = folder_claim.parse_claim(content) if content is not None else None
        except folder_claim.ClaimUnreadable as error:
            text = f"{error}; delete the file if the directory may be used"
            raise WindlassError("FolderClaimed", text) from error
        verdict = folder_claim.judge_claim(existing, self._claim, existing_destinations=frozenset())
        if existing is not None and isinstance(verdict, folder_claim.ForeignClaim):
            text = f"directory is claimed by {existing.holder}; choose another directory"
            raise WindlassError("FolderClaimed", text)
        self._claimed = not isinstance(verdict, folder_claim.Unclaimed)
        if self._writes and verdict != folder_claim.OwnClaim(outdated=False):
            self._directory.write(folder_claim.FILE_NAME, folder_claim.render_claim(self._claim))

    async def _dump_scope(self, scope: SelectedScope, kind: str) -> None:
        """List one scope and write its files; prune only after a complete list."""
        listing = _ScopeListing()
        try:
            async for page in self._api.pages(scope.gvr, scope.namespace):
                for raw in page.items:
                    await asyncio.to_thread(self._dump_object, scope, kind, raw, listing)
        except ApiError as error:
            self.difference.unreadable.append(f"{scope.gvr}: {error.message}")
            return
        if listing.nameless:
            self.difference.unreadable.append(f"{scope.gvr}: an object has no readable name")
        elif self._prunes and self._claimed:
            await self._prune(scope, kind, listing)

    def _dump_object(
        self, scope: SelectedScope, kind: str, raw: bytes, listing: _ScopeListing
    ) -> None:
        """Write the file of one object and note its path as live."""
        listing.items += 1
        clean = self._object_reader.read(scope.gvr, kind, raw)
        if isinstance(clean, UnreadableLiveObject):
            self.difference.add_skip(SkipReason.UNDECODABLE)
            if clean.identity is None:
                listing.nameless = True
            else:
                # The object exists, so its file stays as it is.
                listing.live.add(file_paths.object_path(clean.identity))
            return
        reason = clean.skip_reason(include_owned=scope.include_owned)
        if reason is None and clean.is_terminating:
            reason = SkipReason.TERMINATING
        if reason is not None:
            self.difference.add_skip(reason)
            return
        path = file_paths.object_path(clean.identity)
        listing.live.add(path)
        self._write_file(path, clean, kind)

    def _write_file(self, path: str, clean: CleanObject, kind: str) -> None:
        content = self._object_reader.file_content(clean, self._salt)
        try:
            present = self._directory.read(path, limit=_MAX_FILE_BYTES)
        except IsADirectoryError:
            self.difference.add_skip(SkipReason.PATH_OCCUPIED)
            return
        if present == content:
            self.difference.unchanged += 1
            return
        foreign = present is not None and not path_ownership.holds_identity(
            path_ownership.parse_file(present), clean.identity, kind
        )
        if foreign and not self._claimed:
            self.difference.add_skip(SkipReason.PATH_OCCUPIED)
            return
        changed = self.difference.created if present is None else self.difference.updated
        changed.append(path)
        if self._writes:
            self._directory.write(path, content)

    async def _prune(self, scope: SelectedScope, kind: str, listing: _ScopeListing) -> None:
        """Remove files of the scope whose object is gone, if they are ours by content."""
        orphaned = await asyncio.to_thread(self._find_orphans, scope, kind, listing.live)
        for path, identity in orphaned.items():
            # An empty list alone proves no deletion (SNP-4).
            if listing.items == 0 and not await self._confirm_deleted(identity):
                continue
            self.difference.removed.append(path)
            if self._writes:
                await asyncio.to_thread(self._directory.remove, path)

    def _find_orphans(self, scope: SelectedScope, kind: str, live: set[str]) -> dict[str, Identity]:
        folder = file_paths.scope_folder("", scope.gvr, scope.namespace).strip("/")
        candidates = path_ownership.orphan_candidates(self._directory.files(folder), live)
        contents = {
            path: path_ownership.parse_file(self._directory.read(path, limit=_MAX_FILE_BYTES))
            for path in candidates
        }
        return path_ownership.own_files(contents, scope.gvr, kind, base_folder="")

    async def _confirm_deleted(self, identity: Identity) -> bool:
        await asyncio.sleep(batch_builder.CONFIRM_INTERVAL_SECONDS)
        return await self._api.is_deleted(identity)
