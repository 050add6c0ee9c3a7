"""Files: what people send, and what the agent sends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes_core.adapter import Drafted
from hermes_core.errors import HermesError
from hermes_core.messages import Address, Attachment, Choice, Outgoing
from hermes_core.testing.platforms.telegram import Fault, Refusal, TelegramServer, flood
from hermes_telegram import limits
from hermes_telegram.settings import Settings

HERE = Address("telegram", "42", "7")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


async def read(adapter: Any, attachment: Attachment) -> bytes:
    return b"".join([piece async for piece in adapter.fetch(attachment)])


@pytest.fixture
def kept(tmp_path: Path) -> Any:
    """Makes a file that can be sent."""

    def make(name: str, content: bytes, media_type: str = "text/plain") -> Attachment:
        path = tmp_path / f"kept-{name}"
        path.write_bytes(content)
        return Attachment(name, media_type, len(content), str(path))

    return make


# ---- in


async def test_a_file_that_came_is_read_piece_by_piece(open_house: Any, telegram: TelegramServer) -> None:
    content = bytes(range(256)) * 4096  # 1 MB
    telegram.store("abc", content)
    async with open_house() as house:
        await house.up()
        adapter = house.runtime.services.adapters["telegram"]
        pieces = [piece async for piece in adapter.fetch(Attachment("a.bin", size=len(content), ref="abc"))]
    assert b"".join(pieces) == content
    assert max(map(len, pieces)) <= 256 * 1024


async def test_whoever_has_read_enough_of_a_file_leaves_no_connection_open(
    open_house: Any, telegram: TelegramServer
) -> None:
    telegram.store("abc", bytes(8 * 2**20))
    async with open_house() as house:
        await house.up()
        adapter = house.runtime.services.adapters["telegram"]
        pieces = adapter.fetch(Attachment("a.bin", ref="abc"))
        assert len(await anext(pieces)) <= 256 * 1024
        before = telegram.open_connections
        await pieces.aclose()
        async with asyncio.timeout(5):
            while telegram.open_connections >= before:
                await asyncio.sleep(0.01)


async def test_a_download_that_is_cut_goes_on_where_it_was(open_house: Any, telegram: TelegramServer) -> None:
    content = bytes(range(256)) * 4096
    telegram.store("abc", content)
    telegram.fail("file", Fault(cut="after"))
    telegram.fail("getFile", Fault(Refusal(500, "Internal Server Error")))
    async with open_house() as house:
        await house.up()
        adapter = house.runtime.services.adapters["telegram"]
        assert await read(adapter, Attachment("a.bin", ref="abc")) == content


@pytest.mark.parametrize(
    ("attachment", "said"),
    [
        (Attachment("a.iso", size=21 * 2**20, ref="large"), "a.iso is larger than 20 MB"),
        (Attachment("a.iso", ref="large"), "a.iso is larger than 20 MB"),
        (Attachment("a.txt", size=1, ref="none"), "does not have a.txt any more"),
    ],
    ids=["said to be large", "large", "gone"],
)
async def test_a_file_that_cannot_be_had_is_told_in_words_without_the_token(
    open_house: Any, telegram: TelegramServer, attachment: Attachment, said: str
) -> None:
    telegram.store("large", bytes(20 * 2**20 + 1))
    async with open_house() as house:
        await house.up()
        with pytest.raises(HermesError, match=said) as told:
            await read(house.runtime.services.adapters["telegram"], attachment)
    assert telegram.token not in str(told.value)
    assert told.value.__cause__ is None


async def test_ones_own_server_gives_files_of_any_size_from_its_disk(open_house: Any, tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    content = bytes(20 * 2**20 + 1)
    async with (
        TelegramServer(folder=folder) as server,
        open_house(server=server, own={"local_server": True}) as house,
    ):
        server.store("large", content)
        await house.up()
        adapter = house.runtime.services.adapters["telegram"]
        assert adapter.features.max_file == limits.UPLOAD_LOCAL
        assert await read(adapter, Attachment("a.iso", size=len(content), ref="large")) == content
        server.files["documents/abc"] = b"x"
        server.folder = Path("/nowhere")  # its disk is not this machine's
        with pytest.raises(HermesError, match="cannot be read where the Bot API server keeps it"):
            await read(adapter, Attachment("h.txt", ref="abc"))


async def test_a_path_that_the_public_server_names_is_never_read_from_this_disk(
    open_house: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    async with TelegramServer(folder=folder) as server, open_house(server=server) as house:
        server.store("abc", b"secret of this machine")
        await house.up()
        with pytest.raises(HermesError, match="any more"):
            await read(house.runtime.services.adapters["telegram"], Attachment("a.txt", ref="abc"))


# ---- out


async def send(house: Any, text: str, *files: Attachment, **more: Any) -> Any:
    adapter = house.runtime.services.adapters["telegram"]
    return await adapter.send(Outgoing("k", HERE, text, attachments=files, **more))


async def test_a_short_text_is_the_caption_of_its_file(
    open_house: Any, telegram: TelegramServer, kept: Any
) -> None:
    async with open_house() as house:
        await house.up()
        sent = await send(house, "**Here** it is.", kept("report.txt", b"all well"))
    assert telegram.sent_files() == [("report.txt", b"all well")]
    assert telegram.texts() == ["Here it is."]
    (message,) = telegram.sent()
    assert [one["type"] for one in message["caption_entities"]] == ["bold"]
    assert sent.ids == (str(message["message_id"]),)


async def test_a_long_text_stands_before_its_files_and_nothing_is_lost(
    open_house: Any, telegram: TelegramServer, kept: Any
) -> None:
    text = "word " * 300
    async with open_house() as house:
        await house.up()
        sent = await send(house, text, kept("a.txt", b"a"), kept("b.txt", b"b"))
    assert telegram.texts() == [text.strip(), "", ""]
    assert telegram.sent_files() == [("a.txt", b"a"), ("b.txt", b"b")]
    assert len(sent.ids) == 3


async def test_a_file_alone_needs_no_text(open_house: Any, telegram: TelegramServer, kept: Any) -> None:
    async with open_house() as house:
        await house.up()
        await send(house, "", kept("a.txt", b"a"))
    assert telegram.sent_files() == [("a.txt", b"a")]


@pytest.mark.parametrize(
    ("content", "name"), [(PNG, "photo"), (b"no picture at all", "p.png")], ids=["a picture", "none"]
)
async def test_a_picture_is_shown_as_one_and_what_telegram_takes_for_none_goes_as_a_document(
    open_house: Any, telegram: TelegramServer, kept: Any, content: bytes, name: str
) -> None:
    async with open_house() as house:
        await house.up()
        await send(house, "look", kept("p.png", content, "image/png"))
    assert telegram.sent_files() == [(name, content)]
    assert telegram.texts() == ["look"]


async def test_a_file_that_cannot_be_sent_is_named_and_the_text_arrives(
    open_house: Any, telegram: TelegramServer, kept: Any, caplog: pytest.LogCaptureFixture
) -> None:
    telegram.max_upload = 10
    gone = kept("gone.txt", b"x")
    Path(gone.ref).unlink()
    async with open_house() as house:
        await house.up()
        await send(house, "**All** of it:", kept("large.txt", bytes(11)), kept("empty.txt", b""), gone)
    assert telegram.texts() == [
        "All of it:\n\n📎 large.txt could not be sent: Request Entity Too Large",
        "📎 empty.txt could not be sent: File must be non-empty",
        "📎 gone.txt could not be sent: it cannot be read any more",
    ]
    assert str(Path(gone.ref).parent) not in "".join(telegram.texts())


async def test_a_file_whose_fate_is_unknown_is_sent_once_more_with_a_mark(
    open_house: Any, telegram: TelegramServer, kept: Any
) -> None:
    telegram.fail("sendDocument", Fault(flood(1)), Fault(cut="after"))
    async with open_house() as house:
        await house.up()
        await send(house, "word " * 300, kept("a.txt", b"a"))
    assert telegram.texts()[1:] == ["", "↻ (may be a repeat)"]
    assert telegram.sent_files() == [("a.txt", b"a")] * 2


async def test_a_reply_that_was_shown_while_it_was_written_ends_with_its_files_and_buttons(
    open_house: Any, telegram: TelegramServer, kept: Any
) -> None:
    async with open_house() as house:
        await house.up()
        adapter = house.runtime.services.adapters["telegram"]
        long = "word " * 1000  # two messages while it is written
        adapter.show(HERE, Drafted(1, 0, long))
        await telegram.until(lambda: len(telegram.texts()) == 2)
        await send(house, "Short.", kept("a.txt", b"a"), turn="1", choices=(Choice("Yes", "/yes"),))
    assert telegram.texts() == ["Short.", ""]
    assert telegram.sent_files() == [("a.txt", b"a")]
    assert "reply_markup" in telegram.sent()[0]


def test_the_largest_file_is_said_truthfully() -> None:
    from hermes_telegram.adapter import TelegramAdapter

    assert TelegramAdapter("1:x", Settings()).features.max_file == 50_000_000
    assert TelegramAdapter("1:x", Settings(local_server=True)).features.max_file == 2_000_000_000
