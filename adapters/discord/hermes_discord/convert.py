"""From what discord.py delivers to our values. Pure: what cannot be told from the event alone is None."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final

import discord

from hermes_core.commands import parse
from hermes_core.markup import utf16
from hermes_core.messages import Address, Attachment, Author, Choice, Message
from hermes_discord.limits import LIKELY_PARTIAL, PLATFORM

__all__ = [
    "address_of",
    "addressed",
    "custom_id",
    "for_the_agent",
    "message_of",
    "press_of",
    "readable",
    "slash_of",
    "target_of",
]

_KINDS: Final = (discord.MessageType.default, discord.MessageType.reply)
_PRESS: Final = re.compile(r"hermes\d:(.+)", re.DOTALL)
_SPELLED: Final = re.compile(r"<(@!?|@&|#)(\d+)>|<a?(:\w+:)\d+>")  # people, roles, channels; emoji


def address_of(account: str, channel: Any) -> Address | None:
    """The conversation of this channel: a thread is one of its own, below its parent.

    None for a channel of a guild of which only the id is known: it may be a thread.
    """
    if isinstance(channel, discord.Thread):
        return Address(PLATFORM, account, str(channel.parent_id), str(channel.id))
    if isinstance(channel, discord.PartialMessageable) and channel.guild_id is not None:
        return None
    return Address(PLATFORM, account, str(channel.id))


def target_of(address: Address) -> int:
    """The channel to which a message of this conversation is sent."""
    return int(address.thread or address.channel)


def for_the_agent(message: discord.Message, me: int, known: Callable[[str], bool]) -> bool:
    """X4: whether the agent takes this message.

    Never its own or a webhook's. In a guild only what is `addressed` to it, or a person's command that is
    `known`. A bot's is handed in as such: it is served where the config names it, and nowhere else.
    """
    if message.author.id == me or message.webhook_id is not None or message.type not in _KINDS:
        return False
    if addressed(message, me):
        return True
    command = parse(message.content)
    return command is not None and not message.author.bot and known(command[0])


def addressed(message: discord.Message, me: int) -> bool:
    """Whether it is said to the agent: directly, by its name or that of its own role, or as an answer to it."""
    if not _in_guild(message) or any(one.id == me for one in message.mentions):
        return True
    role = message.guild.self_role if message.guild is not None else None
    if role is not None and role.id in message.raw_role_mentions:
        return True
    answered = message.reference.resolved if message.reference is not None else None
    return isinstance(answered, discord.Message) and answered.author.id == me


def message_of(message: discord.Message, address: Address, me: int) -> Message:
    """The message as it is handed in."""
    reference = message.reference
    answers = reference is not None and message.type is discord.MessageType.reply
    return Message(
        str(message.id),
        address,
        Author(str(message.author.id), message.author.display_name, message.author.bot),
        readable(message, me),
        tuple(_attachment(message, one) for one in _attachments(message)),
        str(reference.message_id) if answers and reference is not None else None,
        _in_guild(message),
        utf16(message.content) >= LIKELY_PARTIAL,
        message.created_at.timestamp(),
        addressed(message, me),
    )


def slash_of(interaction: discord.Interaction[Any], address: Address) -> Message:
    """A slash command as the text that it stands for."""
    data: Any = interaction.data or {}
    words = [str(one["value"]) for one in data.get("options", ()) if "value" in one]
    return _said(interaction, address, " ".join((f"/{data.get('name', '')}", *words)))


def custom_id(index: int, choice: Choice) -> str:
    """What Discord keeps of a button, so that a press is understood by any later process."""
    return f"hermes{index}:{choice.send}"


def press_of(interaction: discord.Interaction[Any], address: Address) -> Message | None:
    """The press of a button as the text that it stands for; None where it is not one of ours."""
    data: Any = interaction.data or {}
    ours = _PRESS.fullmatch(str(data.get("custom_id", "")))
    return _said(interaction, address, ours[1]) if ours is not None else None


def _said(interaction: discord.Interaction[Any], address: Address, text: str) -> Message:
    return Message(
        str(interaction.id),
        address,
        Author(str(interaction.user.id), interaction.user.display_name, interaction.user.bot),
        text,
        group=interaction.guild_id is not None,
        sent=interaction.created_at.timestamp(),
    )


def readable(message: discord.Message, me: int) -> str:
    """The text as people see it: names of people, roles, channels and emoji; the agent's own not at its ends."""
    text = message.content
    if not text and message.message_snapshots:  # a forwarded message has its text in the snapshot
        text = "\n".join(one.content for one in message.message_snapshots)
    own = f"<@!?{me}>"
    role = message.guild.self_role if message.guild is not None else None
    if role is not None:
        own = f"(?:{own}|<@&{role.id}>)"
    bare = re.sub(rf"^(?:\s*{own}[,:]?)+\s*|(?:\s*{own})+\s*$", "", text)
    kept = bare if bare or message.attachments else text
    people = {one.id: one.display_name for one in message.mentions}

    def name(match: re.Match[str]) -> str:
        if match[3]:
            return match[3]
        known, guild = people.get(int(match[2])), message.guild
        if match[1] == "@&":
            known = getattr(guild.get_role(int(match[2])), "name", None) if guild is not None else None
        elif match[1] == "#":
            place = guild.get_channel_or_thread(int(match[2])) if guild is not None else None
            known = getattr(place, "name", None)
        return f"{match[1][0]}{known.removeprefix('@')}" if known else match[0]

    return _SPELLED.sub(name, kept)


def _in_guild(message: discord.Message) -> bool:
    return message.guild is not None or getattr(message.channel, "guild_id", None) is not None


def _attachments(message: discord.Message) -> list[discord.Attachment]:
    forwarded = [one for snapshot in message.message_snapshots for one in snapshot.attachments]
    return [*message.attachments, *forwarded]


def _attachment(message: discord.Message, one: discord.Attachment) -> Attachment:
    ref = f"{message.channel.id}/{message.id}/{one.id} {one.url}"  # the link dies within a day
    name = (
        f"{one.title}{PurePath(one.filename).suffix}" if one.title else one.filename
    )  # it spells names anew
    return Attachment(name, one.content_type or "application/octet-stream", one.size, ref)
