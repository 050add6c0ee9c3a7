"""Guard: connections only to addresses that are open to everybody, so that a callback reaches nothing inside.

What counts is the address that the name stands for at this very attempt, however it is spelled; and the
connection is made to exactly the address that was looked at, so a name that changes in between (DNS
rebinding) changes nothing. A name that has one address inside is refused with all of them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import httpcore

__all__ = ["Forbidden", "Guarded", "Resolve", "is_public", "literal", "resolve"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]

_NOT_PUBLIC: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",
            "100.64.0.0/10",  # behind the NAT of a provider
            "192.0.0.0/24",
            "192.88.99.0/24",  # relays of 6to4
            "224.0.0.0/3",  # multicast, reserved, broadcast
            "::/96",  # IPv4 in its old dress
            "64:ff9b::/96",  # NAT64: an IPv4 address behind a translator
            "64:ff9b:1::/48",
            "100::/64",
            "2001::/23",  # Teredo and other protocols' own
            "2001:db8::/32",
            "2002::/16",  # 6to4: an IPv4 address in it
            "3fff::/20",
            "5f00::/16",
            "fc00::/7",
            "fe80::/9",  # link-local, and the site-local of old
            "ff00::/8",
        ),
    )
)


class Forbidden(Exception):
    """The address must not be called."""


def is_public(text: str) -> bool:
    """Whether this address is one that everybody on the internet can reach."""
    try:
        address: Address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return False
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
    return address.is_global and not any(
        address in network for network in _NOT_PUBLIC if network.version == address.version
    )


def literal(host: str) -> str | None:
    """The address that `host` is in one of its spellings (decimal, octal, hex, short); None for a name."""
    bare = host.strip("[]")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(bare))
    except OSError:
        return None


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system gives them now."""
    known = literal(host)
    if known is not None:
        return [known]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


class Guarded(httpcore.AsyncNetworkBackend):
    """Looks at each address before it connects, and connects to that."""

    def __init__(self, resolve: Resolve = resolve, *, private: bool = False) -> None:
        self._resolve = resolve
        self._private = private
        self._real = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that answers; `Forbidden` where one is not public."""
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError("the name is not known") from error
        if not self._private and not all(map(is_public, addresses)):
            raise Forbidden
        failure: Exception = httpcore.ConnectError("the name has no address")
        for address in addresses:
            try:
                return await self._real.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._real.sleep(seconds)
