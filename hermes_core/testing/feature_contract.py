"""FeatureContract: the part of `AdapterContract` that is about what an adapter declares (P5)."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import pytest

from hermes_core.adapter import (
    Activity,
    Broken,
    Downloads,
    Drafted,
    KnownCommand,
    Received,
    Working,
)
from hermes_core.errors import HermesError
from hermes_core.messages import Attachment, Choice, turn_key
from hermes_core.testing.driver import Driver, Impossible, Post, Session, until

__all__ = ["FeatureContract"]

COMMANDS: Final = tuple(KnownCommand(f"command{n}", f"Does {n}.", f"/command{n}") for n in range(150))
CONTENT: Final = bytes(range(256)) * 40


class FeatureContract:
    """One test for each field of `Features`: what is declared is proven, what is not is proven absent."""

    @pytest.fixture
    def driver(self) -> Driver:
        """The person's side of the platform; every adapter brings its own."""
        raise NotImplementedError("give the suite a fixture `driver`")

    async def test_max_text_is_where_a_message_is_split(self, driver: Driver, tmp_path: Path) -> None:
        async with Session(driver, tmp_path) as session:
            limit = session.adapter.features.max_text
            if limit is None:
                await session.send("x" * 50_000)
                posts = await session.shows(lambda posts: sum(one.text.count("x") for one in posts) >= 50_000)
                assert len(posts) == 1
                return
            await session.send("x" * limit)
            await session.shows(lambda posts: [one.text.count("x") for one in posts] == [limit])
            await session.send("y" * (limit + 1))
            posts = await session.shows(lambda posts: sum(one.text.count("y") for one in posts) == limit + 1)
            assert len(posts) > 2

    async def test_drafts_become_the_message(self, driver: Driver, tmp_path: Path) -> None:
        """(R3, case 35) The text is seen while it is written, and stands there once in the end."""
        async with Session(driver, tmp_path) as session:
            home = driver.home()
            await driver.say("tell me")
            await session.heard(1)
            session.adapter.show(home, Drafted(1, 0, "The beginning "))
            if session.adapter.features.drafts:
                await session.shows(lambda posts: "The beginning" in _text(posts))
            await session.send("The beginning and the end.", key=turn_key(home, 1), turn="1")
            posts = await session.shows(lambda posts: "the end." in _text(posts))
            assert _text(posts).count("The beginning") == 1

    async def test_a_question_stands_below_the_words_that_announce_it(
        self, driver: Driver, tmp_path: Path
    ) -> None:
        """What a turn has said when it asks something (`Outgoing.within`) is whole, and its reply is another text."""
        async with Session(driver, tmp_path) as session:
            home = driver.home()
            if not session.adapter.features.drafts:
                return
            await driver.say("wipe it")
            await session.heard(1)
            session.adapter.show(home, Drafted(1, 0, "One moment, please."))
            session.adapter.show(home, Working(Activity("asking", "wipe")))
            await session.send("May I run this?", within="1")
            posts = await session.shows(lambda posts: "May I run this?" in _text(posts))
            text = _text(posts)
            assert "One moment, please." in text[: text.index("May I run this?")]
            session.adapter.show(home, Working(Activity("tool", "wipe")))
            session.adapter.show(home, Drafted(1, 1, "It is "))
            await session.send("It is gone.", key=turn_key(home, 1), turn="1")
            posts = await session.shows(lambda posts: "It is gone." in _text(posts))
            texts = [
                _text(posts).index(one) for one in ("One moment, please.", "May I run this?", "It is gone.")
            ]
            assert texts == sorted(texts)
            assert _text(posts).count("One moment, please.") == 1

    async def test_what_is_not_declared_as_drafts_is_not_seen(self, driver: Driver, tmp_path: Path) -> None:
        async with Session(driver, tmp_path) as session:
            if session.adapter.features.drafts:
                return
            session.adapter.show(driver.home(), Drafted(1, 0, "The beginning "))
            await session.send("something else")
            posts = await session.shows(lambda posts: "something else" in _text(posts))
            assert "The beginning" not in _text(posts)

    async def test_a_draft_that_is_broken_off_says_so(self, driver: Driver, tmp_path: Path) -> None:
        """(I5) The partial message has a visible mark, and the next reply is a message of its own."""
        async with Session(driver, tmp_path) as session:
            home = driver.home()
            if not session.adapter.features.drafts:
                return
            before = await _half(session, driver)
            session.adapter.show(home, Broken(1, "interrupted"))
            await session.shows(lambda posts: posts and posts[-1].text.strip() != before)
            await session.send("Something new", key=turn_key(home, 2), turn="2")
            posts = await session.shows(lambda posts: "Something new" in _text(posts))
            assert "Half of it" in _text(posts), "what was shown is not taken away"
            assert _text(posts).count("Something new") == 1

    async def test_a_draft_of_a_run_that_ended_gets_its_mark_from_the_next_one(
        self, driver: Driver, tmp_path: Path
    ) -> None:
        """(R3) The next run knows what was shown: it was kept below the folder that both were opened with."""
        async with Session(driver, tmp_path) as session:
            home = driver.home()
            if not session.adapter.features.drafts:
                return
            before = await _half(session, driver)
            await session.restart()
            await session.send("Something new", key=turn_key(home, 2), turn="2")

            def closed(posts: list[Post]) -> bool:
                # one whose answer was lost stands there a second time, with the mark, where nobody can be asked
                half = [one.text.strip() for one in posts if "Half of it" in one.text]
                gone = not half  # a terminal is another one after each start
                return "Something new" in _text(posts) and (gone or any(one != before for one in half))

            await session.shows(closed)

    async def test_status_shows_that_the_agent_works(self, driver: Driver, tmp_path: Path) -> None:
        async with Session(driver, tmp_path) as session:
            await driver.say("work")
            await session.heard(1)
            session.adapter.show(driver.home(), Working(Activity("thinking")))
            if session.adapter.features.status:
                await until(driver.status, "people see that it works")
            await session.send("done")
            await session.shows(lambda posts: "done" in _text(posts))
            if not session.adapter.features.status:
                with contextlib.suppress(Impossible):
                    assert not await driver.status()
            session.adapter.show(driver.home(), Working(Activity("idle")))

    async def test_receipts_are_marks_or_short_lines(self, driver: Driver, tmp_path: Path) -> None:
        """(T6)"""
        async with Session(driver, tmp_path) as session:
            id_ = await driver.say("wait for me")
            await session.heard(1)
            session.adapter.show(driver.home(), Received(id_, "queued", 1))
            if session.adapter.features.receipts:

                async def marked() -> bool:
                    return bool(await driver.receipts())

                await until(marked, "the receipt is seen")
                return
            await session.send("done")
            await session.shows(lambda posts: "done" in _text(posts))
            with contextlib.suppress(Impossible):
                assert not await driver.receipts()

    async def test_lookup_finds_what_was_delivered(self, driver: Driver, tmp_path: Path) -> None:
        """(D5)"""
        async with Session(driver, tmp_path) as session:
            key = await session.send("find me")
            sent = await session.adapter.find(key, driver.home())
            if session.adapter.features.lookup:
                assert sent is not None
                assert sent.ids == session.ids[key]
                assert await session.adapter.find(f"{key}-never", driver.home()) is None
                await session.restart()
                found = await session.adapter.find(key, driver.home())
                assert found is not None, "a new start finds it too"
                assert found.ids == session.ids[key]
            else:
                assert sent is None

    async def test_once_holds_also_after_a_restart(self, driver: Driver, tmp_path: Path) -> None:
        """(D5) Where it is not declared nothing relies on it: some platforms drop a repeat for a few minutes."""
        async with Session(driver, tmp_path) as session:
            key = await session.send("only once")
            if session.adapter.features.once:
                await session.restart()
                await session.send("only once", key=key)
                await session.send("then")
                posts = await session.shows(lambda posts: "then" in _text(posts))
                assert _text(posts).count("only once") == 1

    async def test_edits_are_told(self, driver: Driver, tmp_path: Path) -> None:
        """(D9, case 9)"""
        async with Session(driver, tmp_path) as session:
            id_ = await driver.say("I mean this")
            await session.heard(1)
            if session.adapter.features.edits:
                await driver.edit(id_, "no, I mean that 💧")
                await until(lambda: session.gateway.edits, "the edit comes in")
                assert session.gateway.edits == [(driver.home(), id_, "no, I mean that 💧")]
                assert len(session.gateway.messages) == 1, "an edit is no message"
                return
            with contextlib.suppress(Impossible):
                await driver.edit(id_, "no, I mean that")
            await self._fence(driver, session)
            assert not session.gateway.edits

    async def test_deletions_are_told(self, driver: Driver, tmp_path: Path) -> None:
        """(D9)"""
        async with Session(driver, tmp_path) as session:
            id_ = await driver.say("forget it")
            await session.heard(1)
            if session.adapter.features.deletes:
                await driver.delete(id_)
                await until(lambda: session.gateway.deletions, "the deletion comes in")
                assert session.gateway.deletions == [(driver.home(), id_)]
                return
            with contextlib.suppress(Impossible):
                await driver.delete(id_)
            await self._fence(driver, session)
            assert not session.gateway.deletions

    async def test_threads_are_conversations_of_their_own(self, driver: Driver, tmp_path: Path) -> None:
        """(cases 39, 40) What is said in a thread is answered there."""
        async with Session(driver, tmp_path) as session:
            if not session.adapter.features.threads:
                with pytest.raises(Impossible):
                    driver.thread()
                await driver.say("hello")
                assert (await session.heard(1))[0].address.thread is None
                return
            one, two = driver.thread(), driver.thread()
            assert one != two
            assert one.thread is not None
            await driver.say("in one", one)
            await driver.say("in two", two)
            assert [(await session.heard(1, where))[0].text for where in (one, two)] == ["in one", "in two"]
            await session.send("answer two", two)
            await session.send("answer one", one)
            await session.shows(lambda posts: _text(posts).strip() == "answer one", one)
            await session.shows(lambda posts: _text(posts).strip() == "answer two", two)

    async def test_native_replies_go_both_ways(self, driver: Driver, tmp_path: Path) -> None:
        """(T3)"""
        async with Session(driver, tmp_path) as session:
            asked = await driver.say("a question")
            await session.heard(1)
            key = await session.send("an answer", answers=asked)
            posts = await session.shows(lambda posts: "an answer" in _text(posts))
            if session.adapter.features.native_replies:
                assert posts[-1].answers == asked
                await driver.say("about that", reply_to=posts[-1].id)
                heard = await session.heard(2)
                assert heard[-1].reply_to in session.ids[key]
                return
            assert posts[-1].answers is None
            with contextlib.suppress(Impossible):
                await driver.say("about that", reply_to=posts[-1].id)
                assert (await session.heard(2))[-1].reply_to is None

    async def test_downloads_give_the_file_as_it_was(self, driver: Driver, tmp_path: Path) -> None:
        async with Session(driver, tmp_path) as session:
            adapter = session.adapter
            if not adapter.features.downloads:
                assert not hasattr(adapter, "fetch")
                return
            await driver.say("look", files=(("data ü.bin", CONTENT), ("note.txt", b"hello\n")))

            def files() -> list[Attachment]:
                return [one for message in session.gateway.messages for one in message.attachments]

            await until(lambda: len(files()) >= 2, "both files come in")
            assert [one.name for one in files()] == ["data ü.bin", "note.txt"]
            assert [one.size for one in files()] in ([len(CONTENT), 6], [None, None])
            assert files()[1].media_type.startswith("text/plain")
            assert any("look" in one.text for one in session.gateway.messages)
            given = _downloads(adapter)
            assert [b"".join([piece async for piece in given.fetch(one)]) for one in files()] == [
                CONTENT,
                b"hello\n",
            ]
            await session.restart()
            again = _downloads(session.adapter)
            assert b"".join([piece async for piece in again.fetch(files()[1])]) == b"hello\n"
            gone = Attachment("gone.txt", "text/plain", 5, "nothing-has-this-ref")
            with pytest.raises(HermesError):
                _ = [piece async for piece in again.fetch(gone)]

    async def test_files_go_out_as_they_are(self, driver: Driver, tmp_path: Path) -> None:
        async with Session(driver, tmp_path) as session:
            data, note = tmp_path / "kept-1", tmp_path / "kept-2"
            data.write_bytes(CONTENT)
            note.write_bytes(b"hello\n")
            if not session.adapter.features.max_file:
                lost = Attachment("note.txt", "text/plain", 6, str(note))
                await session.send("no file", attachments=(lost,))
                posts = await session.shows(lambda posts: "note.txt was not sent" in _text(posts))
                assert not _files(posts)
                return
            assert session.adapter.features.max_file >= len(CONTENT)
            files = (
                Attachment("data.bin", "application/octet-stream", len(CONTENT), str(data)),
                Attachment("note.txt", "text/plain", 6, str(note)),
            )
            await session.send("both files", attachments=files)
            await session.shows(lambda posts: len(_files(posts)) == 2)
            await session.send("", attachments=files[1:])
            await session.send("the end")
            posts = await session.shows(lambda posts: "the end" in _text(posts))
            wanted = [("data.bin", CONTENT), ("note.txt", b"hello\n"), ("note.txt", b"hello\n")]
            assert _files(posts) == wanted
            assert _text(posts).count("both files") == 1

    async def test_buttons_say_what_they_stand_for(self, driver: Driver, tmp_path: Path) -> None:
        async with Session(driver, tmp_path) as session:
            if not session.adapter.features.buttons:
                await session.send("May I?", choices=(Choice("Yes", "/approve 7f"),))
                posts = await session.shows(lambda posts: "May I?" in _text(posts))
                assert not any(one.buttons for one in posts)
                return
            choices = (Choice("Yes, do it 💧", "/approve 7f"), Choice("No", "/deny " + "x" * 54))
            await session.send("May I?", choices=choices)
            posts = await session.shows(lambda posts: any(one.buttons for one in posts))
            assert [one.buttons for one in posts] == [("Yes, do it 💧", "No")]
            await session.restart()
            await driver.press(posts[0], "No")
            (message,) = await session.heard(1)
            assert message.text == choices[1].send
            assert message.author.id == driver.person("ann")
            assert message.address == driver.home()
            await driver.press(posts[0], "Yes, do it 💧")
            second = (await session.heard(2))[1]
            assert (second.text, second.id != message.id) == ("/approve 7f", True)

    async def test_commands_are_registered_as_far_as_there_is_room(
        self, driver: Driver, tmp_path: Path
    ) -> None:
        """(case 31) More than the platform takes lose nobody the first ones."""
        async with Session(driver, tmp_path, COMMANDS) as session:
            if session.adapter.features.registers:

                async def registered() -> bool:
                    return {"command0", "command40"} <= set(await driver.registered())

                await until(registered, "the commands are registered")
                return
            await self._fence(driver, session)
            with contextlib.suppress(Impossible):
                assert not await driver.registered()

    async def test_catching_up_takes_what_came_meanwhile_in_order_and_once(
        self, driver: Driver, tmp_path: Path
    ) -> None:
        """(D8)"""
        async with Session(driver, tmp_path) as session:
            await driver.say("before")
            await session.heard(1)
            await session.stop()
            try:
                for n in range(3):
                    await driver.say(f"meanwhile {n}")
            except Impossible:
                assert not session.adapter.features.catches_up
                await session.start()
                return
            await session.restart()
            if session.adapter.features.catches_up:
                await session.heard(4)
            await driver.say("after")
            await until(lambda: session.gateway.messages[-1].text == "after", "what follows comes in")
            texts = [one.text for one in session.gateway.messages]
            missed = [f"meanwhile {n}" for n in range(3)] if session.adapter.features.catches_up else []
            assert texts == ["before", *missed, "after"]
            if session.adapter.features.catches_up:
                assert all(one.sent is not None for one in session.gateway.messages)

    async def _fence(self, driver: Driver, session: Session) -> None:
        """Whatever was to come in before this has come in."""
        await driver.say("the fence")
        await until(
            lambda: any(one.text == "the fence" for one in session.gateway.messages), "the fence comes in"
        )


def _downloads(adapter: object) -> Downloads:
    assert hasattr(adapter, "fetch"), "Features.downloads is declared, and there is no fetch()"
    return adapter


async def _half(session: Session, driver: Driver) -> str:
    """Show "Half of it" as the draft of turn 1; gives how it stands there."""
    await driver.say("tell me")
    await session.heard(1)
    session.adapter.show(driver.home(), Drafted(1, 0, "Half of it"))
    await session.shows(lambda posts: "Half of it" in _text(posts))
    return (await driver.seen())[-1].text.strip()


def _text(posts: list[Post]) -> str:
    return "\n".join(one.text for one in posts)


def _files(posts: list[Post]) -> list[tuple[str, bytes]]:
    return [file for one in posts for file in one.files]
