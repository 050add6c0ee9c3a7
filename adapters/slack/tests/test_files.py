"""Files in both directions: each stands there once, and is read with the agent's token only where that belongs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from hermes_core.adapter import Drafted, Sent
from hermes_core.errors import HermesError, SendError
from hermes_core.messages import Attachment, Outgoing, turn_key
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_slack.adapter import SlackAdapter

from .alone import HERE, Connected

CONTENT = bytes(range(256)) * 300


def outgoing(folder: Path, *names: str, text: str = "look", key: str = "k1") -> Outgoing:
    for name in names:
        (folder / name).write_bytes(CONTENT)
    files = tuple(Attachment(name, size=len(CONTENT), ref=str(folder / name)) for name in names)
    return Outgoing(key, HERE, text, attachments=files)


def shown(slack: FakeSlack) -> list[str]:
    """Texts and names of files, in the order in which they stand there."""
    return [
        str(one["text"]) or str(one["files"][0]["title"])
        for _, one in sorted(slack.world.channel("D1").messages.items())
        if one.get("bot_id")
    ]


async def delivered(adapter: SlackAdapter, message: Outgoing) -> Sent:
    """As the outbox does it: what is unsure is looked up before it is sent again."""
    for _ in range(6):
        try:
            return await adapter.send(message)
        except SendError as error:
            if error.unknown and (found := await adapter.find(message.key, message.address)) is not None:
                return found
    raise AssertionError("never delivered")


async def test_files_follow_their_text_in_order(tmp_path: Path, slack: FakeSlack) -> None:
    slack.world.files.late = 1  # Slack shows a file a moment after it was shared
    async with Connected(slack, tmp_path) as (adapter, _):
        await adapter.send(outgoing(tmp_path, "a.bin", "b.txt"))
        await adapter.send(Outgoing("k2", HERE, "then"))
        slack.world.files.settle()
        assert shown(slack) == ["look", "a.bin", "b.txt", "then"]
        assert {one.content for one in slack.world.files.stored.values()} == {CONTENT}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "method", ["files.getUploadURLExternal", "files.completeUploadExternal", "files.info", "chat.postMessage"]
)
async def test_a_file_whose_call_was_cut_stands_there_once_d5(
    tmp_path: Path, slack: FakeSlack, method: str, when: str
) -> None:
    async with Connected(slack, tmp_path) as (adapter, _):
        slack.cut(method, when)
        await delivered(adapter, outgoing(tmp_path, "a.bin", "b.txt"))
        assert shown(slack) == ["look", "a.bin", "b.txt"]


async def test_an_upload_that_slack_does_not_take_at_once_is_made_again(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with Connected(slack, tmp_path) as (adapter, _):
        slack.refuse("upload", status=500)
        await delivered(adapter, outgoing(tmp_path, "a.bin"))
        assert shown(slack) == ["look", "a.bin"]


@pytest.mark.parametrize("text", ["look", ""])
async def test_another_run_knows_which_files_stand_there_d5(
    tmp_path: Path, slack: FakeSlack, text: str
) -> None:
    message = outgoing(tmp_path, "a.bin", "b.txt", text=text)
    async with Connected(slack, tmp_path) as (adapter, _):
        slack.refuse("files.completeUploadExternal", status=503)
        sending = asyncio.create_task(adapter.send(message))
        await slack.until(lambda: bool(slack.called("files.completeUploadExternal")))
        sending.cancel()  # the program ends here
        await asyncio.wait({sending})
        await adapter.send(Outgoing("k2", HERE, "another"))  # leaves nothing of the first
    async with Connected(slack, tmp_path) as (later, _):
        assert await later.find("k1", HERE) is None
        sent = await later.send(message)
        assert [one for one in shown(slack) if one != "another"] == [
            *([text] if text else []),
            "a.bin",
            "b.txt",
        ]
    async with Connected(slack, tmp_path) as (last, _):
        assert await last.find("k1", HERE) == sent


async def test_a_file_that_slack_will_never_take_is_said_and_holds_up_nothing(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with Connected(slack, tmp_path) as (adapter, _):
        slack.refuse("files.getUploadURLExternal", "missing_scope")
        await adapter.send(outgoing(tmp_path, "a.bin"))
        assert shown(slack) == ["look", "Slack does not take a.bin: missing\\_scope.".replace("\\", "")]
        gone = outgoing(tmp_path, "b.bin", key="k2")
        (tmp_path / "b.bin").unlink()
        await adapter.send(gone)
        assert shown(slack)[2:] == ["look", "b.bin cannot be read: No such file or directory."]


async def test_a_file_that_is_given_up_does_not_take_the_place_of_another_one(
    tmp_path: Path, slack: FakeSlack
) -> None:
    """The first is refused for ever, the second is shared although the answer is lost: each is told once."""
    message = outgoing(tmp_path, "a.bin", "b.txt")
    expected = ["look", "Slack does not take a.bin: file_uploads_disabled.", "b.txt"]
    async with Connected(slack, tmp_path) as (adapter, _):
        slack.refuse("files.getUploadURLExternal", "file_uploads_disabled")
        slack.cut("files.info", "before")
        sent = await adapter.send(message)
        assert shown(slack) == expected
    async with Connected(slack, tmp_path) as (adapter, _):  # as after a crash before the outbox knew
        assert await adapter.find("k1", HERE) == sent
        del slack.world.channel("D1").messages[sent.ids[0]]
        assert await adapter.find("k1", HERE) is None
        again = await adapter.send(message)  # the file that was refused is tried once more
        assert again.ids[2] == sent.ids[2]
        assert sorted(shown(slack)) == ["a.bin", "b.txt", "look"]


async def test_a_draft_that_has_more_messages_than_the_reply_makes_room_for_its_files(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with Connected(slack, tmp_path) as (adapter, _):
        adapter.show(HERE, Drafted(1, 0, "word " * 1500))
        await slack.until(lambda: len(shown(slack)) == 2)
        files = outgoing(tmp_path, "a.bin", "b.txt").attachments
        await adapter.send(Outgoing(turn_key(HERE, 1), HERE, "look", turn="1", attachments=files))
        assert shown(slack) == ["look", "a.bin", "b.txt"]


# ---- in


def came(slack: FakeSlack, name: str = "a.bin") -> Attachment:
    file = slack.world.files.add(name, CONTENT)
    return Attachment(name, file["mimetype"], file["size"], file["url_private_download"])


async def fetched(adapter: SlackAdapter, attachment: Attachment) -> bytes:
    return b"".join([piece async for piece in adapter.fetch(attachment)])


@pytest.mark.parametrize("how", ["page", "redirect"])
@pytest.mark.parametrize("name", ["a.bin", "page.html"])
async def test_a_missing_scope_is_said_in_words_and_not_read_as_the_file(
    tmp_path: Path, slack: FakeSlack, how: str, name: str
) -> None:
    async with Connected(slack, tmp_path) as (adapter, _):
        attachment = came(slack, name)
        assert await fetched(adapter, attachment) == CONTENT
        slack.world.files.unreadable = how
        with pytest.raises(HermesError, match=rf"{name}.*files:read"):
            await fetched(adapter, attachment)


async def test_a_download_that_breaks_goes_on_where_it_broke(tmp_path: Path, slack: FakeSlack) -> None:
    async with Connected(slack, tmp_path) as (adapter, _):
        attachment = came(slack)
        slack.world.files.breaks = [len(CONTENT) // 2, len(CONTENT) // 3]
        assert await fetched(adapter, attachment) == CONTENT
        slack.world.files.breaks = [1, 1, 1]
        with pytest.raises(HermesError, match=r"a.bin could not be read from Slack \(ClientPayloadError\)"):
            await fetched(adapter, attachment)


async def test_a_file_of_another_workspace_is_asked_for_by_its_id(tmp_path: Path, slack: FakeSlack) -> None:
    async with Connected(slack, tmp_path) as (adapter, _):
        came(slack)
        assert await fetched(adapter, Attachment("a.bin", ref="F00000001")) == CONTENT
        with pytest.raises(HermesError, match="file_not_found"):
            await fetched(adapter, Attachment("a.bin", ref="F9"))


@pytest.mark.parametrize(
    "where", ["http://127.0.0.1", "https://files.slack.com.invalid", "https://badslack.com"]
)
async def test_the_token_is_sent_to_slack_and_nowhere_else_x2(
    tmp_path: Path, slack: FakeSlack, where: str
) -> None:
    """A file that was added from elsewhere has an address of that place."""
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.headers.get("Authorization", ""))
        return web.Response(body=b"x")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with Connected(slack, tmp_path) as (adapter, _):
            with pytest.raises(HermesError, match="elsewhere"):
                await fetched(adapter, Attachment("a.bin", ref=f"{where}:{port}/a.bin"))
    finally:
        await runner.cleanup()
    assert asked == []


async def test_a_reader_may_stop_early(tmp_path: Path, slack: FakeSlack) -> None:
    async with Connected(slack, tmp_path) as (adapter, _):
        pieces = adapter.fetch(came(slack))
        first = await anext(aiter(pieces))
        await pieces.aclose()  # type: ignore[attr-defined]
        assert CONTENT.startswith(first)
        async with asyncio.timeout(5):
            assert await fetched(adapter, came(slack, "b.bin")) == CONTENT


async def test_nothing_can_be_fetched_while_slack_is_not_connected(slack: FakeSlack) -> None:
    connected = Connected(slack)
    with pytest.raises(HermesError, match="not connected"):
        await fetched(connected.adapter, came(slack))
