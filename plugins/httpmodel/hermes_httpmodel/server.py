"""What `[model]` says about a server, checked."""

from __future__ import annotations

from dataclasses import dataclass, field

import httpx

from hermes_core.config import ModelSettings
from hermes_core.errors import ConfigError

__all__ = ["Provider", "Server"]


@dataclass(frozen=True)
class Provider:
    """Who a plugin is for: its `name` for people, its own address, and the variable of its own key.

    `model` and `example` stand in advice: a model's name and the address of another server.
    """

    name: str
    base_url: str
    variable: str
    model: str
    example: str

    def is_own(self, url: httpx.URL) -> bool:
        """Whether `url` leads to this provider itself: same scheme, host and port."""
        own = httpx.URL(self.base_url)
        return (url.scheme, url.host, url.port) == (own.scheme, own.host, own.port)


@dataclass(frozen=True)
class Server:
    """A model's name, the address of its server (no slash at the end), the key and the time without a byte.

    `images`: whether pictures are sent to it.
    """

    name: str
    base_url: str
    key: str | None = field(repr=False)
    timeout: float
    images: bool = False

    @classmethod
    def of(cls, settings: ModelSettings, provider: Provider) -> Server:
        """The server that `[model]` describes; `ConfigError` names the key that is wrong."""
        if not settings.name.strip():
            raise ConfigError(
                "[model] name is missing.", f'Name the model to use, for example name = "{provider.model}".'
            )
        base_url = settings.base_url.strip().rstrip("/") or provider.base_url
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL:
            url = httpx.URL()
        if url.scheme not in ("http", "https") or not url.host:
            raise ConfigError("[model] base_url is no address.", f'It looks like "{provider.example}".')
        if settings.timeout <= 0:
            raise ConfigError(
                "[model] timeout must be more than 0.", "It is the time without a byte, in seconds."
            )
        images = provider.is_own(url) if settings.images == "auto" else settings.images == "yes"
        return cls(settings.name.strip(), base_url, _key(settings, provider, url), settings.timeout, images)


def _key(settings: ModelSettings, provider: Provider, url: httpx.URL) -> str | None:
    """The API key. A provider's own variable is read for its own address only: a key goes nowhere else."""
    key = settings.secret()
    if key is None and provider.is_own(url):
        try:
            key = settings.secrets.read("model.api_key_env", provider.variable)
        except ConfigError:
            raise ConfigError(
                f"[model]: {provider.name} wants an API key, and {provider.variable} is not set.",
                "Set it before the start, or name another variable in api_key_env, or another server in base_url.",
            ) from None
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(
            "[model] api_key_env names a variable that holds no API key.",
            "A key is one word of plain characters.",
        )
    return key
