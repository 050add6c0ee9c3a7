"""Counts what happens to turns, in every conversation: /worklog tells."""

from collections import Counter, defaultdict

from hermes_core.commands import Command, Context, command
from hermes_core.hookspecs import Interruption, hookimpl
from hermes_core.messages import Address, Entry, TurnEnd


class WorklogPlugin:
    def __init__(self) -> None:
        self._counts: defaultdict[Address, Counter[str]] = defaultdict(Counter)

    @hookimpl
    def hermes_turn_started(self, address: Address, entries: tuple[Entry, ...]) -> None:
        self._counts[address].update(started=1, entries=len(entries))

    @hookimpl
    def hermes_turn_ended(self, address: Address, end: TurnEnd) -> None:
        self._counts[address][end.value] += 1

    @hookimpl
    def hermes_interrupt(self, address: Address) -> None:
        self._counts[address]["stops asked for"] += 1

    @hookimpl
    def hermes_interrupted(self, interruption: Interruption) -> None:
        self._counts[interruption.address]["tools killed"] += len(interruption.killed)

    @hookimpl
    def hermes_commands(self) -> list[Command]:
        @command("worklog")
        def worklog(context: Context) -> str:
            """Count the turns of this conversation since the start of the program."""
            counted = self._counts[context.address].items()
            return ", ".join(f"{name}: {number}" for name, number in counted) or "Nothing yet."

        return [worklog]
