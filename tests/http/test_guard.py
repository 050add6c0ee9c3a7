"""Where a callback may go: the address that is looked at is the address that is called."""

from __future__ import annotations

import asyncio
import ipaddress

import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.route import Problem
from hermes_jobs.http_callbacks import check_url, post
from hermes_jobs.http_guard import Forbidden, Guarded, is_public, literal
from tests.http.receiver import Receiver

INSIDE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255",
    "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::8.8.8.8",
    "64:ff9b::7f00:1", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "2002:7f00:1::", "2002:808:808::", "2001::1",
    "2001:db8::1", "100::1", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
    "3fff::1", "5f00::1", "not an address", "",
]  # fmt: skip
OUTSIDE = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.216.34",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
    "::ffff:8.8.8.8",
]
SPELLINGS = [
    ("2130706433", "127.0.0.1"), ("0x7f000001", "127.0.0.1"), ("0x7f.1", "127.0.0.1"), ("0177.0.0.1", "127.0.0.1"),
    ("017700000001", "127.0.0.1"), ("127.1", "127.0.0.1"), ("127.0.1", "127.0.0.1"), ("0", "0.0.0.0"),
    ("3232235777", "192.168.1.1"), ("0xa9fea9fe", "169.254.169.254"), ("[::1]", "::1"),
    ("[::ffff:7f00:1]", "::ffff:7f00:1"), ("example.org", None), ("localhost", None),
]  # fmt: skip


@pytest.mark.parametrize("address", INSIDE)
def test_what_is_not_open_to_everybody_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_what_everybody_can_reach_is_public(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses())
def test_nothing_that_python_calls_private_is_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    special = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
    mapped = getattr(address, "ipv4_mapped", None)
    if special and mapped is None:
        assert not is_public(str(address))
    if isinstance(address, ipaddress.IPv4Address):
        assert is_public(f"::ffff:{address}") == is_public(str(address))
        for tunnel in ("64:ff9b::", "::"):
            assert not is_public(f"{tunnel}{address}")


@pytest.mark.parametrize(("spelled", "meant"), SPELLINGS)
def test_an_address_is_known_in_every_spelling(spelled: str, meant: str | None) -> None:
    found = literal(spelled)
    assert (found and ipaddress.ip_address(found)) == (meant and ipaddress.ip_address(meant))


@pytest.mark.parametrize(
    "url",
    [
        *(f"http://{spelled}/" for spelled, meant in SPELLINGS if meant),
        "http://127.0.0.1:8765/jobs", "http://localhost/", "http://LOCALHOST./", "http://x.localhost/", "ftp://example.org/",
        "file:///etc/passwd", "http://", "http:///x", "http://me@example.org/", "http://example.org@127.0.0.1/",
        "http://example.org:99999/", "http://example.org\\@127.0.0.1/", "http://exa mple.org/", "http://ex\u00e4mple.org/",
        "http://example.org/\r\nHost: x", "", "example.org", "//example.org/", "http://[::1/", "gopher://example.org/",
    ],
)  # fmt: skip
def test_a_url_that_leads_inside_or_nowhere_is_refused_at_once(url: str) -> None:
    with pytest.raises(Problem) as refused:
        check_url(url, private=False)
    assert refused.value.status == 422


@pytest.mark.parametrize(
    "url", ["https://example.org/hook?x=1", "http://example.org:8080", "https://8.8.8.8/"]
)
def test_a_url_that_leads_outside_is_taken(url: str) -> None:
    check_url(url, private=False)


def test_inside_is_taken_where_the_config_allows_it_and_nothing_without_a_secret() -> None:
    check_url("http://127.0.0.1/", private=True)
    with pytest.raises(Problem, match="secret"):
        check_url("https://example.org/", private=None)


async def names(*addresses: str) -> list[str]:
    return list(addresses)


@pytest.mark.parametrize("address", [one for one in INSIDE if one])
async def test_a_name_that_stands_for_an_address_inside_is_not_called(address: str) -> None:
    guard = Guarded(lambda host, port: names(address))
    with pytest.raises(Forbidden):
        await guard.connect_tcp("example.org", 80, 1.0)


async def test_one_address_inside_refuses_them_all() -> None:
    guard = Guarded(lambda host, port: names("8.8.8.8", "127.0.0.1"))
    with pytest.raises(Forbidden):
        await guard.connect_tcp("example.org", 80, 1.0)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.1", "::1", "0.0.0.0", "0"]
)
async def test_no_spelling_of_this_machine_is_called(host: str) -> None:
    async with Receiver() as receiver:
        with pytest.raises(Forbidden):
            await Guarded().connect_tcp(host, receiver.port, 2.0)
        assert receiver.connections == 0, "not even to look whether somebody is there"


async def test_the_connection_goes_to_the_address_that_was_looked_at() -> None:
    """A name that stands for something else the next time changes nothing (DNS rebinding)."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async with Receiver() as receiver:
        send = post(Guarded(rebinding, private=True))
        url = f"http://name.invalid:{receiver.port}/hook"
        assert await send(url, {"webhook-id": "x"}, b"{}") == 204
        assert asked == ["name.invalid"], "it is asked for once, and the answer is what is called"
        assert receiver.got[0].headers["host"] == f"name.invalid:{receiver.port}"


async def test_each_attempt_looks_anew() -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    guard = Guarded(lambda host, port: names(*next(answers)))
    for _ in range(2):
        with pytest.raises(Forbidden):
            await post(guard)("http://name.invalid/", {}, b"")


async def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    async with Receiver() as receiver:
        guard = Guarded(lambda host, port: names("127.0.0.2", "127.0.0.1"), private=True)
        assert await post(guard)(receiver.url, {}, b"{}") == 204


async def test_a_name_without_an_address_is_no_connection() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    for resolve in (unknown, lambda host, port: names()):
        with pytest.raises(httpcore.ConnectError):
            await Guarded(resolve).connect_tcp("example.org", 80, 1.0)


async def test_a_redirect_is_not_followed() -> None:
    async with Receiver() as inside, Receiver(302, location=inside.url) as receiver:
        assert await post(Guarded(private=True))(receiver.url, {}, b"{}") == 302
        await asyncio.sleep(0)
        assert inside.connections == 0
