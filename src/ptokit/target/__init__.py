"""The targets, as data. A name may have a revision after `@`."""

from __future__ import annotations

from ptokit.brief import brief
from ptokit.finding import suggestion
from ptokit.isa.kernel import LaunchShape as LaunchShape
from ptokit.target.profile import GM_ACCESS as GM_ACCESS
from ptokit.target.profile import LOAD as LOAD
from ptokit.target.profile import SCALAR as SCALAR
from ptokit.target.profile import STORE as STORE
from ptokit.target.profile import VECTOR as VECTOR
from ptokit.target.profile import Budget as Budget
from ptokit.target.profile import Core as Core
from ptokit.target.profile import Profile as Profile
from ptokit.target.registry import DEFAULT_ARCH as DEFAULT_ARCH
from ptokit.target.registry import PROFILES as PROFILES
from ptokit.target.registry import compiler_of as compiler_of
from ptokit.target.registry import families as families
from ptokit.target.registry import families_in_cpp as families_in_cpp
from ptokit.target.registry import families_with_pipes as families_with_pipes
from ptokit.target.registry import flag_memory_archs as flag_memory_archs
from ptokit.target.registry import identity as identity
from ptokit.target.registry import left_layouts as left_layouts
from ptokit.target.registry import memory_names as memory_names
from ptokit.target.registry import register as register
from ptokit.target.registry import unregister as unregister


def profile(name: str) -> Profile:
    """The profile of that name."""
    try:
        return PROFILES[name]
    except (KeyError, TypeError):
        hint = suggestion(name, PROFILES)
        raise ValueError(f"unknown target {brief(name)}; known: {', '.join(PROFILES)}{hint}") from None
