"""The world of the crash tests: people who write, their platform, the model server; and what must hold."""

from __future__ import annotations

import asyncio
import itertools
import random
import sqlite3
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from hermes_core import history
from hermes_core.messages import Item, Said, SaidKind, Step
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.model_server import ModelServer

from .chat import Chat, Written
from .gateways import Gateways
from .mind import CALL, NAME, RESTARTED, Mind, names
from .wire import address

__all__ = ["World"]

CHANNELS: Final = ("a", "b", "c", "d")
PEOPLE: Final = ("ann", "bob")
BACKLOG: Final = 6  # unanswered messages of a channel, above which people wait
_UNFINISHED: Final = (
    "SELECT body FROM entries WHERE state = 'waiting' UNION ALL SELECT 'turn ' || number FROM turns"
    " WHERE end IS NULL UNION ALL SELECT key FROM outbox WHERE state IN ('waiting', 'sending')"
)
_ITEMS: Final = msgspec.json.Decoder(tuple[Item, ...])


class World:
    """`async with World(folder, seed, "queue") as world`: all but the gateway, which comes and goes.

    `lookup`: the platform can be asked whether it has a message.
    """

    def __init__(self, folder: Path, seed: int, busy: str, *, lookup: bool = True) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.data = folder / "data"
        self.budget: Counter[str] = Counter()
        self.chat = Chat(self._noticed)
        self.mind = Mind(random.Random(seed + 1), self._noticed)
        self.server = ModelServer(self.mind.answer)
        self.gateways: Gateways
        self._busy = busy
        self.lookup = lookup
        self._numbers = itertools.count(1)
        self._waiting: list[tuple[str, asyncio.Event]] = []
        self._answered: Counter[str] = Counter()
        self._covered: set[str] = set()
        self._seen = 0

    async def __aenter__(self) -> Self:
        await self.server.start()
        await self.chat.__aenter__()
        tables = {
            "runtime": {"data_dir": str(self.data)},
            "model": {
                "provider": "openai",
                "name": "mind",
                "base_url": self.server.base_url,
                "context_chars": 12_000,
            },
            "conversation": {"busy": self._busy},
            "access": {"owners": [f"wire:{one}" for one in PEOPLE]},
            "plugins": {"shell": {"enabled": True, "approval": "never", "cwd": str(self.folder)}},
        }
        self.gateways = Gateways(self.folder, self.chat.port, tables, lookup=self.lookup)
        await self.gateways.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.gateways.__aexit__()
        await self.chat.__aexit__()
        await self.server.close()

    # -- people

    def say(self, channel: str) -> Written:
        """One message of one kind or another, with a name of its own."""
        name = f"{channel}-{next(self._numbers)}"
        kinds = {"say": 10, "run": 4, "mark": 1, "/echo": 3}
        if self._busy == "queue":
            kinds["/queue say"] = 1  # where messages interrupt, what was queued would lose its place to them
        kind = self.chance.choices(list(kinds), list(kinds.values()))[0]
        return self.chat.write(channel, self.chance.choice(PEOPLE), f"{kind} {name}")

    def _noticed(self, what: str, channel: str) -> None:
        if what == "send":
            new = self.chat.sent[self._seen :]
            self._seen = len(self.chat.sent)
            for text in (one["text"] for one in new):
                self._covered.update(NAME.findall(text))
        for one in [one for one in self._waiting if one[0] == what]:
            one[1].set()
            self._waiting.remove(one)
        for somewhere in CHANNELS:
            if self.budget[somewhere] and self.chance.random() < 0.5 and self._open(somewhere) < BACKLOG:
                self.budget[somewhere] -= 1
                self.say(somewhere)

    def _open(self, channel: str) -> int:
        recent = itertools.islice(reversed(self.chat.written.values()), 10 * BACKLOG)
        return sum(one.channel == channel and not self._answers(one) for one in recent)

    def _answers(self, one: Written) -> bool:
        return one.text.rpartition(" ")[2] in self._covered

    async def happens(self, what: str, seconds: float) -> None:
        """Wait until something happens, or for that time."""
        event = asyncio.Event()
        self._waiting.append((what, event))
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            if (what, event) in self._waiting:  # else it happened at the very instant
                self._waiting.remove((what, event))

    async def settled(self, seconds: float) -> list[str]:
        """Wait until all is acknowledged and the store holds nothing unfinished; gives what is not."""
        until = asyncio.get_running_loop().time() + seconds
        while True:
            left = [one.text for one in self.chat.unacked()] or self._unfinished()
            if not left or asyncio.get_running_loop().time() > until:
                return left
            await self.happens("send", 0.1)

    def _unfinished(self) -> list[str]:
        connection = sqlite3.connect(f"file:{self.data / 'hermes.db'}?mode=ro", uri=True)
        try:
            return [text for (text,) in connection.execute(_UNFINISHED)]
        finally:
            connection.close()

    # -- what must hold

    def executions(self, kind: str) -> Counter[str]:
        """How often the command of each tool call has run."""
        file = self.folder / kind
        return Counter(file.read_text().split() if file.exists() else ())

    def stored(self) -> dict[str, list[Mapping[str, Any]]]:
        """All turns of all conversations, in order, from a database that is whole."""
        connection = sqlite3.connect(f"file:{self.data / 'hermes.db'}?mode=ro", uri=True)
        try:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            assert (
                connection.execute(
                    "SELECT state, count(*) FROM outbox WHERE state != 'sent' GROUP BY state"
                ).fetchall()
                == []
            )
            assert (
                connection.execute(
                    "SELECT state, count(*) FROM entries WHERE state NOT IN ('used', 'handled') GROUP BY state"
                ).fetchall()
                == []
            )
            entries = connection.execute("SELECT count(*) FROM entries WHERE id NOT LIKE '%+%'").fetchone()
            assert entries == (len(self.chat.written),)
            turns: dict[str, list[Mapping[str, Any]]] = {}
            for key, number, end, reply, items in connection.execute(
                "SELECT address, number, end, reply, items FROM turns JOIN conversations"
                " ON conversations.id = turns.conversation ORDER BY address, number"
            ):
                turn = {"number": number, "end": end, "reply": reply, "items": _ITEMS.decode(items)}
                turns.setdefault(key, []).append(turn)
            return turns
        finally:
            connection.close()

    async def check_store(self) -> None:
        """Nothing is unfinished, and every history is what a provider would take."""
        store = await SQLiteStore.open(self.data)
        try:
            assert await store.open_work() == []
            for record in await store.conversations():
                turns = await store.history(record.address)
                history.check([item for turn in turns for item in turn.items])
        finally:
            await store.close()

    def check_turns(self, turns: Mapping[str, list[Mapping[str, Any]]]) -> None:
        """Every message stands in exactly one turn, in the order of its conversation (D2, D6)."""
        for channel in CHANNELS:
            used = [name for turn in turns[str(address(channel))] for name in names(_texts(turn["items"]))]
            wanted = [
                (one.text.rpartition(" ")[2], one.text.startswith("/"))
                for one in self.chat.written.values()
                if one.channel == channel and not one.text.startswith("/echo")
            ]
            assert sorted(used) == sorted(name for name, _ in wanted)
            plain = [name for name, by_command in wanted if not by_command]
            assert [name for name in used if name in set(plain)] == plain
            numbers = [turn["reply"] for turn in turns[str(address(channel))] if turn["end"] == "completed"]
            assert numbers == list(range(1, len(numbers) + 1))

    def check_last_requests(self, turns: Mapping[str, list[Mapping[str, Any]]]) -> None:
        """What the model was asked last is the end of what was said, without a gap (D4)."""
        for channel in CHANNELS:
            last = names(one["content"] for one in self.mind.last[channel] if one["role"] == "user")
            used = [name for turn in turns[str(address(channel))] for name in names(_texts(turn["items"]))]
            assert last == used[-len(last) :]

    def check_sent(self, turns: Mapping[str, list[Mapping[str, Any]]]) -> None:
        """Every reply and every answer of a command stands on the platform, in order and once (D5, D6).

        Where the platform cannot be asked it may stand there again, but then it says so.
        """
        first: dict[str, dict[str, Any]] = {}
        for one in self.chat.sent:
            assert one["key"] not in first or (one["repeat"] and not self.lookup)
            assert not one["repeat"] or not self.lookup
            first.setdefault(one["key"], one)
        texts = {key: one["text"] for key, one in first.items()}
        wanted = set()
        for channel in CHANNELS:
            key = str(address(channel))
            sent = [one for one in first.values() if one["address"]["channel"] == channel]
            replies = [one["number"] for one in sent if one["number"] is not None]
            assert replies == list(range(1, len(replies) + 1))
            for turn in turns[key]:
                if turn["end"] == "completed":
                    reply = f"{key}#turn:{turn['number']}"
                    wanted.add(reply)
                    assert set(names(_texts(turn["items"]))) <= set(names([texts[reply]]))
            echoes = [
                one for one in self.chat.written.values() if one.channel == channel and "/echo" in one.text
            ]
            answers = [one["text"] for one in sent if one["text"].startswith("echo ")]
            assert answers == [one.text.removeprefix("/") for one in echoes]
            wanted |= {f"{key}#{one.id}" for one in echoes}
        queued = {key for key in texts.keys() - wanted if texts[key].startswith("Queued")}
        assert texts.keys() - wanted - queued == set()

    def check_tools(self, turns: Mapping[str, list[Mapping[str, Any]]]) -> dict[str, int]:
        """No call ran twice unless it may; what a crash cut short is told so (D4). Gives how often which."""
        runs, marks = self.executions("runs"), self.executions("marks")
        results: dict[str, dict[str, str]] = {"run_command": {}, "mark": {}}
        for turn in itertools.chain.from_iterable(turns.values()):
            for step in (one for one in turn["items"] if isinstance(one, Step)):
                for call, result in zip(step.calls, step.results, strict=True):
                    (name,) = CALL.findall(call.arguments)
                    assert name not in results[call.name]
                    results[call.name][name] = result.text
        assert [name for name, count in runs.items() if count > 1] == []
        cut = {name for name, text in results["run_command"].items() if text.startswith(RESTARTED)}
        assert {text for name, text in results["run_command"].items() if name not in cut} <= {"(no output)"}
        assert sorted(results["run_command"].keys() - cut - runs.keys()) == []
        assert sorted(self.mind.restarted - cut) == []
        assert set(results["mark"].values()) <= {"marked"}
        assert sorted(results["mark"].keys() - marks.keys()) == []
        return {
            "calls": len(results["run_command"]) + len(results["mark"]),
            "cut short": len(cut),
            "cut short after their effect": len(cut & set(runs)),
            "run again": sum(count > 1 for count in marks.values()),
        }


def _texts(items: tuple[Item, ...]) -> list[str]:
    return [item.text for item in items if isinstance(item, Said) and item.kind is SaidKind.MESSAGE]
