"""Line: the calls to Discord, each with its outcome as `SendError` says it, and the connection itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import discord
import yarl
from discord.state import ConnectionState

from hermes_core.errors import ConfigError, HermesError, SendError
from hermes_discord.convert import custom_id
from hermes_discord.limits import LONGEST_PAUSE, PATIENCE
from hermes_discord.render import Piece

if TYPE_CHECKING:
    from discord.types.message import Message

__all__ = ["Line", "dates", "outcome", "unknown_message", "unwanted"]

log = logging.getLogger("hermes.discord")

SERVER: Final = "https://discord.com/api/v10"
GATEWAY: Final = "wss://gateway.discord.gg/"
CONNECTIONS: Final = 100  # to one host: a new one for each of many calls would cost more than the call
DATED: Final = 60.0  # seconds between two looks at the time by the clock of the platform
CLOSING: Final = 0.7  # seconds that the end of the connection may take
UNKNOWN_MESSAGE: Final = 10008
TOO_LARGE: Final = 40005
_NEVER: Final = frozenset({403, 404})
_SESSION: Final = ("READY", "RESUMED")  # without these there is no connection
_INTENTS: Final = (
    'Turn on "Message Content Intent" for the application (Discord developer portal, Bot), or set '
    "message_content = false in [adapters.discord]: then only direct messages and mentions are read."
)


def dates(dated: Callable[[str | None], None], every: float = DATED) -> aiohttp.TraceConfig:
    """Hands on when the server answered, at the first answer and then once in `every` seconds.

    While it looks, it costs each call a tenth of its work; so it stands aside in between.
    """

    async def look(
        session: aiohttp.ClientSession, context: object, ended: aiohttp.TraceRequestEndParams
    ) -> None:
        dated(ended.response.headers.get("Date"))
        if trace in session.trace_configs:
            session.trace_configs.remove(trace)
            asyncio.get_running_loop().call_later(every, session.trace_configs.append, trace)

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(look)
    return trace


class Line(discord.Client):
    """discord.py's client, pointed at a server, handing every event to `told` before anything else.

    `told` gives False for an event that the library may dispatch as usual. The library's server is an
    attribute of its classes, so one process talks to one server. `dated`: see `Gateway.dated`.
    """

    def __init__(
        self,
        told: Callable[[str, tuple[Any, ...]], bool],
        *,
        base_url: str = "",
        gateway_url: str = "",
        message_content: bool = True,
        heartbeat_timeout: float = 60.0,
        dated: Callable[[str | None], None] = lambda header: None,
    ) -> None:
        discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # nobody speaks here
        intents = discord.Intents(
            guilds=True, guild_messages=True, dm_messages=True, message_content=message_content
        )
        super().__init__(
            intents=intents,
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=CONNECTIONS),
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=0.2,
            heartbeat_timeout=heartbeat_timeout,
            max_ratelimit_timeout=LONGEST_PAUSE,
            http_trace=dates(dated),
        )
        self._told = told
        parsers = self._connection.parsers
        parsers.update({name: _read(name, parse) for name, parse in parsers.items() if name not in _SESSION})
        discord.http.Route.BASE = base_url.rstrip("/") or SERVER
        discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(gateway_url or GATEWAY)

    def _get_state(self, **options: Any) -> ConnectionState[Any]:
        return _State(
            dispatch=self.dispatch, handlers=self._handlers, hooks=self._hooks, http=self.http, **options
        )

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        """Hand an event on, in the order in which they come."""
        if not self._told(event, args):
            super().dispatch(event, *args, **kwargs)

    async def serve(self, token: str) -> None:
        """Log in and stay connected until cancelled; the library reconnects and resumes by itself.

        `ConfigError` where trying again is of no use; another error where it is. Never returns.
        """
        try:
            await self.start(token)
        except discord.LoginFailure as error:
            raise _token_refused() from error
        except discord.PrivilegedIntentsRequired as error:
            raise ConfigError("Discord does not let this bot read messages (4014).", _INTENTS) from error
        except discord.ConnectionClosed as error:
            if error.code == 4004:
                raise _token_refused() from error
            if error.code == 4011:
                raise ConfigError(
                    "Discord wants this bot on several connections (4011), and it has one.",
                    "It is in more servers than one connection may serve: let it leave some.",
                ) from error
            raise HermesError(f"Discord closed the connection for good ({error.code}).") from error
        except AttributeError as error:
            # the library's own fault when its very first connection fails: there is nothing to resume
            if self.ws is not None:
                raise
            raise HermesError("Discord's gateway cannot be reached.") from error
        finally:
            await self._end()
        raise HermesError("The connection to Discord has ended.")

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(CLOSING):
                await self.close()
        except TimeoutError:
            log.info("Discord did not answer the end of the connection")
            await self.http.close()

    # -- calls

    async def post(self, channel: int, piece: Piece, nonce: str, answers: int | None = None) -> str:
        """Post one message and give its id. The same nonce again, within minutes, finds the first one (D5).

        `OSError` for a file that cannot be opened.
        """
        more: dict[str, Any] = {"files": opened} if (opened := _opened(piece)) else {}
        if piece.choices:
            more["view"] = _row(piece)
        if answers is not None:
            more["message_reference"] = {
                "message_id": answers,
                "channel_id": channel,
                "fail_if_not_exists": False,
            }
        # `send` of a channel, without the message that it makes of the answer: every reply passes here
        with discord.http.handle_message_parameters(
            piece.text or None, nonce=nonce, allowed_mentions=self.allowed_mentions, **more
        ) as parameters:
            async with outcome():
                posted = await self.http.send_message(channel, params=parameters)
        if _less(posted, piece):  # an earlier try is there
            await self.edit(channel, str(posted["id"]), piece)
        return str(posted["id"])

    async def edit(self, channel: int, id: str, piece: Piece) -> str:
        """Replace what a message of ours shows. `OSError` for a file that cannot be opened."""
        more: dict[str, Any] = {"attachments": opened} if (opened := _opened(piece)) else {}
        if piece.choices:
            more["view"] = _row(piece)
        async with outcome():
            message = self.get_partial_messageable(channel).get_partial_message(int(id))
            await message.edit(content=piece.text, **more)
        return id

    async def remove(self, channel: int, id: str) -> str:
        """Delete a message of ours."""
        async with outcome():
            await self.get_partial_messageable(channel).get_partial_message(int(id)).delete()
        return id

    async def react(self, channel: int, id: str, emoji: str) -> None:
        """Put a reaction to a message."""
        async with outcome():
            await self.get_partial_messageable(channel).get_partial_message(int(id)).add_reaction(emoji)

    async def type(self, channel: int) -> None:
        """Show that the agent types; lasts for ten seconds or until it posts."""
        async with outcome():
            await self.http.send_typing(channel)

    async def mine(self, channel: int, after: int | None = None) -> list[discord.Message]:
        """The latest messages of the agent in this channel, at most 100 looked at, oldest first."""
        since = discord.Object(after) if after is not None else None
        async with outcome():
            place = self.get_partial_messageable(channel)
            found = [
                one async for one in place.history(limit=100, after=since, oldest_first=after is not None)
            ]
        assert self.user is not None, "a history is read after the login"
        return sorted((one for one in found if one.author.id == self.user.id), key=lambda one: one.id)

    async def link(self, channel: int, message: int, file: int) -> str | None:
        """Where this file of a message is now; None where it is not there any more, or cannot be seen."""
        try:
            async with outcome():
                found = await self.get_partial_messageable(channel).fetch_message(message)
        except SendError as error:
            if error.permanent:
                return None
            raise
        forwarded = [one for snapshot in found.message_snapshots for one in snapshot.attachments]
        return next((one.url for one in (*found.attachments, *forwarded) if one.id == file), None)


def _read(name: str, parse: Callable[[Any], None]) -> Callable[[Any], None]:
    """The library's reader of one kind of event; what it cannot read is left out."""

    def read(data: Any) -> None:
        try:
            parse(data)
        except Exception as error:  # the edge to foreign data: else the library ends the connection for it
            log.error("an event %s of Discord cannot be read and is left out", name, exc_info=error)

    return read


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


class _State(ConnectionState[Any]):
    """What the library knows of the platform, less the messages that the agent itself has posted.

    The platform tells of each of them, and only its ids are of use: `told` gets them as "posted".
    """

    def parse_message_create(self, data: Any) -> None:
        """A message was written."""
        if data["author"]["id"] != str(self.self_id) or "webhook_id" in data:
            super().parse_message_create(data)
            return
        mark = data.get("nonce")
        self.dispatch("posted", int(data["channel_id"]), data["id"], None if mark is None else str(mark))


def _less(posted: Message, piece: Piece) -> bool:
    """Whether a message that was just posted shows less than was asked for."""
    if len(posted["attachments"]) < len(piece.files):
        return True
    shown = posted["content"]
    return shown != piece.text and _bare(shown) != _bare(piece.text)


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _token_refused() -> ConfigError:
    return ConfigError(
        "Discord refuses the bot's token.", "Copy it anew from the developer portal (Bot, Reset Token)."
    )


@asynccontextmanager
async def outcome() -> AsyncIterator[None]:
    """Turn what a call raises into a `SendError` that says whether and when to try again."""
    try:
        async with asyncio.timeout(PATIENCE):
            yield
    except discord.RateLimited as error:
        raise SendError("Discord asks for a pause.", retry_after=error.retry_after) from error
    except discord.HTTPException as error:
        raise _refused(error) from error
    except aiohttp.ClientConnectorError as error:  # no request was written
        raise SendError("Discord cannot be reached.") from error
    except (TimeoutError, OSError, aiohttp.ClientError) as error:
        raise SendError("The connection to Discord broke.", unknown=True) from error
    except RuntimeError as error:  # "Session is closed": the connection is just being made anew
        raise SendError("There is no connection to Discord.", retry_after=1.0) from error


def unknown_message(error: SendError) -> bool:
    """Whether Discord says that a message is not there, rather than its channel."""
    return isinstance(error.__cause__, discord.NotFound) and error.__cause__.code == UNKNOWN_MESSAGE


def unwanted(error: SendError) -> str:
    """Why Discord does not take a message with files, in words; "" where the files are no reason."""
    cause = error.__cause__
    if not isinstance(cause, discord.HTTPException):
        return ""
    if cause.status == 413 or cause.code == TOO_LARGE:
        return "too large for Discord"
    return "Discord does not let me attach files here" if cause.status in (400, 403) else ""


def _refused(error: discord.HTTPException) -> SendError:
    text = f"Discord refuses it: {error.status} {error.code} {error.text}".rstrip()
    if (
        error.status == 429
    ):  # without the platform's own mark: its front door, which says no number in the body
        wait = error.response.headers.get("Retry-After", "60")
        return SendError(text, retry_after=float(wait) if wait.replace(".", "", 1).isdigit() else 60.0)
    if error.status >= 500:
        return SendError(text, unknown=True)
    return SendError(text, permanent=error.status in _NEVER or error.status == 400)
