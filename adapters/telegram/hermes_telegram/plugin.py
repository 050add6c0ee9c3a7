"""The plugin: offers the adapter `telegram` and, for mode webhook, its route. The client library is imported
when the adapter is opened: a program that does not use it does not wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from hermes_core.adapter import Adapter, AdapterFactory, Form
from hermes_core.checks import Check, Setup
from hermes_core.config import Config
from hermes_core.hookspecs import hookimpl
from hermes_core.route import Problem, Request, Response, Route, Site
from hermes_telegram.check import SETUP, check
from hermes_telegram.settings import PATH, Webhook
from hermes_telegram.settings import Settings as TelegramSettings

if TYPE_CHECKING:
    from hermes_telegram.adapter import TelegramAdapter

__all__ = ["TelegramPlugin"]


class TelegramPlugin:
    """One bot on Telegram."""

    Settings: TypeAlias = TelegramSettings

    def __init__(self, settings: TelegramSettings | None = None) -> None:
        self._settings = settings or TelegramSettings()
        self._public_url = ""
        self._adapter: TelegramAdapter | None = None
        self._webhook: Webhook | None = None

    @hookimpl
    def hermes_configured(self, config: Config) -> None:
        """Where the server can be reached stands in a section of its own."""
        self._public_url = config.http.public_url

    @hookimpl
    def hermes_adapters(self) -> Iterable[AdapterFactory]:
        """The one adapter of this package."""
        people = Form("[0-9]+", "a number, such as 123456789, and never a name")
        return [AdapterFactory("telegram", self._open, people)]

    @hookimpl
    def hermes_routes(self, site: Site) -> Iterable[Route]:
        """The webhook, where it is wanted; Telegram knows no token of ours, so the route checks by itself."""
        return [Route("POST", PATH, self._brought, open=True)] if self._settings.mode == "webhook" else []

    @hookimpl
    def hermes_checks(self) -> Iterable[Check]:
        """Whether Telegram knows the bot."""
        return [Check("telegram", lambda: check(self._settings))]

    @hookimpl
    def hermes_setup(self) -> Iterable[Setup]:
        """What `hermes init` asks."""
        return [SETUP]

    def _open(self, options: Mapping[str, Any]) -> Adapter:
        """Options: `data_dir` (a folder; without it a restart forgets drafts and moved groups)."""
        from hermes_telegram.adapter import TelegramAdapter

        token = self._settings.token()
        self._settings.server()  # what is no address would be tried for ever
        if self._settings.mode == "webhook":
            self._webhook = Webhook.of(self._public_url, token)
        data_dir = options.get("data_dir")
        folder = Path(data_dir) / "telegram" if data_dir else None
        self._adapter = TelegramAdapter(token, self._settings, folder, self._webhook)
        return self._adapter

    async def _brought(self, request: Request) -> Response:
        given = request.headers.get("x-telegram-bot-api-secret-token", ("",))[0]
        if self._webhook is None or not self._webhook.knows(given):
            raise Problem(401, "The secret token is missing or wrong.")
        try:
            taken = self._adapter is not None and await self._adapter.brought(request.body)
        except msgspec.DecodeError as error:
            raise Problem(400, "The body is no update.") from error
        if not taken:
            raise Problem(503, "The message cannot be kept now.", headers={"Retry-After": "1"})
        return Response(200)
