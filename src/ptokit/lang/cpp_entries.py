"""C++ sources with their builds: their entries, the kinds of parameters, and what the compiler refuses."""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from ptokit.cxx.entries import CppEntry
from ptokit.cxx.names_in_source import SourceTexts
from ptokit.cxx.parameters import Parameter
from ptokit.cxx.problems import OWN_CODE, plain_name
from ptokit.engine.llvm import store
from ptokit.finding import Finding, VerifyError, Where, suggestion
from ptokit.isa.dtype import DType, dtype
from ptokit.target import families_in_cpp

if TYPE_CHECKING:
    from ptokit.witness.unknown import UnknownInstructions

ANY = ("void", "uint8_t", "unsigned char", "char", "int8_t", "GM_ADDR")
"""Types of pointers to elements of any type."""
NULLS = ("ffts", "stream")
"""Words in the names of pointers that no array is passed for."""


def element_of(parameter: Parameter) -> DType | None:
    """The element type of a pointer; None for bytes, which may be of any type."""
    return None if parameter.plain_type in ANY else parameter.number


def scalar_of(parameter: Parameter) -> DType:
    """The type of a number."""
    return parameter.number or dtype("int64")


def kind_of(parameter: Parameter) -> str:
    """`array`, `integer`, `float`, or `null` for a pointer that no array is passed for."""
    if "*" in parameter.type or parameter.plain_type == "GM_ADDR" or parameter.is_stream:
        is_null = parameter.is_stream or any(word in parameter.name.lower() for word in NULLS)
        return "null" if is_null else "array"
    return "float" if scalar_of(parameter).is_float else "integer"


NO_ENTRY = 'write an explicit instantiation, or a function extern "C" void launch(..., void* stream)'
"""What a source lacks if nothing in it can be run."""


def entries_of(build: Build, given: Sequence[str] = ()) -> list[CppEntry]:
    """The entries that are judged: those that the given arguments suffice for, functions that launch kernels before
    kernels."""
    taking = [entry for entry in build.entries if {*given} <= {each.name for each in entry.parameters}]
    ready = [entry for entry in taking if all(_is_given(each) or each.name in given for each in entry.parameters)]
    for entries in (ready, taking, build.entries):
        for kind in ("launch", "kernel"):
            if found := [entry for entry in entries if entry.kind == kind]:
                return found
    return []


def _is_given(parameter: Parameter) -> bool:
    return kind_of(parameter) in ("array", "null")


def entries_named(build: Build, name: str) -> list[CppEntry]:
    """The entries of a name: with all of it, without its namespaces, or without its template arguments."""
    for kept in (str, _without_namespaces, _without_arguments, plain_name):
        if found := [entry for entry in build.entries if _compact(kept(entry.name)) == _compact(name)]:
            return found
    names = [entry.name for entry in build.entries]
    raise ValueError(f"{build.source.name} has no entry {name}; it has {_list(names)}{suggestion(name, names)}")


def _compact(name: str) -> str:
    return name.replace(" ", "")


def _without_arguments(name: str) -> str:
    return name.partition("<")[0]


def _without_namespaces(name: str) -> str:
    head, bracket, arguments = name.partition("<")
    return head.rpartition("::")[2] + bracket + arguments


def chosen_entry(build: Build, name: str | None, given: Sequence[str] = ()) -> CppEntry:
    """The entry of a name, or the only one that the given arguments suffice for."""
    found = entries_of(build, given) if name is None else entries_named(build, name)
    if len(found) != 1:
        names = _list([entry.name for entry in found])
        what = (
            f"has several entries: {names}; name one with --entry or function="
            if found
            else f"has no entry: {NO_ENTRY}"
        )
        raise ValueError(f"{build.source.name} {what}")
    return found[0]


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


# --- sources


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

    def __init__(
        self,
        file: str,
        options: CompileOptions,
        limits: RecordLimits | None = None,
        unknown: UnknownInstructions | None = None,
    ) -> None:
        """`unknown`: the instructions of the user's checkout of the public headers that no table has."""
        self.file, self.options, self.limits, self.unknown = file, options, limits or RecordLimits(), unknown
        self._builds: dict[str, Build] = {}
        self.texts = shown_texts(Path(file), options)

    def build(self, target: str) -> Build:
        """The source compiled for a target. Raises VerifyError; ImportError if there is no compiler."""
        if target not in self._builds:
            options = self.unknown.options(self.options) if self.unknown else self.options
            try:
                self._builds[target] = build = compile_source(Path(self.file), target, options, kept=LIBRARIES)
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
        return CppSource(
            self.file, replace(self.options, texts=tuple(sorted(merged.items()))), self.limits, self.unknown
        )


def source_of(
    file: str, target: str | None = None, options: CompileOptions | None = None
) -> tuple[CppSource, str | None]:
    """A source, and the target that it is compiled for first."""
    if options is None:
        stated = database_entry(Path(file))
        options = CompileOptions().with_stated(stated)
        target = target or stated.target
    return CppSource(file, options), target
