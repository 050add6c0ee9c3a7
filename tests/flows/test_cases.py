"""Troubles that people had with other programs, on a real store: messages (cases 1 to 9 and 21).

Each is named by its number in the list of cases; what else stands there has its test beside the rule.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from hermes_busy.plugin import BusyPlugin
from hermes_core.adapter import Sent
from hermes_core.errors import StoreError, StoreUnwritable
from hermes_core.messages import Entry, Message, Outgoing, Said, When
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold, Script, ScriptedModel
from hermes_core.testing.platform import FakePlatform
from hermes_core.testing.virtual import run
from hermes_steer.plugin import SteerPlugin

from .real import Held, answers, until

QUEUE = {"conversation": {"busy": "queue"}}


@contextlib.asynccontextmanager
async def bed(
    folder: Path, scripts: Iterable[Script] = (), config: Any = None, platform: FakePlatform | None = None
) -> AsyncIterator[Bed]:
    """A scripted model on a real store; a second one in the same folder goes on where the first stopped."""
    store = await SQLiteStore.open(folder)
    try:
        slow: Any = Held(store)
        plugins = [BusyPlugin(), SteerPlugin()]
        async with Bed(
            folder, scripts, plugins=plugins, config=config, store=slow, platform=platform
        ) as made:
            yield made
    finally:
        await store.close()


async def test_case_2_two_thousand_messages_wait_and_none_falls_behind_a_hidden_cap(tmp_path: Path) -> None:
    """(D2, T3) Case 2: messages past a cap vanished after a "queued" receipt."""
    hold = Hold()
    async with bed(tmp_path, [[hold, "done"]], QUEUE) as b:
        await b.platform.say("work")
        await hold.reached.wait()
        texts = [f"q{number}" for number in range(2000)]
        await asyncio.gather(*map(b.platform.say, texts))
        await until(lambda: len(b.platform.receipts()) == 2000)
        assert [position for _, _, position in b.platform.receipts()] == list(range(1, 2001))
        hold.release()
        await answers(b, 2)
        assert b.model.texts() == ["work", "\n".join(texts)]


async def typing(b: Bed, channels: Iterable[str]) -> dict[str, list[str]]:
    """Write in these channels until the program takes nothing more; gives what was acknowledged in each."""
    acknowledged: dict[str, list[str]] = {channel: [] for channel in channels}
    with contextlib.suppress(StoreError):
        for number in itertools.count():
            for channel, texts in acknowledged.items():
                text = f"typed {number}"
                message = b.platform.message(text, channel)
                await b.platform.gateway.receive(message, functools.partial(texts.append, text))
                await asyncio.sleep(0.002)
    return acknowledged


async def test_case_4_what_is_acknowledged_while_the_program_stops_is_answered_after_the_start(
    tmp_path: Path,
) -> None:
    """(D1, D6) Case 4: it was acknowledged and gone afterwards.

    In "1" a turn runs, which takes its time to be let go; the others are idle.
    """
    deaf = Deaf()
    async with bed(tmp_path, [["half", deaf]]) as b:
        await b.platform.say("work")
        await deaf.reached.wait()
        writer = asyncio.create_task(typing(b, "123"))
        model = b.model
    acknowledged = await writer
    assert all(acknowledged.values())
    assert len(model.requests) == 1, "no turn starts while the program stops"
    async with bed(tmp_path) as b:
        for channel, texts in acknowledged.items():
            await until(lambda: b.platform.texts(channel))  # noqa: B023 - awaited at once
            await b.platform.settled(channel)
            read = [
                item.text
                for record in await b.store.history(b.platform.address(channel))
                for item in record.items
                if isinstance(item, Said)
            ]
            assert "\n".join(read).split("\n") == (["work", *texts] if channel == "1" else texts)


def held(b: Bed) -> Held:
    """Its store, whose calls can be held."""
    assert isinstance(b.store, Held)
    return b.store


class Deaf(Hold):
    """A place at which the model swallows its first cancellation, so that a stop takes its time."""

    async def wait(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await super().wait()
        await asyncio.Event().wait()


async def test_case_5_after_a_reconnect_nothing_is_answered_again(tmp_path: Path) -> None:
    """(D1) Case 5: a platform delivers its last messages once more, whatever became of them."""
    hold = Hold()
    async with bed(tmp_path, ["one", [hold, "two"]], QUEUE) as b:
        said = [await b.platform.say("first")]
        await answers(b, 1)
        said.append(await b.platform.say("second"))
        await hold.reached.wait()
        said.append(await b.platform.say("third"))
        said.append(await b.platform.say("/queue list"))
        await until(lambda: len(b.platform.sent) == 2)
        again: list[Message] = []
        for message in (*said, *said):
            await b.platform.gateway.receive(message, lambda message=message: again.append(message))  # type: ignore[misc]
        assert again == said * 2, "answered like the first time, so that the platform is content"
        hold.release()
        assert [one.text for one in b.platform.sent if one.number] == ["one"]
        await answers(b, 4)
        assert b.model.texts() == ["first", "second", "third"]
    async with bed(tmp_path) as b:
        for message in said:
            await b.platform.gateway.receive(message)
        await b.platform.say("fourth")
        assert await answers(b, 1) == ["you said: fourth"]


async def test_case_6_a_message_that_could_not_be_kept_is_taken_when_it_comes_again(tmp_path: Path) -> None:
    """(D1, D7) Case 6: the duplicate filter knew it, nobody else did."""
    async with bed(tmp_path) as b:
        message = b.platform.message("hello")
        admitting = held(b).hold("admit")
        receiving = asyncio.create_task(b.platform.gateway.receive(message))
        await admitting.reached.wait()
        receiving.cancel()  # the connection to the platform breaks before the commit
        await asyncio.wait({receiving})
        assert b.model.requests == []
        await b.platform.gateway.receive(message)
        assert await answers(b, 1) == ["you said: hello"]


def test_case_6_a_full_disk_takes_nothing_and_forgets_nothing(tmp_path: Path) -> None:
    """(D7) The platform is not told "received", so it delivers again."""

    class Full(MemoryStore):
        full = True

        def admit(self, entry: Entry) -> Any:
            if self.full:
                raise StoreUnwritable("The disk is full.")
            return super().admit(entry)

    async def story() -> None:
        store = Full()
        async with Bed(tmp_path, store=store) as b:
            message = b.platform.message("hello")
            acknowledged: list[str] = []
            with pytest.raises(StoreUnwritable):
                await b.platform.gateway.receive(message, lambda: acknowledged.append(message.id))
            assert acknowledged == []
            store.full = False
            await b.platform.gateway.receive(message, lambda: acknowledged.append(message.id))
            await b.platform.settled()
            assert acknowledged == [message.id]
            assert "you said: hello" in b.platform.texts()

    run(story())


async def test_case_6_a_message_that_was_committed_and_no_more_is_answered_after_the_crash(
    tmp_path: Path,
) -> None:
    """(D6) The program died between the commit and the turn; the redelivery changes nothing."""
    store = await SQLiteStore.open(tmp_path)
    platform = FakePlatform()
    message = platform.message("hello")
    await store.admit(Entry(message.id, message.address, message.author, message.text, When.QUEUE))
    await store.close()
    async with bed(tmp_path, platform=platform) as b:
        await b.platform.gateway.receive(message)
        assert await answers(b, 1) == ["you said: hello"]
        assert len(b.model.requests) == 1


@pytest.mark.parametrize("mode", ["queue", "followup", "steer", "interrupt"])
def test_case_7_a_message_at_any_instant_around_the_end_of_a_turn_needs_no_other_to_be_answered(
    tmp_path: Path, mode: str
) -> None:
    """(D3, T3) Case 7: it came between the last look at the queue and the release of the lock, and waited."""

    async def story(loops: int) -> None:
        hold = Hold()
        async with Bed(tmp_path, [["x", hold]], config={"conversation": {"busy": mode}}) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            hold.release()
            for _ in range(loops):
                await asyncio.sleep(0)
            await b.platform.say("more")
            await b.platform.settled()
            assert "\n".join(b.model.texts()).split("\n").count("more") == 1
            assert b.platform.texts()[-1].endswith("more")

    for loops in range(40):
        run(story(loops))


@pytest.mark.parametrize("mode", ["queue", "followup", "steer", "interrupt"])
async def test_case_7_nor_does_one_that_comes_while_the_end_is_written(tmp_path: Path, mode: str) -> None:
    """(D3) The same on a slow disk: an interrupt that comes after the commit is simply the next entry."""
    async with bed(tmp_path, config={"conversation": {"busy": mode}}) as b:
        finishing = held(b).hold("finish")
        await b.platform.say("work")
        await finishing.reached.wait()
        await b.platform.say("more")
        finishing.release()
        assert await answers(b, 2) == ["you said: work", "you said: more"]


def test_case_8_a_paste_beyond_the_platforms_limit_is_one_turn(tmp_path: Path) -> None:
    """(T1) Case 8: it came as several messages and started several turns. The last part is short, and ends it."""

    async def story() -> None:
        async with Bed(tmp_path) as b:
            loop = asyncio.get_running_loop()
            for number in range(3):
                await b.platform.say(f"part {number}", partial=True)
                await asyncio.sleep(0.5)
                assert b.model.requests == []
            began = loop.time()
            await b.platform.say("the end")
            await b.platform.settled()
            assert loop.time() == began, "a batch never waits for more to come (T4)"
            assert b.model.texts() == ["part 0\npart 1\npart 2\nthe end"]
            assert len(b.model.requests) == 1

    run(story())


async def test_case_9_an_edit_of_a_message_that_waits_is_what_the_model_reads_also_after_a_restart(
    tmp_path: Path,
) -> None:
    """(D9) Case 9: "no, I meant …" was ignored."""
    hold = Hold()
    async with bed(tmp_path, [[hold, "x"]], QUEUE) as b:
        await b.platform.say("work")
        await hold.reached.wait()
        one = await b.platform.say("buy milk")
        two = await b.platform.say("never mind")
        await until(lambda: len(b.platform.receipts()) == 2)
        await b.platform.gateway.edited(one.address, one.id, "no, I meant bread")
        await b.platform.gateway.deleted(two.address, two.id)
    async with bed(tmp_path, config=QUEUE) as b:
        await answers(b, 2)
        assert b.model.texts() == ["work", "no, I meant bread"]


class SlowPlatform(FakePlatform):
    """A platform on which the first message takes its time to be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sending = Hold()

    async def send(self, outgoing: Outgoing) -> Sent:
        if not self.sending.reached.is_set():
            await self.sending.wait()
        return await super().send(outgoing)


@pytest.mark.parametrize("text", ["more", "/interrupt more", "/queue more", "/steer more", "/followup more"])
async def test_case_21_a_message_while_the_answer_is_being_sent_costs_no_answer_and_doubles_none(
    tmp_path: Path, text: str
) -> None:
    """(D3, D5) Case 21: the answer was lost, or sent twice. The next turn does not wait for the platform."""
    platform = SlowPlatform()
    async with bed(tmp_path, ["the answer", "another"], platform=platform) as b:
        await platform.say("work")
        await platform.sending.reached.wait()
        await platform.say(text)
        await until(lambda: len(b.model.requests) == 2)
        platform.sending.release()
        await answers(b, 2)
        assert [(one.number, one.text) for one in platform.sent] == [(1, "the answer"), (2, "another")]
        assert b.model.cut == 0
        assert b.model.texts() == ["work", "more"]


def test_i2_the_clean_up_of_a_model_is_not_cut_short_by_a_second_cancellation(tmp_path: Path) -> None:
    """(I2) Closing a connection may take a turn or two of the event loop."""

    class Careful(ScriptedModel):
        closed_whole = False

        async def stream(self, request: Any) -> Any:
            try:
                async for delta in super().stream(request):
                    yield delta
            finally:
                await asyncio.sleep(0.1)
                self.closed_whole = True

    async def story() -> None:
        hold = Hold()
        model = Careful([["x", hold]])
        async with Bed(tmp_path, model=model) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            await b.platform.say("something else")
            await until(lambda: len(model.requests) == 2)
            assert model.closed_whole

    run(story())
