"""Calls: what is asked of Discord about messages, each with its outcome as `SendError` says it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import discord

from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.writing import Doubt, Gone, Place
from hermes_discord.convert import custom_id, target_of
from hermes_discord.doubt import left_by
from hermes_discord.faults import outcome, unknown_message, unwanted
from hermes_discord.notebook import Notebook
from hermes_discord.render import Dresser, Piece, nonce

if TYPE_CHECKING:
    from discord.types.message import Message

__all__ = ["Calls"]

log = logging.getLogger("hermes.discord")


class Calls:
    """Those of one connection: `hermes_core.writing.Calls`, and what is asked and shown beside the texts.

    The notebook is told what was posted, and the dresser which files Discord does not take.
    """

    def __init__(self, line: discord.Client, notebook: Notebook, dresser: Dresser) -> None:
        self._line = line
        self._notebook = notebook
        self._dresser = dresser

    async def post(self, place: Place, content: Piece) -> str:
        """Post one message and give its id. The same place again, within minutes, finds the first one (D5)."""
        channel, mark = target_of(place.address), nonce(place)
        try:
            more = _carried(content, "files")
            if place.answers and place.answers.isdigit():
                more["message_reference"] = {
                    "message_id": int(place.answers),
                    "channel_id": channel,
                    "fail_if_not_exists": False,
                }
            # `send` of a channel, without the message that it makes of the answer: every reply passes here
            with discord.http.handle_message_parameters(
                content.text or None, nonce=mark, allowed_mentions=self._line.allowed_mentions, **more
            ) as parameters:
                async with outcome():
                    posted = await self._line.http.send_message(channel, params=parameters)
            id_ = str(posted["id"])
            if _less(posted, content):  # an earlier try is there
                await self.edit(place, id_, content)
        except (OSError, SendError) as error:
            self._leave_out(place, content, error)
            if unknown_message(error):  # the nonce finds a message that was deleted since
                raise Gone(str(error)) from error
            raise
        self._notebook.post(mark, id_)
        return id_

    async def edit(self, place: Place, id: str, content: Piece) -> str:
        """Replace what a message of ours shows. `permanent`: it is gone."""
        try:
            more = _carried(content, "attachments")
            async with outcome():
                await self._message(place.address, id).edit(content=content.text, **more)
        except (OSError, SendError) as error:
            self._leave_out(place, content, error)
            raise
        return id

    def _leave_out(self, place: Place, piece: Piece, error: Exception) -> None:
        """Where its files are why it is not taken, they are left out, and it is cut again: its text arrives."""
        why = unwanted(error) if piece.files else ""
        if why:
            log.warning("%d files of %s are not sent: %s", len(piece.files), place.key, error)
            self._dresser.leave_out(place.key, piece.files, why)
            raise SendError("The files are left out.", retry_after=0.0) from error

    async def delete(self, place: Place, id: str) -> str:
        """Remove a message of ours."""
        async with outcome():
            await self._message(place.address, id).delete()
        return id

    async def find(self, place: Place, doubt: Doubt) -> str | None:
        """The message of a post whose outcome is unknown: its nonce is known for minutes, the history for longer."""
        posted = self._notebook.posted()
        found = posted.get(nonce(place))  # the gateway was faster
        return found or left_by(doubt, await self.mine(place.address, place.answers), posted.values())

    async def mine(self, address: Address, after: str | None = None) -> list[discord.Message]:
        """The latest messages of the agent there, at most 100 looked at, oldest first; none where it may not look."""
        since = discord.Object(int(after)) if after and after.isdigit() else None
        place = self._line.get_partial_messageable(target_of(address))
        try:
            async with outcome():
                found = [
                    one async for one in place.history(limit=100, after=since, oldest_first=since is not None)
                ]
        except SendError as error:
            if not error.permanent:
                raise
            log.info("the history of %s cannot be read: %s", address, error)
            return []
        assert self._line.user is not None, "a history is read after the login"
        me = self._line.user.id
        return sorted((one for one in found if one.author.id == me), key=lambda one: one.id)

    async def typing(self, address: Address) -> None:
        """Show that the agent types; lasts for ten seconds or until it posts."""
        async with outcome():
            await self._line.http.send_typing(target_of(address))

    async def react(self, address: Address, id: str, emoji: str) -> None:
        """Put a reaction to a message."""
        async with outcome():
            await self._message(address, id).add_reaction(emoji)

    async def link(self, channel: int, message: int, file: int) -> str | None:
        """Where this file of a message is now; None where it is not there any more, or cannot be seen."""
        try:
            async with outcome():
                found = await self._line.get_partial_messageable(channel).fetch_message(message)
        except SendError as error:
            if error.permanent:
                return None
            raise
        forwarded = [one for snapshot in found.message_snapshots for one in snapshot.attachments]
        return next((one.url for one in (*found.attachments, *forwarded) if one.id == file), None)

    def _message(self, address: Address, id: str) -> discord.PartialMessage:
        return self._line.get_partial_messageable(target_of(address)).get_partial_message(int(id))


def _carried(piece: Piece, files: str) -> dict[str, Any]:
    """What a message has beside its text; its files, under this name. `OSError` for one that cannot be opened."""
    more: dict[str, Any] = {files: opened} if (opened := _opened(piece)) else {}
    if piece.choices:
        more["view"] = _row(piece)
    return more


def _opened(piece: Piece) -> list[discord.File]:
    """The files of a message, to be read while they are sent; the library closes them."""
    opened: list[discord.File] = []
    try:
        for one in piece.files:
            opened.append(discord.File(one.ref, filename=one.name))  # noqa: PERF401 - what is open is closed
    except OSError:
        for file in opened:
            file.close()
        raise
    return opened


def _row(piece: Piece) -> discord.ui.View:
    """The buttons of a message. Nothing of them is kept here: a press says itself what it means."""
    view = discord.ui.View(timeout=None)
    for index, choice in enumerate(piece.choices):
        view.add_item(discord.ui.Button(label=choice.label, custom_id=custom_id(index, choice)))
    view.stop()
    return view


def _less(posted: Message, piece: Piece) -> bool:
    """Whether a message that was just posted shows less than was asked for."""
    if len(posted["attachments"]) < len(piece.files):
        return True
    shown = posted["content"]
    return shown != piece.text and _bare(shown) != _bare(piece.text)


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text))
