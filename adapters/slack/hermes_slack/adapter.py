"""SlackAdapter: one app in one workspace. Assembles what takes in, what writes and what is shown beside it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from hermes_core.adapter import Broken, Drafted, Features, Gateway, Progress, Received, Sent, Shown, Working
from hermes_core.errors import ConfigError, HermesError
from hermes_core.messages import Address, Attachment, Outgoing
from hermes_core.pacing import Budget
from hermes_core.route import Problem, Request, Response
from hermes_slack import socket, webhook
from hermes_slack.app import build
from hermes_slack.client import Client
from hermes_slack.convert import PLATFORM, Me
from hermes_slack.drafts import Drafts
from hermes_slack.faults import account_fault, send_error
from hermes_slack.files import Files, Uploads
from hermes_slack.history import History
from hermes_slack.intake import Intake
from hermes_slack.limits import API, CHANNEL_RATES, MAX_FILE, MAX_TEXT, WORKSPACE_RATES
from hermes_slack.names import Names
from hermes_slack.passing import Passing
from hermes_slack.posts import FAILURES
from hermes_slack.seen import Seen
from hermes_slack.streams import Streams
from hermes_slack.tasks import begin
from hermes_slack.writing import Writing

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
        self._bolt: AsyncApp | None = None
        self._files: Files | None = None
        self._passing: Passing | None = None
        self._writing: Writing | None = None
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
            me = await _me(client)
            url = await socket.address(client, app.app_token) if app.app_token else ""
            writing = self._writing_of_this_loop()
            seen = Seen(self._path("seen.json"))
            names = Names(client)
            intake = Intake(gateway, me, names, seen, self._wall, follow_threads=app.follow_threads)
            clock = asyncio.get_running_loop().time
            posts = Streams(client, self._wall, clock, intake.speaker, native=app.native_streams)
            uploads = Uploads(self._path("files.json"))
            files = self._files = Files(posts, session, uploads, app.bot_token, app.base_url)
            history = History(client, intake, seen, self._wall)
            async with asyncio.TaskGroup() as group:

                def ready() -> None:
                    gateway.ready()
                    begin(group, history.read_up())

                self._passing = Passing(posts, writing.budget, writing.drafts, intake.speaker, group)
                self._bolt = build(client, intake, logger)
                writing.start(posts, files, group)
                self._passing.tidy(writing.marks())
                begin(group, seen.keep())
                try:
                    if app.app_token:
                        await socket.serve(self._bolt, app.app_token, url, gateway, ready, app.ping_interval)
                    else:
                        ready()
                        await asyncio.get_running_loop().create_future()
                finally:
                    self._bolt = self._passing = self._files = None
                    writing.stop()
                    seen.write()

    async def send(self, outgoing: Outgoing) -> Sent:
        """Deliver one message whole; waits for the connection, and as long as Slack wants."""
        return await self._writing_of_this_loop().send(outgoing)

    async def find(self, key: str, address: Address) -> Sent | None:
        """Whether the message with this key stands there, by the metadata of what the agent posts (D5)."""
        return await self._writing_of_this_loop().find(key, address)

    def show(self, address: Address, shown: Shown) -> None:
        """Show something passing. Never blocks."""
        writing, passing = self._writing, self._passing
        match shown:
            case Drafted():
                self._writing_of_this_loop().drafted(address, shown)
            case Broken() if writing is not None:
                writing.broken(address, shown)
            case Working() if passing is not None:
                passing.working(address, shown.activity)
            case Received() if passing is not None:
                passing.received(address, shown)
            case Progress() if passing is not None:
                passing.progress(address, shown)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The content of a file that came with a message; see `Downloads.fetch`."""
        files = self._files
        if files is None:
            raise HermesError("Slack is not connected.", "Try it again in a moment.")
        async for piece in files.fetch(attachment):
            yield piece

    async def webhook(self, request: Request) -> Response:
        """Answer `POST /slack/events`: events, slash commands and interactivity (X3)."""
        now = self._wall()
        try:
            return await webhook.answer(request, self._app.signing_secret, self._bolt, now)
        except Problem as problem:
            if problem.status == HTTPStatus.UNAUTHORIZED and now - self._complained >= _SAID_AGAIN:
                self._complained = now
                log.error(
                    "a call of /slack/events was refused (401): its signature is missing, wrong or too old. If it "
                    "was Slack's: is the signing secret that of this app, does the proxy leave body and headers "
                    "as they are, and is the clock of this machine right?"
                )
            raise

    def _writing_of_this_loop(self) -> Writing:
        if self._writing is None:
            clock = asyncio.get_running_loop().time
            budget = Budget(lambda channel: CHANNEL_RATES, WORKSPACE_RATES, clock)
            self._writing = Writing(budget, Drafts(self._path("drafts.json")), self._wall)
        return self._writing

    def _path(self, name: str) -> Path | None:
        return self._folder / name if self._folder is not None else None


async def _me(client: AsyncWebClient) -> Me:
    try:
        answer = await client.auth_test()
    except FAILURES as error:
        if isinstance(error, SlackApiError) and (fault := account_fault(error, "bot_token_env")) is not None:
            raise fault from error
        raise send_error(error) from error
    user = answer.get("user_id")
    if not isinstance(user, str) or not answer.get("bot_id"):
        raise ConfigError(
            "[adapters.slack] bot_token_env: this is the token of a person, not of a bot.",
            "Take the Bot User OAuth Token (xoxb-…) from the app's page OAuth & Permissions.",
        )
    return Me(user, str(answer.get("user") or "hermes"), str(answer.get("team_id") or ""))
