"""The plugin: offers the adapter `discord`. Light: discord.py is imported when the adapter is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from hermes_core.adapter import Adapter, AdapterFactory, Form
from hermes_core.checks import Check, Finding, Setup
from hermes_core.config import Secrets, address
from hermes_core.hookspecs import hookimpl
from hermes_discord.check import SETUP, check
from hermes_discord.limits import PLATFORM, REQUESTS

__all__ = ["DiscordPlugin"]

_API: Final = "https://discord.com/api/v10"
_GATEWAY: Final = "wss://gateway.discord.gg"


class DiscordPlugin:
    """One bot on Discord."""

    class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """`[adapters.discord]`.

        `token_env`: the variable that holds the bot's token. `base_url`, `gateway_url`: another server.
        `message_content`: ask for the privileged intent. `slash`: register commands with Discord.
        `requests`: how many a second Discord allows this bot.
        """

        token_env: str = "DISCORD_BOT_TOKEN"  # noqa: S105 - the name of a variable
        base_url: str = ""
        gateway_url: str = ""
        message_content: bool = True
        slash: bool = True
        requests: Annotated[float, msgspec.Meta(ge=1)] = REQUESTS
        secrets: Secrets = msgspec.field(default_factory=Secrets)

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or self.Settings()

    @hookimpl
    def hermes_adapters(self) -> Iterable[AdapterFactory]:
        """The one adapter of this package."""
        people = Form("[0-9]+", "a number, such as 80351110224678912, and never a name")
        return [AdapterFactory(PLATFORM, self._open, people)]

    @hookimpl
    def hermes_checks(self) -> Iterable[Check]:
        """Whether Discord knows the bot, and lets it read."""

        async def look() -> Finding:
            settings = self._settings
            base_url, _ = self._servers()
            return await check(self._token(), base_url, settings.token_env, settings.message_content)

        return [Check(PLATFORM, look)]

    @hookimpl
    def hermes_setup(self) -> Iterable[Setup]:
        """What `hermes init` asks."""
        return [SETUP]

    def _token(self) -> str:
        return self._settings.secrets.need("adapters.discord.token_env", self._settings.token_env)

    def _servers(self) -> tuple[str, str]:
        """The addresses of REST API and gateway, as far as other ones than Discord's are wanted."""
        settings = self._settings
        rest = settings.base_url and address("adapters.discord.base_url", settings.base_url, _API)
        gateway = settings.gateway_url and address(
            "adapters.discord.gateway_url", settings.gateway_url, _GATEWAY
        )
        return rest, gateway

    def _open(self, options: Mapping[str, Any]) -> Adapter:
        """Options: `data_dir`, where the adapter keeps what it has seen; without it nothing is kept."""
        from hermes_discord.adapter import DiscordAdapter  # half a second that a start without Discord saves

        settings = self._settings
        data_dir = options.get("data_dir")
        base_url, gateway_url = self._servers()
        return DiscordAdapter(
            self._token(),
            base_url=base_url,
            gateway_url=gateway_url,
            message_content=settings.message_content,
            slash=settings.slash,
            requests=settings.requests,
            notebook=Path(data_dir) / PLATFORM / "notebook.json" if data_dir else None,
        )
