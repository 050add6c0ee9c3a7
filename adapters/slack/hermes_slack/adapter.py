"""SlackAdapter: one app in one workspace. Assembles what takes in, what writes and what is shown beside it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from slack_bolt.app.async_app import AsyncApp

from hermes_core.adapter import Features, Gateway, Received, Sent, Shown, Working
from hermes_core.errors import HermesError, SendError
from hermes_core.messages import Address, Attachment, Outgoing
from hermes_core.pacing import Budget, Slot
from hermes_core.reading import Reading
from hermes_core.route import Problem, Request, Response
from hermes_core.writing import Journal, Style, Writing
from hermes_slack import render, socket, webhook
from hermes_slack.app import build
from hermes_slack.client import Client
from hermes_slack.convert import PLATFORM
from hermes_slack.files import Files
from hermes_slack.intake import Intake
from hermes_slack.limits import API, CHANNEL_RATES, MAX_FILE, MAX_TEXT, TEMPO, WORKSPACE_RATES
from hermes_slack.posts import Posts
from hermes_slack.signs import Signs

__all__ = ["App", "SlackAdapter"]

_TIMEOUT: Final = 30.0  # seconds for one call
_SAID_AGAIN: Final = 300.0  # seconds between two complaints about calls with a wrong signature

log = logging.getLogger("hermes.slack")


class App(msgspec.Struct, frozen=True):
    """How one app reaches Slack. Without an `app_token` it is reached over HTTP, with its `signing_secret`."""

    bot_token: str
    app_token: str = ""
    signing_secret: str = ""
    base_url: str = API
    follow_threads: bool = True
    native_streams: bool = True
    ping_interval: float = 5.0

    def __repr__(self) -> str:
        return f"App({self.base_url})"


class _Line(msgspec.Struct, frozen=True):
    """What lives as long as one connection."""

    bolt: AsyncApp
    posts: Posts
    files: Files
    signs: Signs


class SlackAdapter:
    """`Adapter` for Slack. `folder` keeps what another run needs (none: nothing); `wall`: seconds since 1970."""

    platform: str = PLATFORM
    features = Features(
        max_text=MAX_TEXT,
        drafts=True,
        status=True,
        receipts=True,
        lookup=True,
        edits=True,
        deletes=True,
        threads=True,
        downloads=True,
        max_file=MAX_FILE,
        buttons=True,
        catches_up=True,
    )

    def __init__(self, app: App, folder: Path | None = None, wall: Callable[[], float] = time.time) -> None:
        self._app = app
        self._folder = folder
        self._wall = wall
        self._writing = Writing(
            Style(render.cut, render.INTERRUPTED, render.whole, tempo=lambda address: TEMPO),
            Budget(lambda channel: CHANNEL_RATES, WORKSPACE_RATES, time.monotonic),
            Journal(self._path("drafts.lines")),
            wall=wall,
        )
        self._line: _Line | None = None
        # what stands there of messages that are not complete
        self._told: dict[str, Sequence[str | None]] = {}
        self._complained = -_SAID_AGAIN  # when a call with a wrong signature was last told of

    async def run(self, gateway: Gateway) -> None:
        """Connect and deliver until cancelled; see `Adapter.run`.

        `ConfigError` for tokens that Slack does not accept. Over Socket Mode lost connections are made
        again without end; over HTTP there is nothing to lose.
        """
        app = self._app
        logger = logging.getLogger("hermes.slack.client")
        logger.setLevel(logging.WARNING)  # the library writes every call out for a level that is not set
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT)) as session:
            client = Client(app.bot_token, app.base_url, session, logger, gateway.dated)
            me = await client.me()
            url = await client.address(app.app_token) if app.app_token else ""
            reading = Reading(self._path("seen.json"))
            intake = Intake(gateway, me, client, reading, self._wall, follow_threads=app.follow_threads)
            files = Files(client, self._path("files.json"))
            posts = Posts(
                client, files, intake.speaker, self._wall, time.monotonic, native=app.native_streams
            )
            bolt = build(client, intake, logger)

            def ready() -> None:
                gateway.ready()
                self._writing.spawn(reading.read_up(intake.read_on))

            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._writing.run(posts, gateway.settled, find=posts.find))
                    group.create_task(reading.keep())
                    await self._writing.connected()
                    signs = Signs(client, intake.speaker, self._writing.spawn, self._path("signs.json"))
                    self._line = _Line(bolt, posts, files, signs)
                    if app.app_token:
                        await socket.serve(bolt, app.app_token, url, gateway, ready, app.ping_interval)
                    else:
                        ready()
                        await asyncio.get_running_loop().create_future()
            finally:
                self._line = None
                reading.write()

    async def send(self, outgoing: Outgoing) -> Sent:
        """Deliver one message whole, with its files; waits as long as Slack wants, and a while for the connection."""
        slots = tuple(Slot(one, None) for one in self._told.pop(outgoing.key, ()))
        return await self._writing.send(outgoing, () if self._writing.begun(outgoing) else slots)

    async def find(self, key: str, address: Address) -> Sent | None:
        """Whether the message with this key stands there, by the metadata of what the agent posts (D5).

        What is there of it is kept for `send`.
        """
        await self._writing.connected()
        if self._line is None:  # it is just ending: whether anything stands there is not known
            raise SendError("There is no connection.", retry_after=0.0)
        if self._writing.unfinished(key, address):
            return None
        told = await self._line.posts.delivered(key, address)
        if told and None not in told:
            return Sent(tuple(one for one in told if one is not None))
        self._told[key] = told
        return None

    def show(self, address: Address, shown: Shown) -> None:
        """Show something passing. Never blocks."""
        if not isinstance(shown, Received):
            self._writing.show(address, shown)
        if self._line is not None:
            match shown:
                case Working():
                    self._line.signs.working(address, shown.activity)
                case Received():
                    self._line.signs.received(address, shown)

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The content of a file that came with a message; see `Downloads.fetch`."""
        if self._line is None:
            raise HermesError("Slack is not connected.", "Try it again in a moment.")
        return self._line.files.fetch(attachment)

    async def webhook(self, request: Request) -> Response:
        """Answer `POST /slack/events`: events, slash commands and interactivity (X3)."""
        now = self._wall()
        try:
            bolt = self._line.bolt if self._line is not None else None
            return await webhook.answer(request, self._app.signing_secret, bolt, now)
        except Problem as problem:
            if problem.status == HTTPStatus.UNAUTHORIZED and now - self._complained >= _SAID_AGAIN:
                self._complained = now
                log.error(
                    "a call of /slack/events was refused (401): its signature is missing, wrong or too old. If it "
                    "was Slack's: is the signing secret that of this app, does the proxy leave body and headers "
                    "as they are, and is the clock of this machine right?"
                )
            raise

    def _path(self, name: str) -> Path | None:
        return self._folder / name if self._folder is not None else None
