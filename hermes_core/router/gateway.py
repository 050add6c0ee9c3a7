"""Gateway: the router as an adapter sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hermes_core.adapter import Activity, KnownCommand
from hermes_core.clock import Clock
from hermes_core.commands import Command
from hermes_core.messages import Address, Said, SaidKind, Step
from hermes_core.pulse import Pulse
from hermes_core.router import Router, Services

__all__ = ["AdapterGateway"]

# What people need to get out of a trouble, and what every guide names: platforms with a limit drop the last.
_FIRST: Final = (
    "stop", "new", "help", "status", "interrupt", "queue", "steer", "after", "followup", "reply", "busy",
    "jobs", "job",
)  # fmt: skip


class AdapterGateway:
    """`hermes_core.adapter.Gateway` for one adapter. `ready` is called once after each (re)connect."""

    def __init__(
        self, router: Router, services: Services, ready: Callable[[], None], pulse: Pulse, clock: Clock
    ) -> None:
        self._router = router
        self.receive = router.receive
        self.alive = pulse.alive
        self._pulse = pulse
        self._clock = clock
        self._services = services
        self._ready = ready

    def dated(self, header: str | None) -> None:
        """An answer of the platform bore this `Date`."""
        self._pulse.ahead = self._clock.dated(header)

    async def edited(self, address: Address, id: str, text: str) -> None:
        """A message was edited on the platform."""
        await self._router.edited(address, id, text)

    async def deleted(self, address: Address, id: str) -> None:
        """A message was deleted on the platform."""
        await self._router.deleted(address, id)

    def commands(self) -> tuple[KnownCommand, ...]:
        """Every command under the name that it has everywhere, the most needed first (case 31)."""
        rules = self._services.rules
        places = {name: place for place, name in enumerate(_FIRST)}

        def place(command: Command) -> int:
            name = command.name if rules is None else rules.origin(None, "commands", command.name)
            return places.get(name, len(places))

        found = sorted(self._services.commands(None).all(), key=place)
        return tuple(KnownCommand(one.name, one.help, one.usage, one.aliases) for one in found)

    def knows(self, command: str) -> bool:
        """Whether a command has this name or alias now, be it in one conversation only."""
        rules = self._services.rules
        if self._services.plugins.commands.get(command) is not None:
            return True
        return rules is not None and rules.names_some("commands", command.lower())

    def activity(self, address: Address) -> Activity:
        """What the conversation does at this instant."""
        return self._router.activity(address)

    async def settled(self, address: Address) -> None:
        """Wait until this conversation is idle."""
        await (await self._router.lane(address)).settled()

    async def interrupt(self, address: Address) -> bool:
        """Stop the running turn and let what waits begin."""
        return await self._router.interrupt(address)

    async def past(self, address: Address) -> list[tuple[str, str]]:
        """What was said here in this epoch, oldest first."""
        lane = await self._router.lane(address)
        said: list[tuple[str, str]] = []
        for record in lane.conversation.records():
            for item in record.items:
                if isinstance(item, Said) and item.kind in (SaidKind.MESSAGE, SaidKind.STEER):
                    said.append(("user", item.text))
                elif isinstance(item, Step) and not item.calls and item.text:
                    said.append(("agent", item.text))
        return said

    def ready(self) -> None:
        """The platform is reachable and messages arrive."""
        self._ready()
