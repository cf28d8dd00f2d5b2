"""The registered targets, and what a new revision must satisfy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from uuid import uuid4

from ptokit.brief import brief
from ptokit.finding import suggestion
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.kernel import is_route_of, kernels_of, without_cost
from ptokit.isa.operand import FORMS
from ptokit.isa.policy import BLayout, TileType
from ptokit.isa.table import REVISIONS, revision_of
from ptokit.spec import LIKE, OURS, lineage
from ptokit.target.a2a3 import A2A3, A2A3_2026_08
from ptokit.target.a5 import A5, A5_2026_08
from ptokit.target.cpu import CPU, CPU_AICORE
from ptokit.target.host import HOST
from ptokit.target.profile import DeviceCompiler, Profile, family_routes

PROFILES = {profile.name: profile for profile in (CPU, A2A3, A5, HOST)}
"""Every target by its name; the revisions of a family follow it, and families that are like others the documents'."""
_REGISTERED: dict[str, str] = {}
"""By target that is not ptokit's own: a word that no other registration has."""
DEFAULT_ARCH = A2A3.arch
"""The architecture of a text that names none."""


def register(profile: Profile) -> Profile:
    """Make a revision of a known target available by its name, as in `pto.target("a5@next")`, or a family that is like
    a known one.

    Start from the family: `replace(A5, name="a5@next", ...)`, or `replace(A5, name="a6", like="a5", ...)`. Raises
    ValueError, which lists every problem, if the profile is not complete or contradicts itself.
    """
    if problems := list(_problems(profile)):
        raise ValueError(f"{profile.name} cannot be registered: {'; '.join(problems)}")
    _REGISTERED[profile.name] = uuid4().hex
    _add(profile)
    return profile


def _add(profile: Profile) -> None:
    REVISIONS[profile.name] = profile.revision.on(revision_of(profile.origin))
    if profile.is_family:
        LIKE[profile.name] = profile.like
    known = [*PROFILES.values(), profile]
    families = sorted(dict.fromkeys(each.family for each in known), key=lambda family: family in OURS)
    PROFILES.clear()
    PROFILES.update((each.name, each) for each in sorted(known, key=lambda each: families.index(each.family)))
    _clear_caches()


def unregister(name: str) -> None:
    """Remove a revision, or a family that is like another one."""
    if name not in REVISIONS:
        raise ValueError(f"{brief(name)} is not a registered revision; known: {', '.join(REVISIONS) or 'none'}")
    if others := [each.name for each in PROFILES.values() if each.origin == name]:
        raise ValueError(f"{', '.join(others)} must be removed before {name}")
    del PROFILES[name], REVISIONS[name]
    LIKE.pop(name, None)
    _REGISTERED.pop(name, None)
    _clear_caches()


def _clear_caches() -> None:
    lineage.cache_clear()
    revision_of.cache_clear()
    left_layouts.cache_clear()


def identity(target: str) -> str:
    """A word for what a target is, for the keys of kept code: of one that is not ptokit's own, it changes when it is
    registered."""
    return f"{target} {_REGISTERED.get(target, '')}"


def families() -> tuple[str, ...]:
    """The families that kernels are written for, for which there are C++ headers."""
    return tuple(name for name, profile in PROFILES.items() if profile.is_family and profile.headers)


def families_with_pipes() -> tuple[str, ...]:
    """Those that the machine models."""
    return tuple(name for name, profile in PROFILES.items() if profile.is_family and profile.pipes)


def families_in_cpp() -> tuple[str, ...]:
    """Those for which C++ kernels are recorded."""
    return tuple(name for name in families() if compiler_of(name))


def compiler_of(family: str) -> DeviceCompiler | None:
    """The device compiler of a family; None if there is none, or no such family."""
    headers = PROFILES[family].headers if family in PROFILES else None
    return headers.compiler if headers else None


def _problems(profile: Profile) -> Iterator[str]:
    family = PROFILES.get(profile.origin)
    if family is None or not family.is_family:
        yield (
            f"the name must be family@revision, and the family one of {', '.join(PROFILES)}; "
            "a new family states the one that it is like"
        )
        return
    if profile.name in PROFILES:
        yield "there is a target of this name"
    if missing := [loc.name for loc in family.memories if loc not in profile.memories]:
        yield f"no memory for {_listed(missing)} tiles"
    elif profile.ub and profile.ub.size != profile.memories[TileType.Vec].size:
        yield f"two sizes of UB: {profile.ub.size} in ub, {profile.memories[TileType.Vec].size} in memories"
    if missing := [name for name in family.costs if name not in profile.costs]:
        yield f"no number for {_listed(missing)} in costs"
    if missing := [name for name in profile.costs if name not in profile.sources]:
        yield f"no source of {_listed(missing)} in sources"
    yield from _revision_problems(profile)


def _revision_problems(profile: Profile) -> Iterator[str]:
    rules = {rule.id for each in INSTRUCTIONS.values() for rule in (*each.rules, *each.cpp.headers, *each.cpp.slices)}
    if unknown := sorted((profile.revision.dropped | profile.revision.added) - rules):
        yield f"no rule has the id {_listed(unknown)}"
    for route, kernel in profile.revision.kernels.items():
        owner = next((each for each in INSTRUCTIONS.values() if is_route_of(each, route)), None)
        if owner is None or (route in family_routes() and route not in kernels_of(owner, profile.origin)):
            yield f"{profile.origin} has no route {route}"
        elif unknown := [
            each.operand for each in kernel.effects if each.operand not in [p.name for p in owner.operands]
        ]:
            yield f"{route} has no operand {_listed(unknown)}"
        elif unknown := [effect.pipe for effect in kernel.effects if effect.pipe not in profile.pipes]:
            yield f"{route} uses {_listed(unknown)}, which is no pipe of {profile.name}"
        elif missing := without_cost(owner, kernel):
            yield f"{route} has no cost for {_listed(missing)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def memory_names() -> dict[str, TileType]:
    """By name: the places of tiles in the memories of the targets with cores."""
    memories = [pair for profile in PROFILES.values() if profile.cores for pair in profile.memories.items()]
    return {name: place for place, memory in memories for name in (memory.name, memory.other_name) if name}


@lru_cache(maxsize=1)
def left_layouts() -> dict[str, BLayout]:
    """By architecture: the layout of a tile in Left, which text does not state."""
    layouts = {form: blayout for (blayout, _), form in FORMS.items()}
    plain = (profile for profile in PROFILES.values() if profile.arch and profile.is_family)
    return {profile.arch: layouts[profile.left_form] for profile in plain}


def flag_memory_archs() -> set[str]:
    """The architectures on which the launch passes the memory of the flags between the cores."""
    headers = ((profile.arch, profile.headers) for profile in PROFILES.values())
    return {arch for arch, known in headers if known and known.cross and known.cross.base}


for _each in (CPU_AICORE, A2A3_2026_08, A5_2026_08):
    _add(_each)


def profile(name: str) -> Profile:
    """The profile with this name."""
    try:
        return PROFILES[name]
    except (KeyError, TypeError):
        hint = suggestion(name, PROFILES)
        raise ValueError(f"unknown target {brief(name)}; known: {', '.join(PROFILES)}{hint}") from None
