"""A source with the user's files that it includes, and copies of those that must be rewritten."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ptokit.cxx.launches import rewrite
from ptokit.cxx.repository import is_within
from ptokit.cxx.source_text import masked

MOST_FILES = 500
"""Included files that are looked at."""
LONGEST = 4 * 1024 * 1024
"""Bytes of a source that is read."""


MOST_LOOKUPS = 100_000
"""Names in folders that are looked for. What is not found by then is the compiler's own business."""
_INCLUDE = re.compile(r"^([ \t]*#[ \t]*include[ \t]*)[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
_CORES = re.compile(r"\b__DAV_\w*(?:VEC|CUBE)\w*|\bTM?Pipe\b|\bASCEND_IS_AI[CV]\b")


@dataclass(frozen=True)
class SourceFiles:
    """A source and the user's files that it includes."""

    texts: dict[Path, str]
    """By absolute path; the source is the first one."""
    edges: dict[Path, dict[str, Path]] = field(repr=False)
    """What each file includes: the name it writes, and the file."""
    changed: frozenset[Path] = frozenset()
    """Files whose text is not that on disk."""
    linked: frozenset[Path] = frozenset()
    """Files that are included by a name that is a link, or in a folder that is one."""

    @property
    def asks_for_cores(self) -> bool:
        """Whether the code depends on the core that it is compiled for."""
        return any(_CORES.search(masked(text)) for text in self.texts.values())

    def rewritten(self) -> list[Path]:
        """The files that must be rewritten, and those that include them."""
        found = {path for path, text in self.texts.items() if path in self.changed or rewrite(text) != text}
        while True:
            more = {path for path, names in self.edges.items() if path not in found and found & set(names.values())}
            if not more:
                return [path for path in self.texts if path in found]
            found |= more


class SpecialFileError(ValueError):
    """A file that is no regular one: reading it could wait for ever."""


def read_files(
    source: Path, folders: Sequence[Path], changed: Mapping[Path, str] | None = None, within: Sequence[str] = ()
) -> SourceFiles:
    """The source and the files that it includes from its own folder and from the user's folders. `changed` has texts
    that replace those of files. Files that are not `within` some folders are left out, if there are any."""
    texts: dict[Path, str] = {}
    edges: dict[Path, dict[str, Path]] = {}
    linked = set[Path]()
    left = MOST_LOOKUPS
    waiting = [source.resolve()]
    while waiting and len(texts) < MOST_FILES:
        path = waiting.pop()
        if path in texts:
            continue
        texts[path] = changed[path] if changed and path in changed else _read(path)
        edges[path] = {}
        for name in dict.fromkeys(match[2] for match in _INCLUDE.finditer(texts[path])):
            left -= 1 + len(folders)
            if left < 0:
                break
            found = _found(name, (path.parent, *folders))
            if found is not None and (not within or is_within(found, within)):
                edges[path][name] = found.resolve()
                waiting.append(edges[path][name])
                if os.path.islink(found) or os.path.islink(found.parent):
                    linked.add(edges[path][name])
    return SourceFiles(texts, edges, frozenset(changed or ()), frozenset(linked))


def _found(name: str, folders: Iterable[Path]) -> Path | None:
    """The file that a name means."""
    for folder in folders:
        file = folder / name
        if os.path.isfile(file):
            return file
        if os.path.exists(file) and not os.path.isdir(file):
            raise SpecialFileError(f"{file} is included, and is no regular file")
    return None


def _read(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise SpecialFileError(f"{path} is no regular file")
    with path.open("rb") as file:
        return file.read(LONGEST).decode("utf-8", "replace")


def write_rewritten(files: SourceFiles, folder: Path) -> dict[Path, Path]:
    """Write copies of the files that must be rewritten; the copy of each. They name their originals to the compiler."""
    copies = {path: folder / f"{index}_{path.name}" for index, path in enumerate(files.rewritten())}
    for path, copy in copies.items():
        named = {name: copies[file] for name, file in files.edges[path].items() if file in copies}

        def included(match: re.Match[str], named: dict[str, Path] = named) -> str:
            return f'{match[1]}"{named[match[2]]}"' if match[2] in named else match[0]

        text = _INCLUDE.sub(included, rewrite(files.texts[path]))
        copy.write_text(f"#line 1 {_quoted(path)}\n{text}\n")
    return copies


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
