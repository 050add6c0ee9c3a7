"""What the agent is told about itself, and what it remembers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from hermes_core.commands import Command, Context, Rest, command
from hermes_core.config import Config
from hermes_core.errors import BadArguments, ConfigError, NotAllowed, ToolError
from hermes_core.hookspecs import Injection, hookimpl
from hermes_core.messages import Address, Role, Said
from hermes_core.tools import Tool, ToolContext, tool
from hermes_memory.files import MemoryFolder

__all__ = ["MemoryPlugin", "MemorySettings"]

LABEL = "memory"
DEFAULT_PROMPT = (
    "You are Hermes, a helpful agent. People reach you through chat platforms; answer in Markdown, briefly "
    "unless they want more."
)


class MemorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[plugins.memory]`. `system_prompt` is a text, `system_prompt_file` a file that has it instead.

    `max_chars` bounds each memory file.
    """

    system_prompt: str = DEFAULT_PROMPT
    system_prompt_file: str = ""
    max_chars: int = 6000


class MemoryPlugin:
    """The system prompt, the memory files, a tool and a command to change them."""

    Settings = MemorySettings

    def __init__(self, settings: MemorySettings) -> None:
        self._settings = settings
        self._folder = MemoryFolder(Path(), settings.max_chars)

    @hookimpl
    def hermes_configured(self, config: Config) -> None:
        """Memory lives in the data folder."""
        self._folder = MemoryFolder(config.runtime.data_dir / "memory", self._settings.max_chars)
        if self._settings.system_prompt_file:
            self._read_prompt()

    def _read_prompt(self) -> str:
        file = Path(self._settings.system_prompt_file)
        try:
            return file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"plugins.memory.system_prompt_file: {file} cannot be read.", "Name a text file that is there."
            ) from error

    @hookimpl
    def hermes_system_prompt(self, prompt: str) -> str:
        """The configured text, read anew for each turn (I9), in front of what other plugins give."""
        text = self._read_prompt() if self._settings.system_prompt_file else self._settings.system_prompt
        return f"{text}\n{prompt}".strip()

    @hookimpl
    def hermes_injections(self, address: Address, past: tuple[Said, ...]) -> Iterable[Injection]:
        """The memory, where the context does not hold it as it is now: so it stands there once, until it changes."""
        now = self._memory(address)
        before = next((one.text for one in reversed(past) if one.author == LABEL), "")
        if now == before:
            return ()
        return [Injection(LABEL, now or "(The memory is empty now.)")] if now or before else ()

    def _memory(self, address: Address) -> str:
        parts = [
            ("Everywhere", self._folder.everywhere().text()),
            ("In this conversation", self._folder.of(address).text()),
        ]
        return "\n\n".join(f"{title}:\n{text}" for title, text in parts if text)

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
                raise ToolError("Only admins may change the memory of all conversations.", "Remember it here only.")
            file = self._folder.everywhere() if everywhere else self._folder.of(context.address)
            file.add(line)
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
            return self._command(context, action, text)

        return (memory,)

    def _command(self, context: Context, action: str, text: str) -> str:
        here = self._folder.of(context.address)
        if action == "show":
            return self._memory(context.address) or "Nothing is remembered here."
        if action == "forget":
            gone = here.forget(int(text)) if text.isdecimal() else None
            if gone is None:
                raise BadArguments("/memory forget needs the number of a line.", "Type /memory to see them.")
            return f"Forgotten: {gone}"
        if action == "everywhere" and context.role < Role.ADMIN:
            raise NotAllowed("Only admins change the memory of all conversations.")
        file = self._folder.everywhere() if action == "everywhere" else here
        try:
            file.add(text)
        except ToolError as error:
            raise BadArguments(error.message, error.advice) from error
        return "Remembered."
