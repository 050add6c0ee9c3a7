"""What the agent is told about itself, and what it remembers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, cast

import msgspec

from hermes_core.commands import Command, Context, Rest, command
from hermes_core.config import Config
from hermes_core.errors import BadArguments, ConfigError, NotAllowed, ToolError
from hermes_core.hookspecs import Injection, hookimpl
from hermes_core.messages import Address, Role, Said
from hermes_core.tools import Tool, ToolContext, tool
from hermes_memory.files import MemoryFile, MemoryFolder

__all__ = ["MemoryPlugin", "MemorySettings"]

log = logging.getLogger("hermes.memory")
T = TypeVar("T")

EVERYWHERE: Final = "memory for all conversations"
HERE: Final = "memory of this conversation"
EMPTY: Final = "(It is empty now.)"
ADMINS: Final = "Only admins change the memory of all conversations."
DEFAULT_PROMPT: Final = (
    "You are Hermes, a helpful agent. People reach you through chat platforms; answer in Markdown, briefly "
    "unless they want more."
)
LONGEST: Final = 7500  # characters of a memory: with its mark it stays below what one injection may have


class MemorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[plugins.memory]`. `system_prompt` is a text, `system_prompt_file` a file that has it instead.

    `max_chars` bounds each memory file.
    """

    system_prompt: str = DEFAULT_PROMPT
    system_prompt_file: Path | None = None
    max_chars: Annotated[int, msgspec.Meta(ge=1, le=LONGEST)] = 6000


class MemoryPlugin:
    """The system prompt, the memory files, a tool and a command to change them.

    `ConfigError` where the file with the system prompt cannot be read at the start. `beside` runs what changes a
    file: in a thread, so that a slow disk holds up nobody else.
    """

    Settings = MemorySettings

    def __init__(
        self, settings: MemorySettings, beside: Callable[..., Awaitable[Any]] = asyncio.to_thread
    ) -> None:
        self._settings = settings
        self._run = beside
        self._folder = MemoryFolder(Path(), settings.max_chars)
        self._prompt = settings.system_prompt
        self._changing = asyncio.Lock()
        file = settings.system_prompt_file
        if file is not None:
            try:
                self._prompt = _text_of(file)
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(
                    f"plugins.memory.system_prompt_file: {file} cannot be read.",
                    "Name a text file that is there.",
                ) from error

    @hookimpl
    def hermes_configured(self, config: Config) -> None:
        """Memory lives in the data folder."""
        self._folder = MemoryFolder(config.runtime.data_dir / "memory", self._settings.max_chars)

    @hookimpl
    def hermes_system_prompt(self, prompt: str) -> str:
        """The configured text, read anew for each turn (I9), in front of what other plugins give."""
        if self._settings.system_prompt_file is not None:
            try:
                self._prompt = _text_of(self._settings.system_prompt_file)
            except (OSError, UnicodeDecodeError) as error:
                log.warning("the system prompt cannot be read, the one read last holds: %s", error)
        return f"{self._prompt}\n\n{prompt}".strip()

    @hookimpl
    def hermes_injections(self, address: Address, past: tuple[Said, ...]) -> Iterable[Injection]:
        """Each memory where the context does not hold it as it is now: so it stands there once, until it changes."""
        told = {one.author: one.text for one in past}
        found = []
        for label, file in ((EVERYWHERE, self._folder.everywhere()), (HERE, self._folder.of(address))):
            text = self._bounded(file.text()) or (EMPTY if label in told else "")
            if text and text != told.get(label):
                found.append(Injection(label, text))
        return found

    async def _beside(self, change: Callable[..., T], *arguments: Any) -> T:
        """Change a file, one change after the other."""
        async with self._changing:
            return cast("T", await self._run(change, *arguments))

    def _bounded(self, text: str) -> str:
        """A file that was edited by hand may be longer than it should be."""
        most = self._settings.max_chars
        more = len(text) - most
        return text if more <= 0 else f"{text[:most]}\n[… {more} characters more in the file …]"

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        """One tool."""

        @tool
        async def remember(context: ToolContext, line: str, everywhere: bool = False) -> str:
            """Remember a line for all later turns. Use it for lasting facts and wishes, not for what was just said.

            Args:
                line: What to remember, as one short sentence.
                everywhere: For every conversation, not only this one; only admins may.
            """
            if everywhere and context.role < Role.ADMIN:
                raise ToolError(ADMINS, "Remember it in this conversation only.")
            file = self._folder.everywhere() if everywhere else self._folder.of(context.address)
            await self._beside(file.add, line)
            return "Remembered."

        return [remember]

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        """One command."""

        @command("memory")
        async def memory(
            context: Context,
            action: Literal["show", "add", "forget", "everywhere"] = "show",
            text: Rest = Rest(""),
        ) -> str:
            """Show what is remembered; or: add TEXT, forget NUMBER, everywhere TEXT (for all conversations)."""
            try:
                return await self._beside(self._command, context, action, text)
            except ToolError as error:
                raise BadArguments(error.message, error.advice) from error

        return (memory,)

    def _command(self, context: Context, action: str, text: str) -> str:
        here, everywhere = self._folder.of(context.address), self._folder.everywhere()
        match action:
            case "show" if text:
                raise BadArguments(
                    "/memory show takes nothing more.", "To remember something: /memory add TEXT"
                )
            case "show":
                return _shown(here, everywhere) or "Nothing is remembered here."
            case "forget":
                return _forget(context.role, text, here, everywhere)
        if not text:
            raise BadArguments(f"/memory {action}: TEXT is missing.", f"Type /memory {action} TEXT")
        if action == "everywhere" and context.role < Role.ADMIN:
            raise NotAllowed(ADMINS, "To remember it in this conversation: /memory add TEXT")
        (everywhere if action == "everywhere" else here).add(text)
        return "Remembered for all conversations." if action == "everywhere" else "Remembered here."


def _text_of(file: Path) -> str:
    return file.read_text("utf-8").strip()


def _shown(here: MemoryFile, everywhere: MemoryFile) -> str:
    """Both memories, with one number for each line that can be forgotten."""
    number, parts = 0, []
    for title, file in (("In this conversation", here), ("In all conversations", everywhere)):
        rows = []
        for row in file.text().splitlines():
            if row.startswith("- "):
                number += 1
                rows.append(f"{number}. {row[2:].strip()}")
            else:
                rows.append(row)
        if rows:
            parts.append("\n".join([f"{title}:\n", *rows]))
    return "\n\n".join(parts)


def _forget(role: Role, text: str, here: MemoryFile, everywhere: MemoryFile) -> str:
    """Take out the line with the number that `_shown` gives it."""
    number = int(text) if text.isdecimal() and len(text) < 10 else 0
    if not number:
        raise BadArguments("/memory forget needs the number of a line.", "Type /memory to see them.")
    own = len(here.lines())
    if own < number <= own + len(everywhere.lines()) and role < Role.ADMIN:
        raise NotAllowed(ADMINS)
    gone = here.forget(number) if number <= own else everywhere.forget(number - own)
    if gone is None:
        raise BadArguments(f"/memory forget: there is no line {number}.", "Type /memory to see them.")
    return f"Forgotten: {gone}"
