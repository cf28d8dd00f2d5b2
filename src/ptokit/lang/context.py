"""The current target: the profile that calls are verified for, and its on-chip memories."""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar, Token
from functools import lru_cache
from itertools import count
from operator import index
from types import TracebackType
from typing import Any

from ptokit.brief import brief
from ptokit.engine.storage import OnChip
from ptokit.finding import Finding
from ptokit.isa.policy import TileType
from ptokit.lang.faults import public, refuse
from ptokit.program.verify_call import Options
from ptokit.target import Profile
from ptokit.target import profile as find_profile

_NUMBERS = count(1)


class Mode:
    """A profile and the options it is used with; one object for each combination."""

    def __init__(self, profile: Profile, options: Options) -> None:
        self.profile = profile
        self.options = options


@lru_cache(maxsize=256)
def _mode(profile: Profile, options: Options) -> Mode:
    return Mode(profile, options)


def check_dyn_ub(given: Any) -> int | None:
    """A number of bytes as Python's own integer, or a refusal: 1.0 and True are equal to 1 in the keys of caches."""
    if given is None:
        return None
    is_number = hasattr(given, "__index__") and not isinstance(given, bool) and not getattr(given, "shape", ())
    if not is_number or index(given) < 0:
        raise ValueError(f"dyn_ub takes a number of bytes, got {brief(given)}")
    return index(given)


class target:
    """Choose the target for the calls made inside a `with` block.

    `header=True` refuses only what the target's real headers assert; `strict=True` turns hazards into errors;
    `dyn_ub` is the launch's dynUBufSize in bytes. Tiles made with `addr=` share the memories of this target.
    """

    @public
    def __init__(self, name: str, *, header: bool = False, strict: bool = False, dyn_ub: int | None = None) -> None:
        options = Options(header=bool(header), strict=bool(strict), dyn_ub=check_dyn_ub(dyn_ub))
        self.mode = _mode(find_profile(name), options)
        self.number = next(_NUMBERS)
        """Distinguishes the memories of this target from those of others."""
        self.findings: deque[Finding] = deque(maxlen=10_000)
        """The findings of the calls made here, notes included; the newest ten thousand."""
        self.tracer: Any = None
        """Records calls instead of running them, while a kernel is traced."""
        self.block: tuple[int, int] | None = None
        """The block that a kernel runs for, and how many there are, when it runs untraced."""
        self._memories: dict[TileType, OnChip] = {}
        self._tokens: list[Token[target]] = []

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.mode.profile.name

    @property
    def profile(self) -> Profile:
        """The description of the target."""
        return self.mode.profile

    def memory(self, loc: TileType) -> OnChip:
        """The on-chip memory behind a tile location."""
        return self._memories.setdefault(loc, OnChip())

    @public
    def __enter__(self) -> target:
        outer = current()
        if outer.tracer is not None or outer.block is not None:
            message, fix = "a kernel runs on the target of its launch", 'launch with kernel[blocks](..., target="a5")'
            raise refuse("KN-17", message, fix)
        self._tokens.append(CURRENT.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        CURRENT.reset(self._tokens.pop())

    def __repr__(self) -> str:
        return f"target({self.name!r})"


CURRENT: ContextVar[target] = ContextVar("ptokit_target", default=target("cpu"))  # noqa: B039


def current() -> target:
    """The target of the innermost `with pto.target(...)`, or the CPU simulator."""
    return CURRENT.get()
