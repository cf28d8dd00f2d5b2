"""The targets ptokit knows, as data. A name may carry a revision after `@`."""

from __future__ import annotations

from ptokit.isa.kernel import LaunchShape as LaunchShape
from ptokit.target.a2a3 import A2A3
from ptokit.target.a5 import A5
from ptokit.target.cpu import CPU, CPU_AICORE
from ptokit.target.host import HOST
from ptokit.target.profile import Budget as Budget
from ptokit.target.profile import Profile as Profile

PROFILES = {profile.name: profile for profile in (CPU, CPU_AICORE, A2A3, A5, HOST)}


def profile(name: str) -> Profile:
    """The profile of that name."""
    try:
        return PROFILES[name]
    except (KeyError, TypeError):
        raise ValueError(f"unknown target {name!r}; known: {', '.join(PROFILES)}") from None
