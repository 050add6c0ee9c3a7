"""Line: the connection to Discord, and what is handed on of what comes over it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import aiohttp
import discord
import yarl
from discord.state import ConnectionState

from hermes_core.errors import ConfigError, HermesError, reason
from hermes_discord.limits import LONGEST_PAUSE

__all__ = ["Line", "dates"]

log = logging.getLogger("hermes.discord")

SERVER: Final = "https://discord.com/api/v10"
GATEWAY: Final = "wss://gateway.discord.gg/"
CONNECTIONS: Final = 100  # to one host: a new one for each of many calls would cost more than the call
DATED: Final = 60.0  # seconds between two looks at the time by the clock of the platform
CLOSING: Final = 0.7  # seconds that the end of the connection may take
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
        except (aiohttp.ClientConnectionError, OSError) as error:
            raise HermesError("Discord cannot be reached.") from error
        except AttributeError as error:
            # the library's own fault when its very first connection fails: there is nothing to resume
            if self.ws is not None:
                raise
            raise HermesError("Discord's gateway cannot be reached.") from error.__context__
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


def _read(name: str, parse: Callable[[Any], None]) -> Callable[[Any], None]:
    """The library's reader of one kind of event; what it cannot read is left out."""

    def read(data: Any) -> None:
        try:
            parse(data)
        except Exception as error:  # the edge to foreign data: else the library ends the connection for it
            what = "an event %s of Discord cannot be read and is left out: %s"
            log.error(what, name, reason(error), exc_info=error)

    return read


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


def _token_refused() -> ConfigError:
    return ConfigError(
        "Discord refuses the bot's token.", "Copy it anew from the developer portal (Bot, Reset Token)."
    )
