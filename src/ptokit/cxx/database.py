"""Compile databases: the options that a build system gives to the compiler of a source."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ptokit.brief import brief
from ptokit.cxx.repository import is_within, repository_of, system_folders
from ptokit.target import compiler_of, families_in_cpp

NAME = "compile_commands.json"
LARGEST = 32 << 20
"""Bytes of a database that is read."""
MOST_ROWS = 100_000
"""Rows of files with the name of the source that are looked at."""
LONGEST_PATH = 4096
"""Characters of a folder."""
MOST_CHARACTERS = 128 * 1024
"""Of a command: systems start no process with much more."""
PATH_OPTIONS = ("-I", "-isystem", "-iquote", "-idirafter", "-include")
"""Options that are followed by a path."""
MACRO_OPTIONS = ("-D", "-U")


@dataclass(frozen=True)
class DatabaseEntry:
    """What a database says of one source."""

    flags: tuple[str, ...] = ()
    """Include paths, macros and the C++ standard; paths are absolute."""
    target: str | None = None
    core: str | None = None
    """`vector` or `cube`, if the source is compiled for one core."""
    left_out: tuple[str, ...] = ()
    """Paths that are neither of the repository nor of the system."""


class DatabaseError(ValueError):
    """A database that cannot be read, or does not list the source."""


class CommandError(DatabaseError):
    """The command of the source cannot be used."""


def find_database(source: Path) -> Path | None:
    """The database in the folder of the source, in one above it up to the root of the repository, or in its `build`
    folder. One of another user does not count."""
    root = repository_of(source)
    for folder in source.resolve().parents:
        for place in (folder / NAME, folder / "build" / NAME):
            if place.is_file() and place.stat().st_uid in (os.getuid(), 0):
                return place
        if folder == root:
            break
    return None


def database_entry(source: Path, database: Path | None = None) -> DatabaseEntry:
    """The entry of a source in a database. A database that is named must list the source; else one is searched for."""
    if database is not None:
        return read_database(database, source)
    found = find_database(source)
    try:
        return DatabaseEntry() if found is None else read_database(found, source, trusted=False)
    except CommandError:
        raise
    except DatabaseError:
        return DatabaseEntry()  # of other sources


def read_database(database: Path, source: Path, *, trusted: bool = True) -> DatabaseEntry:
    """The options for a source; raises `DatabaseError`. Of one that is not `trusted`, paths outside of the repository
    and the system are left out."""
    file = Path(os.path.realpath(database / NAME if database.is_dir() else database))  # relative folders start there
    try:
        about = file.stat()
        if about.st_size > LARGEST or not file.is_file():
            raise DatabaseError(f"{file} is no regular file of at most {LARGEST:,} bytes")
        rows, count = _rows(file, (about.st_mtime_ns, about.st_size), frozenset((source.name, source.resolve().name)))
    except (OSError, ValueError, RecursionError) as problem:
        if isinstance(problem, DatabaseError):
            raise
        raise DatabaseError(f"{file} cannot be read: {problem}") from None
    for row in rows[:MOST_ROWS]:
        folder = os.path.join(file.parent, str(row.get("directory", ".")))
        if _is_same(os.path.join(folder, row["file"]), source):
            within = None if trusted else [repository_of(source), *system_folders()]
            return _entry(_words(row, file), Path(folder), within)
    raise DatabaseError(f"{file} does not list {source}; it lists {count} sources")


def _is_same(place: str, source: Path) -> bool:
    """Whether two paths lead to the same file."""
    try:
        return os.path.samefile(place, source)
    except (OSError, ValueError):  # a name that no file can have
        return False


@lru_cache(maxsize=4)
def _rows(file: Path, _state: tuple[int, int], names: frozenset[str]) -> tuple[list[dict[str, Any]], int]:
    """The rows of files with some names, and how many rows there are."""

    def kept(row: dict[str, Any]) -> dict[str, Any] | None:
        name = row.get("file")
        return row if isinstance(name, str) and os.path.basename(name) in names else None

    rows: list[Any] = json.loads(file.read_text("utf-8"), object_hook=kept)
    if type(rows) is not list:
        raise DatabaseError(f"{file} must be a list of objects")
    return [row for row in rows if isinstance(row, dict)], len(rows)


def _words(row: dict[str, Any], file: Path) -> list[str]:
    arguments, command = row.get("arguments"), str(row.get("command", ""))
    words = list(map(str, cast("list[Any]", arguments))) if isinstance(arguments, list) else []
    about = f"{file}: the command of {brief(row.get('file'))}"
    if len(str(row.get("directory", ""))) > LONGEST_PATH:
        raise CommandError(f"{about} has a directory of more than {LONGEST_PATH:,} characters")
    if max(sum(map(len, words)), len(command)) > MOST_CHARACTERS:
        raise CommandError(f"{about} has more than {MOST_CHARACTERS:,} characters")
    try:
        words = words or shlex.split(command)
    except ValueError as problem:
        raise CommandError(f"{about} cannot be read: {problem}") from None
    if wrong := [word for word in words if not is_passable(word)]:
        raise CommandError(f"{about} has a word that no process can take: {brief(wrong[0])}")
    return words


def is_passable(word: str) -> bool:
    """Whether a word can be an argument of a process, or the name of a file."""
    try:
        return b"\0" not in os.fsencode(word)
    except UnicodeEncodeError:
        return False


def options_of(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The options of a compiler with the path or the macro that each has, or that follows it; other words with
    nothing, as `-include-pch`."""
    left = iter(words)
    for word in left:
        fits = (known for known in (*PATH_OPTIONS, *MACRO_OPTIONS) if word.startswith(known))
        option = next((known for known in fits if word[len(known) :][:1] != "-"), "")
        yield (option, word[len(option) :] or next(left, "")) if option else (word, "")


def _entry(words: list[str], folder: Path, within: list[str | Path] | None) -> DatabaseEntry:
    arch = next(
        (match for word in words if (match := re.fullmatch(r"--cce-aicore-arch=dav-c(\d+)(-\w+)?", word))), None
    )
    number = int(arch[1]) if arch else None
    target = next((name for name in families_in_cpp() if (known := compiler_of(name)) and known.aicore == number), None)
    core = {"-vec": "vector", "-cube": "cube"}.get(arch[2] or "") if arch else None
    left_out: list[str] = []
    return DatabaseEntry(tuple(_kept(words, folder, within, left_out)), target, core, tuple(left_out))


def _kept(words: list[str], folder: Path, within: list[str | Path] | None, left_out: list[str]) -> Iterator[str]:
    """The options that matter to any compiler."""
    for option, value in options_of(word for word in words[1:] if word != "-Xclang"):
        if option in PATH_OPTIONS:
            path = os.path.realpath(folder / value)
            if within is None or is_within(Path(path), within):
                yield from (option, path)
            else:
                left_out.append(path)
        elif option in MACRO_OPTIONS or option.startswith(("-std=", "--std=")):
            yield option + value
