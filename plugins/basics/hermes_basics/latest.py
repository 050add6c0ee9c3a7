"""What became of the latest turn of each conversation, for `/status`."""

from __future__ import annotations

import time
from collections.abc import Callable

from hermes_core.hookspecs import Interruption
from hermes_core.messages import Address, TurnEnd
from hermes_core.recent import Recent

__all__ = ["Latest"]

KEPT = 1000  # conversations; the longest untouched is forgotten


class Latest:
    """Listens to the hooks of turns. `clock` gives seconds; only differences count."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = Recent[Address, float](KEPT)
        self._ended = Recent[Address, str](KEPT)
        self._stopped = Recent[Address, str](KEPT)

    def started(self, address: Address) -> None:
        """A turn started here."""
        self._began[address] = self._clock()

    def ended(self, address: Address, end: TurnEnd, reply: int | None) -> None:
        """It ended."""
        took = self._clock() - self._began.pop(address, self._clock())
        number = f", reply {reply}" if reply is not None else ""
        self._ended[address] = f"{end.value} after {took:.1f} s{number}"

    def asked_to_stop(self, address: Address) -> None:
        """Somebody interrupts it."""
        self._stopped[address] = "being stopped"

    def stopped(self, report: Interruption) -> None:
        """What an interrupt did."""
        parts = [
            f"{word} {', '.join(dict.fromkeys(names))}"
            for word, names in (
                ("killed", report.killed),
                ("skipped", report.skipped),
                ("kept", report.kept),
                ("abandoned", report.abandoned),
            )
            if names
        ]
        self._stopped[report.address] = "; ".join(parts) or "no tool ran"

    def since(self, address: Address) -> float | None:
        """Seconds since the running turn began; None where that is not known."""
        began = self._began.get(address)
        return None if began is None else self._clock() - began

    def lines(self, address: Address) -> list[str]:
        """The rows for `/status`; none where nothing is known since the program started."""
        rows = []
        if address in self._ended:
            rows.append(f"Last turn: {self._ended[address]}")
        if address in self._stopped:
            rows.append(f"Last interrupt: {self._stopped[address]}")
        return rows
