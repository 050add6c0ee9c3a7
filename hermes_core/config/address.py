"""Addresses of servers in the config, looked at before anything connects: what is none would be tried for ever."""

from __future__ import annotations

from urllib.parse import urlsplit

from hermes_core.errors import ConfigError

__all__ = ["address"]


def address(key: str, url: str, example: str) -> str:
    """The `url` that stands under this dotted key, without spaces around it.

    `ConfigError` where it has no host, or another scheme than the `example` has, with and without TLS. It never
    shows the address, which may have a password in it (X2).
    """
    secure = urlsplit(example).scheme
    try:
        parts = urlsplit(url.strip())
        fits = parts.scheme in (secure, secure.removesuffix("s")) and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, say
        fits = False
    if not fits:
        raise ConfigError(f"{key} is no address.", f'It looks like "{example}".')
    return url.strip()
