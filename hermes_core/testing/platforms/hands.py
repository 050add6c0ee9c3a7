"""Hands: the three fakes as people use them, in one form: write in a direct chat or in a room, and see what is shown.

async with hands("slack") as slack:
    ...                                       # hermes with slack.settings and slack.tokens
    await slack.say("ann", False, "hello")
    list(slack.shown())                       # ("", "1.2", "you said: hello")
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from hermes_core.errors import HermesError

__all__ = ["NAMES", "PEOPLE", "Hands", "Line", "hands", "read"]

NAMES: Final = ("telegram", "slack", "discord")
PEOPLE: Final = ("ann", "bob")
_MENTION: Final = "@hermes"


class Line(NamedTuple):
    """What somebody writes somewhere: `[PERSON@]PLATFORM[/room] TEXT`."""

    platform: str
    person: str
    room: bool
    text: str


class Hands(Protocol):
    """One fake, as people and the config of Hermes know it."""

    @property
    def ids(self) -> Mapping[str, str]:
        """The stable id of each of `PEOPLE`."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The section of its adapter."""

    @property
    def tokens(self) -> Mapping[str, str]:
        """What the environment has to hold."""

    async def say(self, person: str, room: bool, text: str) -> None:
        """Write, or use a slash command as the platform has them; `@hermes` becomes the platform's mention."""

    def shown(self) -> Iterator[tuple[str, str, str]]:
        """The agent's messages as they are now: where ("", "/room", bob's with his name), an id, the text."""


def read(line: str, platforms: Sequence[str]) -> Line:
    """Take a typed line apart; `HermesError` says what fits."""
    where, _, text = line.strip().partition(" ")
    person, at, place = where.rpartition("@")
    platform, slash, room = place.partition("/")
    if platform not in platforms or (slash and room != "room") or (at and person not in PEOPLE):
        raise HermesError(
            f"{where[:60]!r} is no place to write in.",
            f"Type [PERSON@]PLATFORM[/room] TEXT; the person is {' or '.join(PEOPLE)}, "
            f"the platform {' or '.join(platforms)}.",
        )
    if not text.strip():
        raise HermesError("There is nothing to write.", f"Type {where} TEXT")
    return Line(platform, person or PEOPLE[0], bool(slash), text.strip())


@contextlib.asynccontextmanager
async def hands(name: str) -> AsyncIterator[Hands]:
    """Start the fake with this name; it ends with the block. `HermesError` where its library is not here."""
    if name not in _FAKES:
        raise HermesError(f"There is no fake of {name[:60]!r}.", f"There are: {', '.join(NAMES)}.")
    async with contextlib.AsyncExitStack() as stack:
        try:
            made = await stack.enter_async_context(_FAKES[name]())
        except ModuleNotFoundError as error:
            raise HermesError(
                f"The fake of {name} needs {error.name}, which comes with its adapter.",
                f"Install it: hermes plugins install adapters/{name}",
            ) from error
        yield made


def _where(person: str) -> str:
    return "" if person == PEOPLE[0] else f" to {person}"


class _Telegram:
    """A private chat with each person, and a supergroup."""

    ids: Final = {"ann": "7", "bob": "8"}
    _ROOM: Final = -1001

    def __init__(self, fake: Any) -> None:
        self._fake = fake
        self.settings: Final = {"base_url": fake.base_url}
        self.tokens: Final = {"TELEGRAM_BOT_TOKEN": fake.token}
        self._chats = {"/room": self._ROOM, **{_where(name): int(id_) for name, id_ in self.ids.items()}}

    async def say(self, person: str, room: bool, text: str) -> None:
        id_ = int(self.ids[person])
        sender = {"id": id_, "is_bot": False, "first_name": person.title()}
        text = text.replace(_MENTION, f"@{self._fake.username}")
        self._fake.say(text, self._ROOM if room else id_, id_, sender=sender)

    def shown(self) -> Iterator[tuple[str, str, str]]:
        for where, chat in self._chats.items():
            for one in self._fake.sent(chat):
                yield where, str(one["message_id"]), one.get("text", one.get("caption", ""))


class _Slack:
    """A direct chat with each person, and a channel."""

    ids: Final = {"ann": "UANN", "bob": "UBOB"}

    def __init__(self, fake: Any) -> None:
        self._fake = fake
        self.settings: Final = {"base_url": fake.base_url}
        self.tokens: Final = {"SLACK_BOT_TOKEN": fake.bot_token, "SLACK_APP_TOKEN": fake.app_token}
        self._channels = {"/room": "C1", **{_where(name): f"D{name.upper()}" for name in self.ids}}
        for channel in self._channels.values():
            fake.world.channel(channel)

    async def say(self, person: str, room: bool, text: str) -> None:
        channel = self._channels["/room" if room else _where(person)]
        if text.startswith("/"):  # Slack keeps such a line for itself, and has one command for the agent
            await self._fake.slash(channel, self.ids[person], "/hermes", text[1:])
            return
        mention = f"<@{self._fake.world.call('auth.test', {})['user_id']}>"
        self._fake.world.say(channel, self.ids[person], text.replace(_MENTION, mention))

    def shown(self) -> Iterator[tuple[str, str, str]]:
        for where, channel in self._channels.items():
            for ts, one in sorted(self._fake.world.channel(channel).messages.items()):
                if one.get("bot_id"):
                    yield where, ts, str(one["text"])
        for number, (user, text) in enumerate(self._fake.ephemeral):
            yield f" to {user} alone", f"aside-{number}", text


class _Discord:
    """A direct channel with each person, and a text channel of a guild."""

    def __init__(self, fake: Any) -> None:
        self._fake = fake
        self.ids: Final = {name: str(fake.person(name)["id"]) for name in PEOPLE}
        self.settings: Final = {"base_url": fake.base_url, "gateway_url": fake.gateway_url}
        self.tokens: Final = {"DISCORD_BOT_TOKEN": fake.token}
        self._channels = {"/room": fake.room("room"), **{_where(name): fake.direct(name) for name in PEOPLE}}

    async def say(self, person: str, room: bool, text: str) -> None:
        channel = self._channels["/room" if room else _where(person)]
        if text.startswith("/"):
            command, _, rest = text[1:].partition(" ")
            await self._fake.slash(channel, person, command, rest)
            return
        await self._fake.say(channel, person, text.replace(_MENTION, self._fake.mention))

    def shown(self) -> Iterator[tuple[str, str, str]]:
        for where, channel in self._channels.items():
            for one in self._fake.mine(channel):
                if not one.get("flags", 0) & 128:  # a command's answer that is still to come
                    yield where, str(one["id"]), str(one["content"])
        for one in self._fake.world.interactions.values():
            if one.aside is not None:
                yield " to one person alone", one.id, one.aside


@contextlib.asynccontextmanager
async def _telegram() -> AsyncIterator[Hands]:
    from hermes_core.testing.platforms.telegram import TelegramServer

    async with TelegramServer() as fake:
        yield _Telegram(fake)


@contextlib.asynccontextmanager
async def _slack() -> AsyncIterator[Hands]:
    from hermes_core.testing.platforms.slack import FakeSlack

    async with FakeSlack() as fake:
        yield _Slack(fake)


@contextlib.asynccontextmanager
async def _discord() -> AsyncIterator[Hands]:
    from hermes_core.testing.platforms.discord import FakeDiscord

    async with FakeDiscord() as fake:
        yield _Discord(fake)


_FAKES: Final = {"telegram": _telegram, "slack": _slack, "discord": _discord}
