"""AdapterContract: the suite that decides whether an adapter is right (P5).

Subclass it and give it a `driver` fixture (see `hermes_core.testing.driver`):

    class TestMine(AdapterContract):
        @pytest.fixture
        async def driver(self) -> AsyncIterator[Driver]: …

Each test is about all adapters. What a test needs of a declared feature is proven; where the feature is
not declared, its absence is. Rules in brackets say what a test is about.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hermes_core.adapter import (
    Activity,
    Broken,
    Drafted,
    Progress,
    Received,
    Shown,
    Working,
)
from hermes_core.errors import ConfigError, leaves
from hermes_core.messages import Address, Attachment, Choice, turn_key
from hermes_core.testing.driver import Driver, Impossible, Post, Session, Shuts, until
from hermes_core.testing.feature_contract import FeatureContract

__all__ = ["AdapterContract"]

DOWN: Final = 0.5  # seconds for which an adapter tries in vain
NASTY: Final = {
    "unbalanced": "**bold and `code and [a link](",
    "markup": "a < b & c > d, <b>not bold</b>, <!channel>, 1 * 2 * 3, snake_case_name, C:\\dir\\",
    "emoji": "family 👨‍👩‍👧‍👦, flag 🇩🇪, e\u0301, right to left: שלום, a joiner\u200d.",
    "table": "| a | b |\n|---|---|\n| 1 | 2 |",
    "fence": "```python\ndef f():\n    return '`'\n```",
    "list": "1. one\n   - two\n     > three\n\n---\n\n# Four",
    "controls": "before\x07\x1b[31m\x00after",
}
SHOWN: Final = (
    Drafted(9, 0, "x"),
    Working(Activity("thinking", "", 1)),
    Working(Activity("idle")),
    Received("unknown", "queued", 1),
    Received("unknown", "cancelled"),
    Progress("job", "half"),
    Progress("job", "done", done=True),
    Broken(9, "interrupted"),
    Broken(10, "never begun"),
)


def words(count: int) -> str:
    """Text of so many words that can be found again, in paragraphs of sentences."""

    def all_() -> Iterator[str]:
        for n in range(count):
            yield f"w{n}" + ("." if n % 12 == 11 else "") + ("\n\n" if n % 60 == 59 else " ")

    return "".join(all_()).strip()


def found(posts: list[Post], count: int) -> bool:
    """Whether all words stand there, in order and once."""
    told = " ".join(one.text for one in posts).replace(".", " ").split()
    return [one for one in told if one[:1] == "w" and one[1:].isdigit()] == [f"w{n}" for n in range(count)]


class AdapterContract(FeatureContract):
    """What holds of every adapter; its base has what can be declared."""

    # -- in

    @pytest.mark.parametrize("text", ["hello", "two\nlines", "emoji 💧 and ünïcode", "a < b & c > d"])
    async def test_a_message_comes_in_as_it_was_written(
        self, driver: Driver, tmp_path: Path, text: str
    ) -> None:
        async with Session(driver, tmp_path) as session:
            try:
                id_ = await driver.say(text)
            except Impossible:
                assert "\n" in text, "a single line can be written everywhere"
                return
            (message,) = await session.heard(1)
            assert message.text == text
            assert id_ in ("", message.id)
            assert message.address == driver.home()
            assert message.address.platform == session.adapter.platform
            assert message.author.id == driver.person("ann")
            assert not message.author.bot

    async def test_messages_keep_their_order_and_have_ids_of_their_own(
        self, driver: Driver, tmp_path: Path
    ) -> None:
        async with Session(driver, tmp_path) as session:
            ids = [await driver.say(f"number {n}") for n in range(10)]
            heard = await session.heard(10)
            assert [one.text for one in heard] == [f"number {n}" for n in range(10)]
            assert ids in ([one.id for one in heard], [""] * 10)
            assert len({one.id for one in heard}) == 10

    async def test_a_conversation_has_the_same_address_after_a_restart(
        self, driver: Driver, tmp_path: Path
    ) -> None:
        async with Session(driver, tmp_path) as session:
            await driver.say("before")
            await session.heard(1)
            await session.restart()
            await driver.say("after")
            first, second = await session.heard(2)
            assert first.address == second.address
            assert first.id != second.id
            assert Address.parse(str(first.address)) == first.address

    async def test_a_repeated_delivery_has_the_same_id(self, driver: Driver, tmp_path: Path) -> None:
        """(D1, case 5) The store filters by the id; an adapter may filter before."""
        async with Session(driver, tmp_path) as session:
            if "repeated" in driver.without:
                with pytest.raises(Impossible):
                    await driver.repeat("1")
                return
            id_ = await driver.say("once")
            await session.heard(1)
            await driver.repeat(id_)
            await driver.say("then")
            assert [one.text for one in await session.heard(2)] == ["once", "then"]

    async def test_what_could_not_be_kept_comes_again(self, driver: Driver, tmp_path: Path) -> None:
        """(D7) It is not acknowledged, and a platform that keeps what was not acknowledged delivers it again."""
        async with Session(driver, tmp_path) as session:
            session.gateway.unwritable = 1
            await driver.say("keep me")
            await until(lambda: session.gateway.refusals, "the message is tried")
            if "unwritable" in driver.without:
                await driver.say("then")
                assert [one.text for one in await session.heard(1)][-1] == "then"
            else:
                assert [one.text for one in await session.heard(1)] == ["keep me"]

    async def test_another_program_does_not_set_the_agent_off(self, driver: Driver, tmp_path: Path) -> None:
        """(X4) What another bot writes is left alone, or handed in as a bot's for the core to decide."""
        async with Session(driver, tmp_path) as session:
            with contextlib.suppress(Impossible):
                await driver.say("beep", author="robot")
            await session.send("the agent's own words")
            await driver.say("a person")
            await until(
                lambda: any(one.text == "a person" for one in session.gateway.messages), "the person is heard"
            )
            others = [one for one in session.gateway.messages if one.text != "a person"]
            assert all(one.author.bot for one in others)
            assert "the agent's own words" not in [one.text for one in others]

    # -- out

    async def test_what_is_sent_stands_there_once_and_in_order(self, driver: Driver, tmp_path: Path) -> None:
        async with Session(driver, tmp_path) as session:
            await driver.say("begin")
            await session.heard(1)
            keys = [await session.send(f"answer {n} 💧") for n in range(5)]
            posts = await session.shows(lambda posts: len(posts) >= 5)
            assert [f"answer {n} 💧" in one.text for n, one in enumerate(posts)] == [True] * 5
            assert list(session.ids) == keys
            assert not session.undeliverable

    @pytest.mark.parametrize("kind", sorted(NASTY))
    async def test_no_text_ends_in_silence(self, driver: Driver, tmp_path: Path, kind: str) -> None:
        """(R1, case 38)"""
        async with Session(driver, tmp_path) as session:
            await session.send(NASTY[kind])
            await session.send("the end")
            posts = await session.shows(lambda posts: any("the end" in one.text for one in posts))
            assert len(posts) >= 2
            assert posts[0].text.strip()
            assert not session.undeliverable

    async def test_a_long_text_arrives_whole_and_in_order(self, driver: Driver, tmp_path: Path) -> None:
        """(R2)"""
        async with Session(driver, tmp_path) as session:
            limit = session.adapter.features.max_text
            count = 3 * (limit or 8000) // 5
            await session.send(words(count))
            posts = await session.shows(lambda posts: found(posts, count))
            assert (len(posts) > 1) == (limit is not None)

    async def test_code_keeps_every_line_as_it_is(self, driver: Driver, tmp_path: Path) -> None:
        """(R2, case 36)"""
        lines = [f"{' ' * (n % 9)}x{n} = '<{n}> & *{n}* _{n}_'" for n in range(200)]
        async with Session(driver, tmp_path) as session:
            await session.send("Look:\n\n```python\n" + "\n".join(lines) + "\n```\n\nThat is all.")

            def whole(posts: list[Post]) -> bool:
                shown = [line.rstrip() for one in posts for line in one.text.split("\n")]
                return [one for one in shown if " = '<" in one] == lines

            await session.shows(whole)

    async def test_a_rate_limit_delays_and_loses_nothing(self, driver: Driver, tmp_path: Path) -> None:
        """(D5)"""
        await self._troubled(driver, tmp_path, "limited")

    async def test_a_send_that_was_cut_before_it_was_taken_is_made_again(
        self, driver: Driver, tmp_path: Path
    ) -> None:
        """(D5)"""
        await self._troubled(driver, tmp_path, "cut before")

    async def test_a_send_whose_outcome_is_unknown_is_never_lost(
        self, driver: Driver, tmp_path: Path
    ) -> None:
        """(D5) Where the platform can be asked, or keeps a key only once, it stands there once."""
        await self._troubled(driver, tmp_path, "cut after")

    async def _troubled(self, driver: Driver, folder: Path, kind: str) -> None:
        async with Session(driver, folder) as session:
            features = session.adapter.features
            if kind in driver.without:
                with pytest.raises(Impossible):
                    await driver.trouble(kind)
                return
            await session.send("one")
            await driver.trouble(kind)
            await session.send("two")
            await session.send("three")
            posts = await session.shows(lambda posts: any("three" in one.text for one in posts))
            told = [next(word for word in ("one", "two", "three") if word in one.text) for one in posts]
            if kind == "cut after" and not (features.lookup or features.once):
                assert told == ["one", "two", "two", "three"]
                assert posts[1].text != posts[2].text, "the second one says that it may be a repeat"
            else:
                assert told == ["one", "two", "three"]

    async def test_what_will_never_be_taken_is_given_up(self, driver: Driver, tmp_path: Path) -> None:
        """(D5) A message that is refused for ever does not hold the ones behind it."""
        async with Session(driver, tmp_path) as session:
            if "refused" in driver.without:
                with pytest.raises(Impossible):
                    await driver.trouble("refused")
                return
            await driver.trouble("refused")
            key = await session.send("never")
            assert key in session.undeliverable
            assert session.undeliverable[key]

    # -- being run

    async def test_it_is_ready_when_it_is_connected_and_not_before(
        self, driver: Driver, tmp_path: Path
    ) -> None:
        """`ready()` says that messages arrive from now on: `hermes run` and the init system tell people so."""
        if not isinstance(driver, Shuts) or "down" in driver.without:
            return
        session = Session(driver, tmp_path)
        await driver.shut("down")
        await session.attempt(DOWN)
        assert not session.gateway.ready_calls, "ready() is called although nobody was let in"
        await driver.shut("")
        async with session:
            await driver.say("there you are")
            await session.heard(1)

    async def test_a_refused_token_is_a_fault_of_the_config_and_not_tried_again(
        self, driver: Driver, tmp_path: Path
    ) -> None:
        """A `ConfigError`, also within a group: `hermes run` ends with code 2, or goes on with the others."""
        if not isinstance(driver, Shuts) or "token" in driver.without:
            return
        session = Session(driver, tmp_path)
        await driver.shut("token")
        error = await session.attempt()
        assert not session.gateway.ready_calls, "ready() is called although the token is refused"
        assert error is not None, "run() goes on although the token is refused"
        assert any(isinstance(one, ConfigError) for one in leaves(error)), repr(error)

    async def test_nothing_that_is_shown_raises(self, driver: Driver, tmp_path: Path) -> None:
        session = Session(driver, tmp_path)
        nowhere = Address(session.adapter.platform, "nobody", "12345")
        for shown in SHOWN:
            session.adapter.show(driver.home(), shown)
        async with session:
            for where in (driver.home(), nowhere):
                for shown in SHOWN:
                    session.adapter.show(where, shown)
            await driver.say("still there?")
            await session.heard(1)
            await session.send("yes, still there")
            await session.shows(lambda posts: any("yes, still there" in one.text for one in posts))

    async def test_it_ends_when_it_is_cancelled_and_leaves_no_task(
        self, driver: Driver, tmp_path: Path
    ) -> None:
        before = asyncio.all_tasks()
        session = Session(driver, tmp_path)
        async with session:
            await driver.say("hello")
            await session.heard(1)
            own: list[Shown] = [Working(Activity("thinking")), Drafted(1, 0, "writing")]
            for shown in own:
                session.adapter.show(driver.home(), shown)
            took = await session.stop()
        assert took < 1.5, "run() has a second"
        ours = [one for one in asyncio.all_tasks() - before if one is not asyncio.current_task()]
        assert not [one for one in ours if "hermes_" + session.adapter.platform in repr(one.get_coro())]

    async def test_the_same_adapter_can_be_run_again(self, driver: Driver, tmp_path: Path) -> None:
        """The runtime starts an adapter that failed again, without opening a new one."""
        async with Session(driver, tmp_path) as session:
            await driver.say("one")
            await session.heard(1)
            await session.stop()
            await session.start()
            await driver.say("two")
            assert [one.text for one in await session.heard(2)] == ["one", "two"]
            await session.send("answered")
            await session.shows(lambda posts: any("answered" in one.text for one in posts))

    async def test_choices_and_files_do_not_disturb_the_text(self, driver: Driver, tmp_path: Path) -> None:
        """An adapter gets only what it declares; what it declares it shows beside the text."""
        async with Session(driver, tmp_path) as session:
            features = session.adapter.features
            file = tmp_path / "note.txt"
            file.write_bytes(b"a note")
            await session.send(
                "with the text",
                choices=(Choice("Yes", "/yes 1"),) if features.buttons else (),
                attachments=(Attachment("note.txt", "text/plain", 6, str(file)),)
                if features.max_file
                else (),
            )
            await session.shows(lambda posts: sum("with the text" in one.text for one in posts) == 1)

    async def test_the_draft_of_a_later_turn_stays_behind_an_earlier_reply(
        self, driver: Driver, tmp_path: Path
    ) -> None:
        """A reply that could not be sent yet stands before what is written after it."""
        async with Session(driver, tmp_path) as session:
            home = driver.home()
            if not session.adapter.features.drafts or "limited" in driver.without:
                return
            await session.send("the beginning")
            session.adapter.show(home, Drafted(1, 0, "first words"))
            await driver.trouble("limited")
            sending = asyncio.create_task(
                session.send("first words and the rest", key=turn_key(home, 1), turn="1")
            )
            session.adapter.show(home, Drafted(2, 0, "second words"))
            await sending
            await session.send("second words and the rest", key=turn_key(home, 2), turn="2")
            posts = await session.shows(lambda posts: any("second words and" in one.text for one in posts))
            told = [one.text for one in posts if "and the rest" in one.text]
            assert ["first" in told[0], "second" in told[-1], len(told)] == [True, True, 2]
