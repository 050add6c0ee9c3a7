"""FakeDiscord: REST and gateway of Discord on loopback, as strict as the platform.

    async with FakeDiscord() as discord:
        adapter = …(base_url=discord.base_url, gateway_url=discord.gateway_url, token=discord.token)
        room = discord.room("general")
        await discord.say(room, "ann", f"{discord.mention} hello")
        discord.texts(room)                     # what the agent wrote there
        discord.fail("POST", "/messages", cut="after")   # processed, but the client never hears of it
        await discord.gateway.hang_up()         # and the client resumes

It refuses what the platform refuses, with the platform's codes and texts; keeps rate-limit buckets;
and records every request. It needs aiohttp, which discord.py brings.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Self

from aiohttp import web

from hermes_core.testing.platforms.discord_files import LARGEST_REQUEST
from hermes_core.testing.platforms.discord_rest import Fault, Request, Rest, limited
from hermes_core.testing.platforms.discord_world import DIRECT, GUILD_TEXT, PUBLIC_THREAD, Interaction, person

__all__ = ["FakeDiscord", "Fault", "Request"]


class FakeDiscord(Rest):
    """The server, and what people and tests do with it; see the head of this module."""

    def __init__(self, rates: Mapping[str, tuple[int, float]] | None = None) -> None:
        super().__init__(rates)
        self.base_url = ""
        self._runner: web.AppRunner | None = None
        self._interacted: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        app = web.Application(middlewares=[self.middle], client_max_size=2 * LARGEST_REQUEST)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(app, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.base_url = f"http://127.0.0.1:{port}/api/v10"
        self.gateway.url = f"ws://127.0.0.1:{port}/gateway"
        self.cabinet.where = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.gateway.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def gateway_url(self) -> str:
        """Where the gateway listens."""
        return self.gateway.url

    # -- as people

    def room(self, name: str = "general") -> str:
        """A text channel of the guild; known to those who identify after it."""
        id_ = self.world.channel(GUILD_TEXT, name)
        self.gateway.guilds[self.world.guild] = self.world.guild_object()
        return id_

    def thread(self, parent: str, name: str = "a thread") -> str:
        """A public thread in a text channel."""
        data: dict[str, Any] = {"archived": False, "auto_archive_duration": 1440, "locked": False}
        data["archive_timestamp"] = "2024-01-01T00:00:00+00:00"
        more = {"parent_id": parent, "owner_id": "1", "thread_metadata": data, "message_count": 0}
        id_ = self.world.channel(PUBLIC_THREAD, name, member_count=1, **more)
        self.gateway.guilds[self.world.guild] = self.world.guild_object()
        return id_

    def direct(self, name: str = "ann") -> str:
        """The direct channel with this person."""
        return self.world.channel(DIRECT, recipients=[self.person(name)])

    def person(self, name: str, *, bot: bool = False) -> dict[str, Any]:
        """The user with this name."""
        people = self.world.people
        if name not in people:
            people[name] = person(str(700000000000000001 + len(people)), name.title(), bot=bot)
        return people[name]

    async def say(self, channel: str, name: str, text: str, *, told: bool = True, **more: Any) -> str:
        """Write as a person; gives the message's id. `told=False`: it stands in the history only.

        `files` has contents by name.
        """
        files = more.pop("files", {})
        author = self.me if name == "Hermes" else self.person(name, bot=more.pop("bot", False))
        message = self.world.write(channel, author, text, **more)
        self.cabinet.attach(message, files)
        if told:
            await self.tell("MESSAGE_CREATE", message)
        return str(message["id"])

    async def edit(self, channel: str, id: str, text: str) -> None:
        """Edit as its author."""
        message = self.world.message(channel, id)
        message |= {"content": text.strip(), "edited_timestamp": message["timestamp"]}
        await self.tell("MESSAGE_UPDATE", message)

    async def slash(
        self, channel: str, name: str, command: str, text: str = "", *, late: float = 0.0
    ) -> Interaction:
        """Use a slash command, of which the agent hears `late` seconds later."""
        options = [{"name": "text", "type": 3, "value": text}] if text else []
        data = {"id": "1", "name": command, "type": 1, "options": options}
        return await self._interact(channel, name, {"type": 2, "data": data}, late)

    async def press(self, channel: str, name: str, label: str, *, late: float = 0.0) -> Interaction:
        """Press the button with this label, under the latest message that has it."""
        for message in reversed(self.mine(channel)):
            for button in (one for row in message["components"] for one in row["components"]):
                if button["label"] == label:
                    data = {"custom_id": button["custom_id"], "component_type": 2}
                    more = {"type": 3, "data": data, "message": self.world.announced(message)}
                    return await self._interact(channel, name, more, late)
        raise AssertionError(f"there is no button {label!r}")

    async def _interact(self, channel: str, name: str, more: dict[str, Any], late: float) -> Interaction:
        began = time.monotonic() - late
        one = Interaction(self.world.snowflake(), f"tok{self.world.snowflake()}", channel, began)
        one.pressed = more["message"]["id"] if "message" in more else None
        self.world.interactions[one.token] = one
        place = self.world.found(channel)
        data = {
            "id": one.id,
            "application_id": self.application,
            "token": one.token,
            "version": 1,
            "channel_id": channel,
            "channel": place,
            "entitlements": [],
            "authorizing_integration_owners": {},
            "attachment_size_limit": 10485760,
            "locale": "en-US",
            **more,
        }
        if place["type"] == DIRECT:
            data["user"] = self.person(name)
        else:
            member = {"roles": [], "joined_at": "2024-01-01T00:00:00+00:00", "flags": 0, "permissions": "0"}
            member |= {"deaf": False, "mute": False, "nick": None, "user": self.person(name)}
            data |= {"guild_id": self.world.guild, "member": member}
        self._interacted = data
        await self.gateway.dispatch("INTERACTION_CREATE", data)
        return one

    async def interact_again(self) -> None:
        """Deliver the last use of a command or button once more."""
        await self.gateway.dispatch("INTERACTION_CREATE", self._interacted)

    # -- as a test

    def texts(self, channel: str) -> list[str]:
        """What the agent's messages in this channel show now, oldest first."""
        mine = [one for one in self.mine(channel) if not one.get("flags", 0) & 128]
        return [one["content"] for one in mine]

    def files(self, channel: str) -> list[tuple[str, bytes]]:
        """The files under the agent's messages in this channel, oldest first."""
        return [file for one in self.mine(channel) for file in self.cabinet.content(one)]

    def mine(self, channel: str) -> list[dict[str, Any]]:
        """The agent's messages in this channel, oldest first."""
        return [one for one in self.world.messages[channel].values() if one["author"]["id"] == self.me["id"]]

    def calls(self, method: str, part: str = "") -> list[Request]:
        """The requests with this method whose path has `part`."""
        return [one for one in self.requests if one.method == method and part in one.path]

    def fail(self, method: str, path: str, status: int = 0, body: Any = None, **more: Any) -> None:
        """Add a fault for the next request whose path has `path`."""
        self.faults.append(Fault(method, path, status, body, **more))

    def limit(self, method: str, path: str, seconds: float, *, everywhere: bool = False) -> None:
        """Let the next such request meet a 429."""
        body, headers = limited(seconds, everywhere=everywhere)
        self.fail(method, path, 429, body, headers=headers)
