"""Files that come with a message, and files that go out with one."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hermes_core.errors import HermesError
from hermes_core.messages import Attachment, Choice, Outgoing
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.discord import FakeDiscord

from .bench import Bench, until

DATA = bytes(range(256)) * 1000


async def came(bench: Bench, chat: str) -> Attachment:
    """The first file of the first message of this conversation, as it is kept."""
    await bench.heard(chat)
    for record in await bench.store.history(bench.address(chat)):
        for item in record.items:
            for one in getattr(item, "attachments", ()):
                assert isinstance(one, Attachment)
                return one
    raise AssertionError("no file came")


async def content(bench: Bench, attachment: Attachment) -> bytes:
    """What the adapter gives for a file."""
    adapter: Any = bench.runtime.services.adapters["discord"]
    async with aclosing(adapter.fetch(attachment)) as pieces:
        return b"".join([piece async for piece in pieces])


async def test_a_file_that_came_is_read_piece_by_piece(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "look", files={"notes.txt": DATA})
        file = await came(bench, chat)
        assert (file.name, file.media_type, file.size) == (
            "notes.txt",
            "text/plain; charset=utf-8",
            len(DATA),
        )
        assert await content(bench, file) == DATA


async def test_a_file_whose_link_has_died_is_read_by_a_new_one(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "look", files={"notes.txt": DATA, "more.txt": b"more"})
        file = await came(bench, chat)
        discord.cabinet.expire()
        assert await content(bench, file) == DATA
        assert [status for _, status in discord.cabinet.fetched] == [404, 200]


async def test_a_download_that_breaks_goes_on_where_it_broke(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "look", files={"notes.txt": DATA})
        file = await came(bench, chat)
        discord.cabinet.breaks = [100_000, 50_000]
        assert await content(bench, file) == DATA
        assert [status for _, status in discord.cabinet.fetched] == [200, 206, 206]


async def test_a_file_that_cannot_be_had_is_said_in_words(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        id_ = await discord.say(chat, "ann", "look", files={"notes.txt": DATA})
        file = await came(bench, chat)
        discord.cabinet.breaks = [10, 10, 10]
        with pytest.raises(HermesError, match=r"notes\.txt cannot be had .* Try again"):
            await content(bench, file)
        await discord.delete(chat, id_)
        with pytest.raises(HermesError, match=r"notes\.txt is not there any more"):
            await content(bench, file)
        with pytest.raises(HermesError, match="did not come from Discord"):
            await content(bench, Attachment("x.txt", ref="https://example.org/x.txt"))


def _file(folder: Path, name: str, data: bytes) -> Attachment:
    path = folder / name
    path.write_bytes(data)
    return Attachment(name, size=len(data), ref=str(path))


async def _send(bench: Bench, chat: str, text: str, *files: Attachment, **more: Any) -> Outgoing:
    outgoing = Outgoing(
        f"{bench.address(chat)}#test:{text}", bench.address(chat), text, attachments=files, **more
    )
    await bench.runtime.services.adapters["discord"].send(outgoing)
    return outgoing


async def test_files_go_out_with_the_text_or_alone(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        report = _file(tmp_path, "report.txt", b"all is well")
        picture = _file(tmp_path, "picture.png", DATA)
        await _send(bench, chat, "Here it is:", report, picture)
        await _send(bench, chat, "", report)
        assert discord.texts(chat) == ["Here it is:", ""]
        assert discord.files(chat) == [
            ("report.txt", b"all is well"),
            ("picture.png", DATA),
            ("report.txt", b"all is well"),
        ]


async def test_files_stand_under_the_last_message_of_a_long_text_and_overflow_into_more(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        files = [_file(tmp_path, f"f{number}.txt", b"x") for number in range(12)]
        await _send(bench, chat, "word " * 700, *files)
        assert [len(one["attachments"]) for one in discord.mine(chat)] == [0, 10, 2]
        assert [name for name, _ in discord.files(chat)] == [f"f{number}.txt" for number in range(12)]


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_d5_a_message_with_files_whose_post_was_cut_arrives_once(
    cut: str, tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        discord.fail("POST", "/messages", cut=cut)
        await _send(bench, chat, "", _file(tmp_path, "report.txt", DATA))
        assert discord.files(chat) == [("report.txt", DATA)]
        assert len(discord.mine(chat)) == 1


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [(413, 40005, "too large for Discord"), (403, 50013, "Discord does not let me attach files here")],
)
async def test_a_file_that_is_refused_does_not_take_its_text_with_it(
    status: int, code: int, reason: str, tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        discord.fail("POST", "/messages", status, {"message": "refused", "code": code})
        await _send(bench, chat, "Here it is:", _file(tmp_path, "report.txt", DATA))
        assert discord.texts(chat) == [f"Here it is:\n\n*report.txt could not be attached: {reason}.*"]
        assert discord.files(chat) == []


async def test_a_file_that_has_gone_from_the_disk_is_named(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        await _send(bench, chat, "Here it is:", Attachment("lost.txt", ref=str(tmp_path / "lost.txt")))
        assert discord.texts(chat) == ["Here it is:\n\n*lost.txt could not be attached: it cannot be read.*"]


async def test_a_reply_that_was_shown_while_it_was_written_gets_its_files_and_buttons_at_the_end(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat, hold = discord.direct(), Hold()
    async with Bench(tmp_path, discord, [["This is the beginning of an answer", hold]]) as bench:
        await discord.say(chat, "ann", "go on")
        await until(lambda: discord.texts(chat))
        address, text = bench.address(chat), "This is the beginning of an answer"
        outgoing = Outgoing(
            f"{address}#turn:1",
            address,
            text,
            turn="1",
            attachments=(_file(tmp_path, "report.txt", DATA),),
            choices=(Choice("Yes", "/yes"),),
        )
        await bench.runtime.services.adapters["discord"].send(outgoing)
        assert discord.texts(chat) == [text]
        assert discord.files(chat) == [("report.txt", DATA)]
        assert discord.mine(chat)[0]["components"][0]["components"][0]["label"] == "Yes"


async def test_a_file_at_the_declared_limit_is_taken_and_one_beyond_it_is_named(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        limit = bench.runtime.services.adapters["discord"].features.max_file
        await _send(bench, chat, "one", _file(tmp_path, "full.bin", bytes(limit)))
        await _send(bench, chat, "two", _file(tmp_path, "over.bin", bytes(limit + 1)))
        assert [name for name, _ in discord.files(chat)] == ["full.bin"]
        assert discord.texts(chat)[1].endswith("*over.bin could not be attached: too large for Discord.*")
