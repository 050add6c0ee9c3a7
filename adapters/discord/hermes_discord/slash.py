"""Slash: commands registered with Discord by difference; commands and presses of buttons, taken in time.

Discord gives three seconds for the first answer to either. It is given when the command or press is
committed (D1), or after two seconds whatever the store does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final

import discord

from hermes_core.adapter import Gateway, KnownCommand
from hermes_core.errors import SendError, StoreError
from hermes_core.messages import Address, Message, first_words
from hermes_discord import convert
from hermes_discord.faults import outcome
from hermes_discord.limits import COMMANDS, DESCRIPTION, IN_TIME
from hermes_discord.line import Line

__all__ = ["Slash", "differs", "wanted"]

log = logging.getLogger("hermes.discord")

APPLICATION_COMMAND: Final = discord.InteractionType.application_command
COMPONENT: Final = discord.InteractionType.component
TOO_MANY: Final = 30032
TOO_MANY_TODAY: Final = 30034
STRING: Final = 3  # the type of an option
CHAT_INPUT: Final = 1  # the type of a command that is typed
LATER: Final = 2.5  # seconds after which a command that says nothing shows itself instead of an answer
SLOW: Final = "This takes longer than usual. It is done as soon as I can save it."
FULL: Final = "I cannot save anything at the moment. Please try again in a minute."


def wanted(commands: Iterable[KnownCommand]) -> tuple[list[dict[str, Any]], list[str]]:
    """What is to be registered, and the names for which there is no room: first names, then aliases."""
    known = list(commands)
    entries = [(one.name, one) for one in known] + [(alias, one) for one in known for alias in one.aliases]
    named = [_described(name, one) for name, one in entries]
    return named[:COMMANDS], [one["name"] for one in named[COMMANDS:]]


def _described(name: str, one: KnownCommand) -> dict[str, Any]:
    described: dict[str, Any] = {
        "type": CHAT_INPUT,
        "name": name,
        "description": _short(one.help or name),
        "options": [],
    }
    arguments = one.usage.partition(" ")[2].strip()
    if arguments:
        option = {"type": STRING, "name": "text", "description": _short(arguments), "required": False}
        described["options"] = [option]
    return described


def _short(text: str) -> str:
    return first_words(text, DESCRIPTION)


def differs(registered: Iterable[dict[str, Any]], new: Iterable[dict[str, Any]]) -> bool:
    """Whether the registered commands that people type are other ones than `new`, in any order."""

    def seen(commands: Iterable[dict[str, Any]]) -> dict[str, tuple[str, list[tuple[Any, ...]]]]:
        return {
            one["name"]: (
                one["description"],
                [
                    (option["type"], option["name"], option["description"], bool(option.get("required")))
                    for option in one.get("options") or ()
                ],
            )
            for one in commands
            if one.get("type", CHAT_INPUT) == CHAT_INPUT
        }

    return seen(registered) != seen(new)


def _why(error: SendError) -> str:
    """What Discord's refusal of the whole list means."""
    code = getattr(error.__cause__, "code", None)
    if code == TOO_MANY:
        return (
            "there are more than Discord takes (30032); another program registers some for this application"
        )
    if code == TOO_MANY_TODAY:
        return "Discord takes 200 new ones a day (30034); they are registered with a start tomorrow"
    return str(error)


class _Pending:
    """`answer`: the first text for this interaction takes the place of Discord's "is thinking"."""

    def __init__(self, interaction: discord.Interaction[Any], answer: bool) -> None:
        loop = asyncio.get_running_loop()
        self.interaction = interaction
        self.answer = answer
        self.kept: asyncio.Future[bool] = loop.create_future()
        self.deferred: asyncio.Future[bool] = loop.create_future()
        self.answered = asyncio.Event()

    def keep(self, kept: bool) -> None:
        """Whether the store has it."""
        if not self.kept.done():
            self.kept.set_result(kept)


class Slash:
    """The slash commands of one connection. `spawn` starts a task of the adapter's group."""

    def __init__(
        self,
        gateway: Gateway,
        line: Line,
        address: Callable[[Any], Awaitable[Address]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._gateway = gateway
        self._line = line
        self._address = address
        self._spawn = spawn
        self._pending: dict[str, _Pending] = {}
        self._asked: tuple[KnownCommand, ...] = ()  # for which Discord has been asked

    def stale(self) -> bool:
        """Whether there are other commands now than those for which Discord was asked."""
        return self._gateway.commands() != self._asked

    async def sync(self) -> None:
        """Register what differs, in one call; never on the way to being ready. A refusal is logged."""
        application = self._line.application_id
        assert application is not None, "known since the login"
        self._asked = self._gateway.commands()
        new, dropped = wanted(self._asked)
        if dropped:
            log.warning("Discord takes %d slash commands; left out: %s", COMMANDS, ", ".join(dropped))
        try:
            async with outcome():
                registered: list[Any] = list(await self._line.http.get_global_commands(application))
            if differs(registered, new):
                others = [one for one in registered if one.get("type", CHAT_INPUT) != CHAT_INPUT]
                async with outcome():
                    await self._line.http.bulk_upsert_global_commands(application, [*new, *others])
                log.info("registered %d slash commands", len(new))
        except SendError as error:
            log.warning("slash commands could not be registered; typed as text they work: %s", _why(error))
            if not error.permanent:
                self._asked = ()

    async def take(self, interaction: discord.Interaction[Any]) -> None:
        """Hand a slash command or a press in, and tell Discord that it was received; anything else is left."""
        channel = interaction.channel
        if channel is None or interaction.type not in (APPLICATION_COMMAND, COMPONENT):
            return
        address = await self._address(channel)
        command = interaction.type is APPLICATION_COMMAND
        message = (convert.slash_of if command else convert.press_of)(interaction, address)
        if message is None or message.id in self._pending:  # a resume may bring it twice
            return
        pending = self._pending[message.id] = _Pending(interaction, command)
        self._spawn(self._receive(message, pending))
        try:
            await self._acknowledge(pending)
            if command and pending.deferred.result():
                await self._show_itself(pending, message.text)
        finally:
            if not pending.deferred.done():
                pending.deferred.set_result(False)
            del self._pending[message.id]

    async def _receive(self, message: Message, pending: _Pending) -> None:
        # a task of its own: giving up the wait must not take back what is being committed
        try:
            await self._gateway.receive(message, lambda: pending.keep(True))
        except StoreError as error:
            log.warning("a slash command could not be kept: %s", error)
            pending.keep(False)

    async def _acknowledge(self, pending: _Pending) -> None:
        response = pending.interaction.response
        await asyncio.wait({pending.kept}, timeout=IN_TIME)
        kept = pending.kept.done() and pending.kept.result()
        async with outcome():
            if kept:  # of a press it says nothing more than that it was heard
                await response.defer(thinking=pending.answer)
            else:
                text = FULL if pending.kept.done() else SLOW
                await response.send_message(text, ephemeral=not pending.answer)
        pending.deferred.set_result(kept)

    async def _show_itself(self, pending: _Pending, text: str) -> None:
        """A command whose answer is something else than a line of text leaves itself to be read."""
        try:
            async with asyncio.timeout(LATER):
                await pending.answered.wait()
        except TimeoutError:
            async with outcome():
                await pending.interaction.edit_original_response(content=f"`{first_words(text, 200)}`")

    def waits(self, id: str | None) -> bool:
        """Whether this is a command that has no answer yet."""
        pending = self._pending.get(id or "")
        return pending is not None and pending.answer and not pending.answered.is_set()

    async def answer(self, id: str | None, content: str) -> str | None:
        """Show `content` as the answer to this command; the message's id, or None if it is to be posted."""
        pending = self._pending.get(id or "")
        if pending is None or not self.waits(id) or not await pending.deferred:
            return None
        try:
            async with outcome():
                message = await pending.interaction.edit_original_response(content=content)
        except SendError as error:
            if not error.permanent:
                raise
            pending.answered.set()  # somebody has deleted the place of the answer
            return None
        pending.answered.set()
        return str(message.id)
