"""The plugin: offers the adapter `slack`, and its route where it is reached over HTTP. Imports no client library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hermes_core.adapter import Adapter, AdapterFactory, Form
from hermes_core.checks import Check, Finding, Setup
from hermes_core.config import Config, Secrets, address
from hermes_core.errors import ConfigError
from hermes_core.hookspecs import hookimpl
from hermes_core.route import Problem, Request, Response, Route, Site
from hermes_slack.check import check, setup

if TYPE_CHECKING:
    from hermes_slack.adapter import App, SlackAdapter

__all__ = ["SlackPlugin"]

_API = "https://slack.com/api/"


class SlackPlugin:
    """An agent in Slack."""

    class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """`[adapters.slack]`.

        `mode`: "socket" needs `app_token_env`, "http" needs `signing_secret_env` and the `[http]` server.
        `base_url`: another server's Web API. `follow_threads`: in a thread in which the agent was addressed
        it answers without being mentioned again. `native_streams`: in threads, Slack itself shows a text while it
        is written; without it, that is done by edits.
        """

        bot_token_env: str = "SLACK_BOT_TOKEN"  # noqa: S105 - names of variables, not secrets
        app_token_env: str = "SLACK_APP_TOKEN"  # noqa: S105
        signing_secret_env: str = "SLACK_SIGNING_SECRET"  # noqa: S105
        mode: Literal["socket", "http"] = "socket"
        base_url: str = _API
        follow_threads: bool = True
        native_streams: bool = True
        secrets: Secrets = msgspec.field(default_factory=Secrets)

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or self.Settings()
        self._adapter: SlackAdapter | None = None
        self._served = True

    @hookimpl
    def hermes_configured(self, config: Config) -> None:
        """Whether there is a server that Slack can call."""
        self._served = config.given("http")

    @hookimpl
    def hermes_adapters(self) -> Iterable[AdapterFactory]:
        """The one adapter of this package."""
        people = Form("[UW][A-Z0-9]+", "the member ID, such as U024BE7LH, and never a name")
        return [AdapterFactory("slack", self._open, people)]

    @hookimpl
    def hermes_routes(self, site: Site) -> Iterable[Route]:
        """`POST /slack/events`, in mode "http"; it checks its callers by their signature (X3)."""
        if self._settings.mode != "http":
            return ()
        return [Route("POST", "/slack/events", self._webhook, open=True)]

    @hookimpl
    def hermes_checks(self) -> Iterable[Check]:
        """Whether Slack accepts the tokens."""
        return [Check("slack", self._look)]

    @hookimpl
    def hermes_setup(self) -> Iterable[Setup]:
        """What `hermes init` asks."""
        return [setup()]

    async def _look(self) -> Finding:
        return await check(self._app())

    async def _webhook(self, request: Request) -> Response:
        if self._adapter is None:
            raise Problem(503, "The agent is not connected yet.", headers={"Retry-After": "5"})
        return await self._adapter.webhook(request)

    def _open(self, options: Mapping[str, Any]) -> Adapter:
        from hermes_slack.adapter import SlackAdapter  # aiohttp takes longer to import than a start may

        data_dir = options.get("data_dir")
        self._adapter = SlackAdapter(self._app(), Path(data_dir) / "slack" if data_dir else None)
        return self._adapter

    def _app(self) -> App:
        from hermes_slack.adapter import App

        settings = self._settings
        socket = settings.mode == "socket"
        if not socket and not self._served:
            raise ConfigError(
                '[adapters.slack] mode = "http" needs the server that Slack calls, and there is none.',
                'Add the section [http] with a port, or take mode = "socket".',
            )
        other = (
            ("app_token_env", settings.app_token_env)
            if socket
            else ("signing_secret_env", settings.signing_secret_env)
        )
        bot_token, second = settings.secrets.need_each(
            {
                f"adapters.slack.{key}": name
                for key, name in (("bot_token_env", settings.bot_token_env), other)
            }
        )
        return App(
            bot_token,
            second if socket else "",
            "" if socket else second,
            address("adapters.slack.base_url", settings.base_url, _API).rstrip("/") + "/",
            settings.follow_threads,
            settings.native_streams,
        )
