"""The state of a block while it runs on the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ptokit.engine.frame import CoreState, Frame
from ptokit.engine.storage import Storage
from ptokit.finding import Finding
from ptokit.machine.adversary import Adversary
from ptokit.machine.deferred import StaleLines
from ptokit.machine.session import Session
from ptokit.program.expr import Var
from ptokit.program.ir import Stmt, TileDecl


class WatchedFrame(Frame):
    """A frame with its session. With an adversary, it runs another schedule and checks nothing."""

    def __init__(
        self,
        session: Session,
        tensors: Mapping[str, Storage],
        values: dict[Var, int],
    ) -> None:
        super().__init__()
        self.tensors, self.values, self.form = tensors, values, session.program.form
        self.session, self.unspecified = session, session.unspecified
        self.adversary: Adversary | None = None
        self.stale: StaleLines | None = None
        self.engines: tuple[Any, ...] = session.engines
        """The engines that flags, events and barriers go to."""
        self.fresh: set[str] = set()
        """Tiles whose memory is uninitialised."""
        self.stmt: Stmt | None = None
        """The statement that runs."""
        self._known: dict[tuple[str, int], Storage] = {}

    def run_by(self, adversary: Adversary, stale: StaleLines | None) -> None:
        """Run another schedule from now on; `stale` is None if all pipes see the same global memory."""
        self.adversary, self.stale, self.engines = adversary, stale, (adversary,)

    def enter(self, state: CoreState) -> None:
        """Go on with a core."""
        super().enter(state)
        self.session.running.moment, self.session.running.values = state.loops, state.values

    def report(self, findings: Sequence[Finding]) -> None:
        indices = self.session.options.enables("indices")
        assert self.stmt is not None
        self.session.report([f for f in findings if indices or f.level != "hazard"], self.stmt)

    def place(self, tile: TileDecl, address: int, target: str) -> None:
        """Bind a tile to an address of its memory; an address that it had before is not checked again."""
        known = self._known.get((tile.name, address))
        if known is None:
            super().place(tile, address, target)
            self._known[tile.name, address] = self.tiles[tile.name]
            return
        self.memories[tile.spec.loc].at(address, tile.spec.nbytes)  # poison it again in a new block
        self.tiles[tile.name], self.addresses[tile.name] = known, address
