"""The entries of a C++ source that are judged, and those that a name chooses."""

from __future__ import annotations

from collections.abc import Sequence

from ptokit.cxx.compile import Build
from ptokit.cxx.entries import CppEntry, Parameter
from ptokit.cxx.problems import plain_name
from ptokit.finding import suggestion
from ptokit.lang.cpp_parameters import kind_of

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
