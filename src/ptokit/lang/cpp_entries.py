"""The entries of a C++ source that are judged, and those that a name chooses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ptokit.cxx.compile import Build
from ptokit.cxx.declaration import Parameter
from ptokit.cxx.entries import CppEntry
from ptokit.cxx.problems import plain_name
from ptokit.finding import suggestion
from ptokit.isa.dtype import DType, dtype

ANY = ("void", "uint8_t", "unsigned char", "char", "int8_t", "GM_ADDR")
"""Types of pointers to elements of any type."""
WHOLE = {"int": "int32", "unsigned": "uint32", "unsigned int": "uint32", "long": "int64", "size_t": "uint64",
         "unsigned long": "uint64", "long long": "int64", "short": "int16", "char": "int8"}  # fmt: skip
"""C++ types of scalars that are not among the spellings of element types."""
NULLS = ("ffts", "stream")
"""Words in the names of pointers that no array is passed for."""


def _plain_type(parameter: Parameter) -> str:
    words = re.sub(r"\b(?:const|volatile|__gm__|__restrict__|std::)\b|::", " ", parameter.type).replace("*", " ")
    return " ".join(words.split())


def element_of(parameter: Parameter) -> DType | None:
    """The element type of a pointer; None for bytes, which may be of any type."""
    name = _plain_type(parameter)
    if name in ANY:
        return None
    try:
        return dtype(WHOLE.get(name, name))
    except TypeError:
        return None


def scalar_of(parameter: Parameter) -> DType:
    """The type of a number."""
    try:
        return dtype(WHOLE.get(_plain_type(parameter), _plain_type(parameter)))
    except TypeError:
        return dtype("int64")


def kind_of(parameter: Parameter) -> str:
    """`array`, `integer`, `float`, or `null` for a pointer that no array is passed for."""
    if "*" in parameter.type or _plain_type(parameter) == "GM_ADDR" or parameter.is_stream:
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
