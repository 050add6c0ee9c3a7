"""Settings of `[adapters.telegram]`. Imports nothing of the client library."""

from __future__ import annotations

import hashlib
import hmac
from typing import Annotated, Final

import msgspec

from hermes_core.config import Secrets, address
from hermes_core.errors import ConfigError

__all__ = ["PATH", "Settings", "Webhook"]

PATH: Final = "/telegram/webhook"
_API: Final = "https://api.telegram.org"

Quotes = Annotated[str, msgspec.Meta(extra={"choices": ("auto", "always")})]
Mode = Annotated[str, msgspec.Meta(extra={"choices": ("polling", "webhook")})]


class Settings(msgspec.Struct, frozen=True):
    """`base_url`: root of the Bot API server. `local_server`: that server is one's own, begun with `--local`,
    and takes files of up to 2 GB. `drafts`: show replies while they are written. `pings`: names with an @ in
    replies ring (R4). `quotes`: in private chats, reply natively to what is not the latest message ("auto"), or
    always; groups always are. `paced`: keep Telegram's limits; False for a server without any.
    """

    token_env: str = "TELEGRAM_BOT_TOKEN"  # noqa: S105 - the name of a variable
    mode: Mode = "polling"
    base_url: str = _API
    local_server: bool = False
    drafts: bool = True
    pings: bool = False
    quotes: Quotes = "auto"
    paced: bool = True
    secrets: Secrets = msgspec.field(default_factory=Secrets)

    def server(self) -> str:
        """The root of the Bot API server; `ConfigError` where it is no address."""
        return address("adapters.telegram.base_url", self.base_url, _API).rstrip("/")

    def token(self) -> str:
        """The bot's token; `ConfigError` where there is none, or it has not the form of one."""
        token = self.secrets.need("adapters.telegram.token_env", self.token_env)
        number, colon, rest = token.partition(":")
        if not (number.isdigit() and colon and rest):
            raise ConfigError(
                f"What {self.token_env} holds is not a Telegram token.",
                "It looks like 123456:ABC…, as @BotFather gives it.",
            )
        return token


class Webhook(msgspec.Struct, frozen=True):
    """Where Telegram brings updates, and the secret by which it is known (X3)."""

    url: str
    secret: str

    @classmethod
    def of(cls, public_url: str, token: str) -> Webhook:
        """The webhook below `public_url`; its secret follows from the token, and tells nothing about it."""
        if not public_url:
            raise ConfigError(
                'adapters.telegram.mode is "webhook", but nobody knows where this server can be reached.',
                'Set [http] public_url = "https://…", or mode = "polling".',
            )
        secret = hmac.new(token.encode(), b"telegram webhook", hashlib.sha256).hexdigest()
        return cls(public_url.rstrip("/") + PATH, secret)

    def knows(self, given: str) -> bool:
        """Whether a caller gave the secret; takes the same time for every wrong one."""
        return hmac.compare_digest(self.secret.encode(), given.encode())
