"""A gateway with a scripted agent behind it, and a program that talks to it through the real plugin.

What the agent does is written in the message:
  `story`        streams some Markdown in small pieces
  `slow TEXT`    streams TEXT over and over until it is interrupted
  `job`          has two jobs, one of which tells how far it is, then answers
  `tool NAME`    runs a tool of that name for a moment, then answers
  `fail`         the turn fails: its draft is broken and a notice follows
  `full`         the store takes nothing
  `again TEXT`   the reply is sent as one that may be a repeat
  `raw`          an answer full of escape sequences
  `/anything`    is answered as a command
  anything else  is echoed
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from hermes_core.adapter import Activity, Adapter, Broken, Drafted, KnownCommand, Progress, Received, Working
from hermes_core.errors import Incomplete, SendError, StoreUnwritable
from hermes_core.messages import Address, Message, Outgoing
from hermes_terminal.plugin import TerminalPlugin

STORY = """# A story

Once upon a time there was a **terminal** that showed `text`, [a link](https://example.org/x) and more of it
than fits into one line, so that it had to be wrapped.

- one
- two

```python
def answer() -> int:
    return 42
```

| name | value |
|------|-------|
| a    | 1     |

The end."""

RAW = "before \x1b]0;owned\x07\x1b[2J\x1b[31mred\x08\x9b5A after"


class FakeGateway:
    """One conversation; keeps what it received in `received` and the order of events in `events`."""

    def __init__(self, past: list[tuple[str, str]] | None = None, pause: float = 0.002) -> None:
        self.received: list[Message] = []
        self.events: list[str] = []
        self.adapter: Adapter | None = None
        self.is_ready = asyncio.Event()
        self._past = past or []
        self._pause = pause
        self._waiting: asyncio.Queue[Message] = asyncio.Queue()
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._activity = Activity("idle")
        self._turn: asyncio.Task[None] | None = None
        self._turns = 0

    # ---- Gateway

    async def receive(self, message: Message, committed: Callable[[], None] | None = None) -> None:
        if message.text == "full":
            self.events.append("refused")
            raise StoreUnwritable("The disk is full.")
        self.received.append(message)
        self.events.append(f"received {message.text[:40]}")
        if committed is not None:
            committed()
        if message.text.startswith("/"):
            await self._send(
                Outgoing(f"c:{message.id}", message.address, f"command {message.text}", answers=message.id)
            )
            return
        if self._open and self.adapter is not None and self.adapter.features.receipts:
            self.adapter.show(message.address, Received(message.id, "queued", self._open))
        self._open += 1
        self._idle.clear()
        self._waiting.put_nowait(message)

    async def edited(self, address: Address, id: str, text: str) -> None:
        raise AssertionError("a terminal edits nothing")

    async def deleted(self, address: Address, id: str) -> None:
        raise AssertionError("a terminal deletes nothing")

    def knows(self, command: str) -> bool:
        return any(command in (one.name, *one.aliases) for one in self.commands())

    def commands(self) -> tuple[KnownCommand, ...]:
        return (
            KnownCommand("help", "list the commands", "/help"),
            KnownCommand("status", "say what runs", "/status"),
            KnownCommand("stop", "end the turn", "/stop", ("halt",)),
        )

    def activity(self, address: Address) -> Activity:
        return self._activity

    async def settled(self, address: Address) -> None:
        await self._idle.wait()
        self.events.append("settled")

    async def interrupt(self, address: Address) -> bool:
        self.events.append("interrupt")
        if self._turn is None:
            return False
        self._turn.cancel()
        return True

    async def past(self, address: Address) -> list[tuple[str, str]]:
        return self._past

    def ready(self) -> None:
        self.is_ready.set()

    def dated(self, header: str | None) -> None:
        """A terminal has the clock of its machine."""

    def alive(self) -> None:
        """Nobody waits for a terminal to fall silent."""

    # ---- the agent

    async def work(self) -> None:
        """One turn after the other, until cancelled."""
        while True:
            message = await self._waiting.get()
            self._turns += 1
            self._turn = asyncio.ensure_future(self._answer(message, self._turns))
            await asyncio.wait({self._turn})
            if self._turn.cancelled():
                self._show(message.address, Broken(self._turns, "interrupted"))
            else:
                self._turn.result()
            self._turn = None
            self._open -= 1
            self._set(message.address, "idle")
            if not self._open:
                self._idle.set()

    async def _answer(self, message: Message, turn: int) -> None:
        self._set(message.address, "thinking")
        await asyncio.sleep(self._pause * 5)
        word, _, rest = message.text.partition(" ")
        text = {"story": STORY, "raw": RAW}.get(word, f"echo: {message.text}")
        part = 0
        if word == "tool":
            self._draft(message.address, turn, 0, "Let me look.")
            self._set(message.address, "tool", rest)
            await asyncio.sleep(self._pause * 50)
            part = 1
        if word == "job":
            for name in ("a", "b"):
                self._show(message.address, Progress(name, f"{name}: running"))
            for percent in range(0, 100, 25):
                self._show(message.address, Progress("a", f"a: running, {percent}%"))
                await asyncio.sleep(self._pause * 20)
            for name in ("a", "b"):
                self._show(message.address, Progress(name, f"{name}: done, well", done=True))
        if word == "slow":
            await self._stream(message.address, turn, 0, (rest + " ") * 10_000)
        await self._stream(message.address, turn, part, text)
        if word == "fail":
            self._show(message.address, Broken(turn, "the model failed"))
            await self._send(
                Outgoing(f"t:{turn}", message.address, "The model did not answer.", turn=str(turn))
            )
            return
        await self._send(
            Outgoing(
                f"t:{turn}",
                message.address,
                text,
                turn=str(turn),
                number=turn,
                answers=message.id,
                repeat=word == "again",
            )
        )

    async def _stream(self, address: Address, turn: int, part: int, text: str) -> None:
        assert self.adapter is not None
        if not self.adapter.features.drafts:
            return
        self._set(address, "writing")
        for start in range(0, len(text), 7):
            self._draft(address, turn, part, text[start : start + 7])
            await asyncio.sleep(self._pause)

    def _draft(self, address: Address, turn: int, part: int, delta: str) -> None:
        self._show(address, Drafted(turn, part, delta))

    def _set(self, address: Address, state: str, tool: str = "") -> None:
        self._activity = Activity(state, tool, max(self._open - 1, 0))
        self._show(address, Working(self._activity))

    def _show(self, address: Address, shown: Drafted | Broken | Working | Progress) -> None:
        assert self.adapter is not None
        features = self.adapter.features
        if features.status if isinstance(shown, Working | Progress) else features.drafts:
            self.adapter.show(address, shown)

    async def _send(self, outgoing: Outgoing) -> None:
        assert self.adapter is not None
        try:
            await self.adapter.send(outgoing)
        except SendError as error:
            self.events.append(f"unsent permanent={error.permanent}")


async def converse(gateway: FakeGateway, adapter: Adapter) -> None:
    """Run the adapter against the gateway until it returns."""
    gateway.adapter = adapter
    work = asyncio.ensure_future(gateway.work())
    run = asyncio.ensure_future(adapter.run(gateway))
    try:
        await asyncio.wait({work, run}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
    finally:
        for task in (work, run):
            task.cancel()
        await asyncio.wait({work, run})
    if not run.cancelled():
        run.result()


def main(arguments: list[str]) -> None:
    """`[--data FOLDER] [--past] [--slow]`: the program under test; events go to FOLDER/events."""
    data = Path(arguments[arguments.index("--data") + 1]) if "--data" in arguments else None
    past = (
        [("user", "what was it?"), ("agent", "It was **42**.\nAs ever.")] if "--past" in arguments else None
    )

    async def talk() -> FakeGateway:
        gateway = FakeGateway(past, pause=0.03 if "--slow" in arguments else 0.002)
        options = {"name": "main", "data_dir": data} if data else {"name": "main"}
        (factory,) = TerminalPlugin().hermes_adapters()
        with contextlib.suppress(Incomplete):  # what it says with its exit code is proven on the real program
            await converse(gateway, factory.open(options))
        return gateway

    gateway = asyncio.run(talk())
    if data is not None:
        (data / "events").write_text("\n".join(gateway.events), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
