"""Selects the files of a commit that a template needs.

`renderer` builds a selector from it, `source.commits` calls that with the listing of a commit.

| Type | Files |
|---|---|
| manifest | the file at the path, or every YAML and JSON file below it at any depth, but for |
| | those in directories whose names begin with a dot and those that are excluded |
| helm | everything below the path, where Chart.yaml lies, and the files with values |

An entry that is not a plain file is refused by its path: a link could lead anywhere.

Patterns of `exclude`: `*`, `?` and `[...]` stay within one name, `**` stands for any number of
directories, and a match on a directory covers everything below it. A pattern without `/` matches
the top level only. Matching keeps the set of positions in a pattern that the names so far can
have reached, so its cost is bounded by path times pattern, whatever the pattern is.

Pure.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.base.errors import Stalled
from windlass.environments.render import manifests
from windlass.environments.render.manifests import RenderRefused
from windlass.git.store import Entry

_ANY_DEPTH = "**"


@dataclass(frozen=True, slots=True)
class PathPatterns:
    """Compiled patterns, each a sequence of names; None is any number of directories."""

    patterns: tuple[tuple[re.Pattern[str] | None, ...], ...]

    def match(self, path: str) -> bool:
        """Whether one of the patterns matches `path`, or a directory above it."""
        names = path.split("/")
        return any(_matches(pattern, names) for pattern in self.patterns)


def compile_patterns(patterns: Sequence[str]) -> PathPatterns:
    """Compile the globs of `exclude`."""
    return PathPatterns(tuple(_compile_pattern(pattern) for pattern in patterns))


def _compile_pattern(pattern: str) -> tuple[re.Pattern[str] | None, ...]:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    # Translated by the standard library, a name is matched without backtracking over stars.
    return tuple(
        None if name == _ANY_DEPTH else re.compile(fnmatch.translate(name)) for name in names
    )


def _matches(pattern: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> bool:
    positions = _skip_any_depth(pattern, {0})
    for name in names:
        following = set()
        for position in positions - {len(pattern)}:
            part = pattern[position]
            if part is None:
                following.add(position)
            elif part.match(name):
                following.add(position + 1)
        positions = _skip_any_depth(pattern, following)
        if following and len(pattern) in positions:
            return True
    return False


def _skip_any_depth(pattern: Sequence[re.Pattern[str] | None], positions: set[int]) -> set[int]:
    """Add the positions behind each `**`, which may mean no directory at all."""
    for position in range(min(positions, default=len(pattern)), len(pattern)):
        if position in positions and pattern[position] is None:
            positions.add(position + 1)
    return positions


MOST_FILES = 5000
MOST_DIRECTORIES = 5000
"""A chart is written to disk, where empty directories take room too."""

_CHART = "Chart.yaml"
_ROOT = "the repository root"
_KUSTOMIZATIONS = frozenset({"Kustomization", "kustomization.yaml", "kustomization.yml"})
_PLAIN_MODES = frozenset({0o100644, 0o100755})
_FILE_TYPES = {0o120000: "a symbolic link", 0o160000: "a submodule"}

Listing = Mapping[str, Entry]


def select_manifests(listing: Listing, path: str, exclude: Sequence[str] = ()) -> dict[str, Entry]:
    """The manifests at `path`: the file itself, or those below the directory.

    `exclude` are patterns of paths below `path`.
    """
    if path in listing:
        _check_kustomize({path})
        return _require_plain_files({path: listing[path]})
    excluded, prefix_chars = compile_patterns(exclude), len(directory_prefix(path))
    files = {
        name: entry
        for name, entry in _files_below(listing, path).items()
        if not _is_hidden(name[prefix_chars:]) and not excluded.match(name[prefix_chars:])
    }
    selected = {name: entry for name, entry in files.items() if manifests.is_manifest(name)}
    _check_kustomize(files)
    if not selected:
        raise RenderRefused(
            "RenderFailed",
            f"no YAML or JSON file found below {path or _ROOT}; check path and exclude of the "
            "template",
        )
    return _require_plain_files(selected, alternative=", or add it to exclude of the template")


def select_chart(listing: Listing, path: str, values_files: Sequence[str]) -> dict[str, Entry]:
    """All files of the chart at `path`, and those with values, wherever they lie."""
    files = _files_below(listing, path)
    if directory_prefix(path) + _CHART not in files:
        raise RenderRefused(
            "RenderFailed",
            f"{path or _ROOT} contains no {_CHART}; set path to the directory of the chart",
        )
    missing = next((name for name in values_files if name not in listing), None)
    if missing is not None:
        raise RenderRefused("RenderFailed", f"valuesFiles: {_missing_message(listing, missing)}")
    _check_directories(files)
    return _require_plain_files({**files, **{name: listing[name] for name in values_files}})


def directory_prefix(path: str) -> str:
    """The prefix of the paths of all files below `path`."""
    return f"{path.rstrip('/')}/" if path else ""


def tree_digest(entries: Listing) -> str:
    """Digest of paths and contents."""
    rows = sorted((path, str(entry.blob)) for path, entry in entries.items())
    return hashlib.sha256(repr(rows).encode("utf-8", "surrogateescape")).hexdigest()


def _check_kustomize(names: Iterable[str]) -> None:
    """Refuse a kustomization by its file name: it needs neither apiVersion nor kind."""
    for name in sorted(names):
        if name.rpartition("/")[2] in _KUSTOMIZATIONS:
            raise RenderRefused("RenderFailed", f"{name}: {manifests.NO_KUSTOMIZE}")


def _is_hidden(name: str) -> bool:
    """Whether a file lies in a directory for tools, such as .github."""
    return any(part.startswith(".") for part in name.split("/")[:-1])


def _files_below(listing: Listing, path: str) -> dict[str, Entry]:
    prefix = directory_prefix(path)
    files = {name: entry for name, entry in listing.items() if name.startswith(prefix)}
    if not files:
        raise RenderRefused("RenderFailed", _missing_message(listing, path))
    return files


def _require_plain_files(files: dict[str, Entry], *, alternative: str = "") -> dict[str, Entry]:
    """`files`, unless one of them is not a plain file; `alternative` is another remedy."""
    if len(files) > MOST_FILES:
        raise Stalled(
            "SourceTooLarge",
            f"{len(files)} files found, at most {MOST_FILES} are allowed; use a smaller path",
        )
    for name, entry in sorted(files.items()):
        if entry.mode not in _PLAIN_MODES:
            what = _FILE_TYPES.get(entry.mode, "not a regular file")
            raise Stalled("UnsafePath", f"{name} is {what}; replace it with a file{alternative}")
    return files


def _check_directories(files: Listing) -> None:
    directories: set[str] = set()
    for name in files:
        directory = name.rpartition("/")[0]
        while directory and directory not in directories:
            directories.add(directory)
            directory = directory.rpartition("/")[0]
        if len(directories) > MOST_DIRECTORIES:
            raise Stalled(
                "SourceTooLarge",
                f"the chart has more than {MOST_DIRECTORIES} directories; use a smaller path",
            )


def _missing_message(listing: Listing, path: str) -> str:
    if path in listing:
        return f"{path} is a file, not a directory"
    parent = path.rpartition("/")[0]
    prefix = directory_prefix(parent)
    siblings = sorted(
        {name[len(prefix) :].partition("/")[0] for name in listing if name.startswith(prefix)}
    )
    where = parent or _ROOT
    return (
        f"{path} not found in the commit; {where} contains {', '.join(siblings[:20]) or 'nothing'}"
    )
