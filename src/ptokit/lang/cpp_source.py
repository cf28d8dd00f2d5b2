"""C++ sources with their builds: compiled once for each target, and what a compiler says of them."""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ptokit.cxx.child import RecordLimits
from ptokit.cxx.compile import (
    UNSEEN,
    Build,
    CompileError,
    CompileOptions,
    NoCompilerError,
    compile_source,
    shown_texts,
)
from ptokit.cxx.database import database_entry
from ptokit.cxx.names_in_source import SourceTexts
from ptokit.cxx.problems import OWN_CODE
from ptokit.engine.llvm import store
from ptokit.finding import Finding, VerifyError, Where
from ptokit.target import families_in_cpp

PLACE = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d{1,10}):(?:(?P<column>\d{1,10}):)? (?:fatal )?error: (?P<message>[^\n]*)", re.M
)


def compile_findings(error: CompileError, target: str, texts: SourceTexts) -> tuple[Finding, ...]:
    """A compiler's first errors as findings."""
    found = [
        Finding("error", OWN_CODE, f"the compiler refuses the source: {match['message']}", target=target,
                fix=error.fix if UNSEEN.search(match["message"]) else "",
                where=_place(texts, match["file"], int(match["line"]), int(match["column"] or 0)))
        for match in PLACE.finditer(str(error))
    ]  # fmt: skip
    return tuple(found[:3]) or (Finding("error", OWN_CODE, str(error), fix=error.fix, target=target),)


def _place(texts: SourceTexts, file: str, line: int, byte: int) -> Where:
    return Where(texts.name(file), line, texts.column(file, line, byte) or None)


class LibrariesOnDisk:
    """Compiled libraries in the cache of machine code."""

    def load(self, key: str) -> bytes | None:
        """The library of a key; None if there is none."""
        found = store.load(key)
        return found.code if found is not None and found.facts == KIND else None

    def save(self, key: str, library: bytes) -> None:
        """Keep a library, if possible."""
        store.save(key, store.Entry(KIND, library))


KIND = {"kind": "C++ library"}
LIBRARIES = LibrariesOnDisk()


class CppSource:
    """A C++ source with its builds, one for each target."""

    def __init__(self, file: str, options: CompileOptions, limits: RecordLimits | None = None) -> None:
        self.file, self.options, self.limits = file, options, limits or RecordLimits()
        self._builds: dict[str, Build] = {}
        self.texts = shown_texts(Path(file), options)

    def build(self, target: str) -> Build:
        """The source compiled for a target. Raises VerifyError; ImportError if there is no compiler."""
        if target not in self._builds:
            try:
                self._builds[target] = build = compile_source(Path(self.file), target, self.options, kept=LIBRARIES)
            except NoCompilerError as error:
                raise ImportError(str(error)) from None
            except CompileError as error:
                raise VerifyError(compile_findings(error, target, self.texts)) from error
            weakref.finalize(self, build.close)
        return self._builds[target]

    def first_build(self, target: str = "") -> Build:
        """The build for a target, or for the first that can be built."""
        for name in (target,) if target else families_in_cpp():
            try:
                return self.build(name)
            except VerifyError:
                if target or name == families_in_cpp()[-1]:
                    raise
        raise AssertionError

    def may_change(self, file: str) -> bool:
        """Whether a file is the source or one of its repository that it includes, and not behind a link. Lines of a
        source may name any file: `#line 1 "file"`."""
        return any(Path(file).resolve() in build.changeable for build in self._builds.values())

    def changed(self, texts: Mapping[str, str]) -> CppSource:
        """The source with other texts in some of its files."""
        merged = {**dict(self.options.texts), **texts}
        return CppSource(self.file, replace(self.options, texts=tuple(sorted(merged.items()))), self.limits)


def source_of(
    file: str, target: str | None = None, options: CompileOptions | None = None
) -> tuple[CppSource, str | None]:
    """A source, and the target that it is compiled for first."""
    if options is None:
        stated = database_entry(Path(file))
        options = CompileOptions().with_stated(stated)
        target = target or stated.target
    return CppSource(file, options), target
