"""Selects the files of a commit that a template needs.

| Type | Files |
|---|---|
| manifest | the file at the path, or every YAML and JSON file below it at any depth, but for |
| | those in directories whose names begin with a dot and those that are excluded |
| helm | everything below the path, where Chart.yaml lies, and the files with values |

What is not a plain file is refused by name: it could lead anywhere.

Patterns of `exclude`: `*`, `?` and `[...]` stay within one name, `**` stands for any number of
directories, and a match on a directory covers everything below it. A pattern without `/` matches
the top level only. Matching keeps the set of positions in a pattern that the names so far can
have reached, so its cost is bounded by path times pattern, whatever is written there.

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
    """Compiled patterns; None in one of them is any number of directories."""

    patterns: tuple[tuple[re.Pattern[str] | None, ...], ...]

    def match(self, path: str) -> bool:
        """Whether one of the patterns names `path`, or a directory above it."""
        names = path.split("/")
        return any(_matches(pattern, names) for pattern in self.patterns)


def compile_patterns(patterns: Sequence[str]) -> PathPatterns:
    """Patterns as something to match with."""
    return PathPatterns(tuple(_compile_pattern(pattern) for pattern in patterns))


def _compile_pattern(pattern: str) -> tuple[re.Pattern[str] | None, ...]:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    # Translated by the standard library, a name is matched without backtracking over stars.
    return tuple(
        None if name == _ANY_DEPTH else re.compile(fnmatch.translate(name)) for name in names
    )


def _matches(pattern: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> bool:
    reached = _skip_any_depth(pattern, {0})
    for name in names:
        onward = set()
        for at in reached - {len(pattern)}:
            part = pattern[at]
            if part is None:
                onward.add(at)
            elif part.match(name):
                onward.add(at + 1)
        reached = _skip_any_depth(pattern, onward)
        if onward and len(pattern) in reached:
            return True
    return False


def _skip_any_depth(pattern: Sequence[re.Pattern[str] | None], reached: set[int]) -> set[int]:
    """With the places behind a `**`, which may mean no directory at all."""
    for at in range(min(reached, default=len(pattern)), len(pattern)):
        if at in reached and pattern[at] is None:
            reached.add(at + 1)
    return reached


MOST_FILES = 5000
MOST_DIRECTORIES = 5000
"""A chart is written to disk, where empty directories take room too."""

_CHART = "Chart.yaml"
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
    left_out, below = compile_patterns(exclude), len(directory_prefix(path))
    inside = {
        name: entry
        for name, entry in _files_below(listing, path).items()
        if not _is_hidden(name[below:]) and not left_out.match(name[below:])
    }
    found = {name: entry for name, entry in inside.items() if manifests.is_manifest(name)}
    _check_kustomize(inside)
    if not found:
        raise RenderRefused("RenderFailed", f"no YAML or JSON file lies below {path or 'the root'}")
    return _require_plain_files(found)


def select_chart(listing: Listing, path: str, values_files: Sequence[str]) -> dict[str, Entry]:
    """All files of the chart at `path`, and those with values, wherever they lie."""
    inside = _files_below(listing, path)
    if directory_prefix(path) + _CHART not in inside:
        raise RenderRefused(
            "RenderFailed",
            f"{path or 'the root'} holds no {_CHART}; a template of type helm needs the path of "
            "the directory where it lies",
        )
    absent = next((name for name in values_files if name not in listing), None)
    if absent is not None:
        raise RenderRefused("RenderFailed", f"valuesFiles: {_missing_message(listing, absent)}")
    _check_directories(inside)
    return _require_plain_files({**inside, **{name: listing[name] for name in values_files}})


def directory_prefix(path: str) -> str:
    """What the names of all files below `path` begin with."""
    return f"{path.rstrip('/')}/" if path else ""


def tree_digest(entries: Listing) -> str:
    """What changes with any path and any content, and with nothing else."""
    rows = sorted((path, str(entry.blob)) for path, entry in entries.items())
    return hashlib.sha256(repr(rows).encode("utf-8", "surrogateescape")).hexdigest()


def _check_kustomize(names: Iterable[str]) -> None:
    """A kustomization needs neither apiVersion nor kind; what says so is its name."""
    for name in sorted(names):
        if name.rpartition("/")[2] in _KUSTOMIZATIONS:
            raise RenderRefused("RenderFailed", f"{name}: {manifests.NO_KUSTOMIZE}")


def _is_hidden(name: str) -> bool:
    """Whether a file lies in a directory for tools, such as .github."""
    return any(part.startswith(".") for part in name.split("/")[:-1])


def _files_below(listing: Listing, path: str) -> dict[str, Entry]:
    below = directory_prefix(path)
    inside = {name: entry for name, entry in listing.items() if name.startswith(below)}
    if not inside:
        raise RenderRefused("RenderFailed", _missing_message(listing, path))
    return inside


def _require_plain_files(found: dict[str, Entry]) -> dict[str, Entry]:
    if len(found) > MOST_FILES:
        raise Stalled(
            "SourceTooLarge",
            f"{len(found)} files lie there, at most {MOST_FILES} are read; name a smaller path",
        )
    for name, entry in sorted(found.items()):
        if entry.mode not in _PLAIN_MODES:
            what = _FILE_TYPES.get(entry.mode, "no plain file")
            raise Stalled("UnsafePath", f"{name} is {what}; only plain files are read")
    return found


def _check_directories(found: Listing) -> None:
    seen: set[str] = set()
    for name in found:
        above = name.rpartition("/")[0]
        while above and above not in seen:
            seen.add(above)
            above = above.rpartition("/")[0]
        if len(seen) > MOST_DIRECTORIES:
            raise Stalled(
                "SourceTooLarge",
                f"the chart has more than {MOST_DIRECTORIES} directories; name a smaller path",
            )


def _missing_message(listing: Listing, path: str) -> str:
    if path in listing:
        return f"{path} is a file, not a directory"
    parent = path.rpartition("/")[0]
    inside = directory_prefix(parent)
    beside = sorted(
        {name[len(inside) :].partition("/")[0] for name in listing if name.startswith(inside)}
    )
    where = parent or "the root"
    return f"{path} is not in the commit; {where} holds {', '.join(beside[:20]) or 'nothing'}"
