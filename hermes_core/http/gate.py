"""Gate: who may call. A token where one is configured, else nobody but this machine."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Sequence

from hermes_core.config import Config
from hermes_core.errors import ConfigError
from hermes_core.route import Problem

__all__ = ["Gate", "is_loopback"]


class Gate:
    """`ConfigError` where the server can be reached from elsewhere and no token is configured."""

    def __init__(self, config: Config) -> None:
        self._token = config.secret("http.token_env", config.http.token_env)
        if self._token is None and not is_loopback(config.http.host):
            place = config.place("http.host")
            raise ConfigError(
                f"{place + ': ' if place else ''}http.host {config.http.host!r} can be reached from elsewhere,"
                " and there is no token.",
                'Set [http] token_env = "HERMES_HTTP_TOKEN" and that variable, or listen on 127.0.0.1.',
            )

    @property
    def has_token(self) -> bool:
        """Whether callers must send one."""
        return self._token is not None

    def caller(self, authorization: Sequence[str], host: Sequence[str]) -> str:
        """Who calls, of these headers; `Problem` for who may not."""
        if self._token is None:
            # A web page can make a browser on this machine call us under a name of its own (DNS rebinding).
            if len(host) != 1 or not is_loopback(_without_port(host[0])):
                raise Problem(403, "This server answers only under the name of this machine: localhost.")
            return "local"
        words = authorization[0].split() if len(authorization) == 1 else []
        given = words[1] if len(words) == 2 and words[0].lower() == "bearer" else ""
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            raise Problem(
                401,
                "The token is missing or wrong.",
                "Send it as: Authorization: Bearer …",
                headers={"WWW-Authenticate": 'Bearer realm="hermes"'},
            )
        return "token"


def is_loopback(host: str) -> bool:
    """Whether this name or address can mean nothing but this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host
