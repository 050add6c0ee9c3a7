"""A chat platform in memory with its adapter and its driver: what it is able to is set beside what it declares."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from hermes_core.adapter import Adapter, Broken, Drafted, Features, Gateway, Received, Sent, Shown, Working
from hermes_core.errors import ConfigError, HermesError, SendError, StoreUnwritable
from hermes_core.messages import Address, Attachment, Author, Message, Outgoing
from hermes_core.testing.driver import Impossible, Post

HOME = Address("chat", "bot", "home")


class Chat:
    """The platform: what stands there, and what waits for the agent."""

    def __init__(self, able: Features) -> None:
        self.able = able
        self.posts: dict[str, tuple[Address, Post, str]] = {}
        self.written: dict[str, Message] = {}
        self.waiting: list[Message] = []
        self.files: dict[str, bytes] = {}
        self.receipts: list[str] = []
        self.commands: list[str] = []
        self.troubles: list[str] = []
        self.working = False
        self.shut = ""
        self.drafts: dict[tuple[Address, int], str] = {}  # of the latest run
        self.ids = itertools.count(1)
        self.online: Line | None = None


class Line:
    """The adapter."""

    platform = "chat"

    def __init__(self, chat: Chat, declared: Features) -> None:
        self.features = declared
        self._chat = chat
        self._left = chat.drafts
        self._drafts: dict[tuple[Address, int], str] = {}
        chat.drafts = self._drafts
        self._gateway: Gateway | None = None
        self._arrived = asyncio.Event()

    async def run(self, gateway: Gateway) -> None:
        chat = self._chat
        if chat.shut == "token":
            raise ExceptionGroup("in a task", [ConfigError("The token is refused.")])
        while chat.shut:
            await asyncio.sleep(0.01)
        self.take_up()
        self._gateway = gateway
        if not chat.able.catches_up:
            chat.waiting.clear()
        if chat.able.registers:
            chat.commands = [one.name for one in gateway.commands()][:100]
        chat.online = self
        gateway.ready()
        try:
            while True:
                self._arrived.clear()
                while chat.waiting:
                    try:
                        await gateway.receive(chat.waiting[0])
                    except StoreUnwritable:
                        await asyncio.sleep(0)
                        continue
                    chat.waiting.pop(0)
                await self._arrived.wait()
        finally:
            chat.online = None

    def take_up(self) -> None:
        """Mark what a former run left half."""
        while self._left:
            self._mark(self._left.popitem()[1])

    def _mark(self, id_: str) -> None:
        address, post, key = self._chat.posts[id_]
        marked = msgspec.structs.replace(post, text=f"{post.text} [broken off]")
        self._chat.posts[id_] = (address, marked, key)

    def arrive(self) -> None:
        self._arrived.set()

    @property
    def gateway(self) -> Gateway:
        assert self._gateway is not None
        return self._gateway

    async def send(self, outgoing: Outgoing) -> Sent:
        chat = self._chat
        trouble = chat.troubles.pop() if chat.troubles else ""
        if trouble == "limited":
            raise SendError("Too fast.", retry_after=0.01)
        if trouble == "refused":
            raise SendError("The chat is closed.", permanent=True)
        if trouble == "cut before":
            raise SendError("Cut.", unknown=True)
        text = outgoing.text + (" (perhaps a repeat)" if outgoing.repeat else "")
        known = [id_ for id_, (_, _, key) in chat.posts.items() if key == outgoing.key]
        if known and chat.able.once:
            return Sent(tuple(known))
        if outgoing.within:  # what stands there stays as it is
            self._drafts.pop((outgoing.address, int(outgoing.within)), None)
        parts = _split(text, chat.able.max_text or len(text))
        files = tuple((one.name, Path(one.ref).read_bytes()) for one in outgoing.attachments)
        ids: list[str] = []
        for part in parts:
            draft = self._drafts.pop((outgoing.address, int(outgoing.turn or -1)), None)
            post = Post(
                draft or f"p{next(chat.ids)}",
                part,
                outgoing.answers if chat.able.native_replies else None,
                files if chat.able.max_file else (),
                tuple(one.label for one in outgoing.choices) if chat.able.buttons else (),
            )
            files = ()
            chat.posts[post.id] = (outgoing.address, post, outgoing.key)
            ids.append(post.id)
            self.sends(post.id, outgoing)
        if trouble == "cut after":
            raise SendError("Cut.", unknown=True)
        return Sent(tuple(ids))

    def sends(self, id_: str, outgoing: Outgoing) -> None:
        """Keep what the buttons stand for; the platform does."""
        for one in outgoing.choices:
            self._chat.written[f"{id_}:{one.label}"] = Message("", outgoing.address, Author("1"), one.send)

    def show(self, address: Address, shown: Shown) -> None:
        able, chat = self._chat.able, self._chat
        if isinstance(shown, Drafted) and able.drafts:
            id_ = self._drafts.setdefault((address, shown.turn), f"p{next(chat.ids)}")
            old = chat.posts[id_][1].text if id_ in chat.posts else ""
            chat.posts[id_] = (address, Post(id_, old + shown.delta), "")
        elif isinstance(shown, Broken) and able.drafts:
            broken = self._drafts.pop((address, shown.turn), None)
            if broken is not None:
                self._mark(broken)
        elif isinstance(shown, Working) and able.status:
            chat.working = shown.activity.state != "idle"
        elif isinstance(shown, Received) and able.receipts:
            chat.receipts.append(shown.kind)

    async def find(self, key: str, address: Address) -> Sent | None:
        ids = tuple(id_ for id_, (_, _, one) in self._chat.posts.items() if one == key)
        return Sent(ids) if ids and self._chat.able.lookup else None


def _split(text: str, limit: int) -> list[str]:
    parts = []
    while len(text) > limit:
        cut = next((at for at in (text.rfind("\n", 1, limit), text.rfind(" ", 1, limit)) if at > 0), limit)
        parts.append(text[:cut])
        text = text[cut:]
    return [*parts, text]


class Reading(Line):
    """The adapter of a platform that gives out files."""

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        content = self._chat.files.get(attachment.ref)
        if content is None:
            raise HermesError("The file is gone.")
        for n in range(0, len(content), 1000):
            yield content[n : n + 1000]


class ChatDriver:
    """People on this platform."""

    def __init__(
        self,
        able: Features,
        declared: Features,
        without: frozenset[str] = frozenset(),
        line: type[Line] = Reading,
    ) -> None:
        self.without = without
        self._line = line if able.downloads else Line
        self._chat = Chat(able)
        self._declared = declared

    def open(self, folder: Path) -> Adapter:
        return self._line(self._chat, self._declared)

    async def shut(self, how: str) -> None:
        self._chat.shut = how

    def person(self, name: str) -> str:
        return {"ann": "1", "ben": "2", "robot": "3"}[name]

    def home(self) -> Address:
        return HOME

    def thread(self) -> Address:
        if not self._chat.able.threads:
            raise Impossible
        return msgspec.structs.replace(HOME, thread=str(next(self._chat.ids)))

    async def say(self, text: str, address: Address | None = None, author: str = "ann", **more: Any) -> str:
        chat = self._chat
        files = []
        for name, content in more.get("files") or () if chat.able.downloads else ():
            ref = f"f{next(chat.ids)}"
            chat.files[ref] = content
            kind = "text/plain" if name.endswith(".txt") else "application/octet-stream"
            files.append(Attachment(name, kind, len(content), ref))
        message = Message(
            f"m{next(chat.ids)}",
            address or HOME,
            Author(self.person(author), author, bot=author == "robot"),
            text,
            tuple(files),
            more.get("reply_to") if chat.able.native_replies else None,
            sent=1_000_000.0,
        )
        chat.written[message.id] = message
        self._arrive(message)
        return message.id

    def _arrive(self, message: Message) -> None:
        self._chat.waiting.append(message)
        if self._chat.online is not None:
            self._chat.online.arrive()

    async def edit(self, id: str, text: str, address: Address | None = None) -> None:
        if self._chat.able.edits and self._chat.online is not None:
            await self._chat.online.gateway.edited(address or HOME, id, text)

    async def delete(self, id: str, address: Address | None = None) -> None:
        if self._chat.able.deletes and self._chat.online is not None:
            await self._chat.online.gateway.deleted(address or HOME, id)

    async def press(self, post: Post, label: str, address: Address | None = None) -> None:
        meant = self._chat.written.get(f"{post.id}:{label}")
        if meant is None or not self._chat.able.buttons:
            raise Impossible
        await self.say(meant.text, address)

    async def repeat(self, id: str, address: Address | None = None) -> None:
        self._arrive(self._chat.written[id])

    async def trouble(self, kind: str, address: Address | None = None) -> None:
        self._chat.troubles.append(kind)

    async def seen(self, address: Address | None = None) -> list[Post]:
        return [post for where, post, _ in self._chat.posts.values() if where == (address or HOME)]

    async def receipts(self, address: Address | None = None) -> list[str]:
        return self._chat.receipts

    async def status(self, address: Address | None = None) -> bool:
        return self._chat.working

    async def registered(self) -> list[str]:
        return self._chat.commands
