"""Three tools: read a text file that somebody sent, send a text as a file, send a file of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import msgspec

from hermes_core.errors import HermesError, ToolError
from hermes_core.file import IMAGES, file_id, sized
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Attachment
from hermes_core.tools import Tool, ToolContext, tool

__all__ = ["FilesPlugin", "FilesPluginSettings"]

LARGEST: Final = 100_000_000  # bytes of a file of this machine that is read in order to be sent
_LOOK: Final = 8192  # bytes in which text has no zero


class FilesPluginSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[plugins.files]`. `folders`: from where files of this machine may be sent; `page_chars`: of one page."""

    folders: tuple[Path, ...] = ()
    page_chars: Annotated[int, msgspec.Meta(ge=100)] = 8000


class FilesPlugin:
    """Files in both directions."""

    Settings = FilesPluginSettings

    def __init__(self, settings: FilesPluginSettings) -> None:
        self._settings = settings

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        """`read_file` and `send_text_file`; `send_file` where a folder is named."""
        tools = [self._read_file(), _send_text_file()]
        return [*tools, self._send_file()] if self._settings.folders else tools

    def _read_file(self) -> Tool:
        most = self._settings.page_chars

        @tool(idempotent=True)
        async def read_file(context: ToolContext, file: str, cursor: int = 0) -> str:
            """Read a text file that a person attached, page by page.

            Args:
                file: The id of the file, as it stands in [attached: ID, name, …].
                cursor: Where to go on, as the last page said; 0 is the beginning.
            """
            attachment = context.files.find(file.strip())
            if attachment is None:
                raise ToolError(f"There is no file {file!r} in this conversation's context.")
            text = _text(attachment, await _had(context, attachment))
            if not 0 <= cursor <= len(text):
                raise ToolError(f"cursor is between 0 and {len(text)}.")
            page = text[cursor : cursor + most]
            end = cursor + len(page)
            rest = f"go on with cursor={end}" if end < len(text) else "this is the end"
            return f"{page}\n[{attachment.name}: characters {cursor} to {end} of {len(text)}; {rest}]"

        return read_file

    def _send_file(self) -> Tool:
        folders = [folder.expanduser().resolve() for folder in self._settings.folders]

        @tool
        async def send_file(context: ToolContext, path: str, text: str = "") -> str:
            """Send a file of this machine to the people of this conversation.

            Args:
                path: Its path; only files of the folders that the operator opened can be sent.
                text: What to write beside it.
            """
            content = await asyncio.to_thread(_content, Path(path), folders)
            return await _sent(context, Path(path).name, content, text)

        return send_file


def _send_text_file() -> Tool:
    @tool
    async def send_text_file(context: ToolContext, name: str, content: str, text: str = "") -> str:
        """Send a text as a file, for what is too long or too exact for a message: code, tables, logs.

        Args:
            name: The file's name with its ending, such as report.md or data.csv.
            content: What is in it.
            text: What to write beside it.
        """
        return await _sent(context, name, content.encode(), text)

    return send_text_file


async def _sent(context: ToolContext, name: str, content: bytes, text: str) -> str:
    try:
        await context.files.send(name, content, text)
    except HermesError as error:
        raise ToolError(error.message, error.advice) from error
    return f"Sent: {name}, {sized(len(content))}."


async def _had(context: ToolContext, attachment: Attachment) -> bytes:
    try:
        return await context.files.read(attachment)
    except HermesError as error:
        raise ToolError(error.message, error.advice) from error


def _text(attachment: Attachment, content: bytes) -> str:
    """The content as text, in whatever of the usual encodings it is; `ToolError` for what is no text."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    if b"\0" in content[:_LOOK]:
        shown = (
            " You see it in the message, if you can see pictures." if attachment.media_type in IMAGES else ""
        )
        raise ToolError(
            f"{attachment.name} ({file_id(attachment)}) is not text: {attachment.media_type}.{shown}"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def _content(path: Path, folders: Iterable[Path]) -> bytes:
    """The content of a file inside one of `folders`, links followed first; `ToolError` for any other."""
    try:
        file = path.expanduser().resolve(strict=True)
        if any(file.is_relative_to(folder) for folder in folders) and file.is_file():
            size = file.stat().st_size
            if size > LARGEST:
                raise ToolError(f"{path.name} has {sized(size)}; the most is {sized(LARGEST)}.")
            return file.read_bytes()
    except (OSError, RuntimeError, ValueError):  # not there, a loop of links, a zero in the name
        pass
    # one answer for what is not there and for what is closed: it tells nothing about the machine
    raise ToolError(
        f"{path.name or 'It'} is no file that may be sent.", "The operator names folders in [plugins.files]."
    )
