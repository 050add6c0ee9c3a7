"""Files of a conversation, as tools and models see them: what came in can be read, and files can be sent.

A file that came in is named by a short id, which stands in the prompt beside the file's name. What is
behind these words is `hermes_core.files`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, Protocol

from hermes_core.errors import HermesError
from hermes_core.messages import Attachment

__all__ = ["IMAGES", "ConversationFiles", "NoFiles", "described", "file_id", "sized"]

IMAGES: Final = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
"""The kinds of picture that every provider takes which takes any."""

# what ends a line, or turns the direction of the text behind it
_UNSEEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class ConversationFiles(Protocol):
    """The files of one conversation."""

    def find(self, id: str) -> Attachment | None:
        """The file with this id that stands in the context; the last one where two have it."""

    async def read(self, attachment: Attachment) -> bytes:
        """The content of a file that came in: fetched from its platform once, then kept.

        `HermesError` says in words why it cannot be had: too large, gone, the platform gives out no files.
        Cancelled, it leaves nothing half.
        """

    async def send(self, name: str, content: bytes, text: str = "") -> None:
        """Send a file, with a text, to the people of this conversation, before what the turn says at its end.

        It is durable when this returns. `HermesError` where the platform takes no files, or none so large.
        """


class NoFiles:
    """Where there are none."""

    def find(self, id: str) -> Attachment | None:
        """None."""
        return None

    async def read(self, attachment: Attachment) -> bytes:
        """Refuses."""
        raise HermesError(f"{attachment.name} cannot be read here.")

    async def send(self, name: str, content: bytes, text: str = "") -> None:
        """Refuses."""
        raise HermesError("Files cannot be sent here.")


def file_id(attachment: Attachment) -> str:
    """A short name for this file: the same file has it in every run; two of one conversation hardly share it."""
    return "f" + hashlib.sha256(f"{attachment.ref}\n{attachment.name}".encode()).hexdigest()[:6]


def described(attachment: Attachment) -> str:
    """The file as a prompt names it, on one line: a name with line ends in it cannot pretend to be more."""
    size = f", {attachment.size} bytes" if attachment.size is not None else ""
    known = f"{file_id(attachment)}, " if attachment.ref else ""
    return f"{known}{_UNSEEN.sub('_', attachment.name)}, {_UNSEEN.sub('_', attachment.media_type)}{size}"


def sized(size: int) -> str:
    """So many bytes, as people say it."""
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= step:
            return f"{size / step:.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} bytes"
