"""The tools of the plugin: reading what came, sending what is asked for, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes_core.adapter import Features
from hermes_core.file import file_id
from hermes_core.messages import Attachment, Step, ToolCall
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import ScriptedModel
from hermes_core.testing.platform import FakePlatform
from hermes_files.plugin import FilesPlugin, FilesPluginSettings

LOG = Attachment("server.log", "text/plain", 25, "log")


def call(tool: str, /, **arguments: Any) -> list[ToolCall]:
    return [ToolCall("c1", tool, json.dumps(arguments))]


def bed_of(folder: Path, tool: str, settings: FilesPluginSettings | None = None, /, **arguments: Any) -> Bed:
    model = ScriptedModel([call(tool, **arguments), "Done."])
    return Bed(folder, model=model, plugins=[FilesPlugin(settings or FilesPluginSettings())])


def result(bed: Bed) -> str:
    step = next(one for one in bed.model.requests[-1].items if isinstance(one, Step) and one.calls)
    return step.results[0].text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"first line\nsecond \xc3\xa4\n", "first line\nsecond ä\n"),
        ("\ufeffwith a mark".encode(), "with a mark"),
        ("as Windows did it: ä".encode("utf-16"), "as Windows did it: ä"),
        (b"as Windows does it: \xe4 \x80", "as Windows does it: ä €"),
        (b"", ""),
    ],
)
async def test_a_text_is_read_in_the_encoding_that_it_has(tmp_path: Path, content: bytes, text: str) -> None:
    async with bed_of(tmp_path, "read_file", file=file_id(LOG)) as bed:
        bed.platform.files["log"] = content
        assert await bed.say("what is in it?", attachments=(LOG,)) == "Done."
        assert (
            result(bed)
            == f"{text}\n[server.log: characters 0 to {len(text)} of {len(text)}; this is the end]"
        )


async def test_a_long_text_is_read_page_by_page(tmp_path: Path) -> None:
    settings = FilesPluginSettings(page_chars=100)
    text = "".join(f"line {n}\n" for n in range(40))
    async with bed_of(tmp_path, "read_file", settings, file=file_id(LOG), cursor=100) as bed:
        bed.platform.files["log"] = text.encode()
        await bed.say("go on", attachments=(LOG,))
        assert result(bed) == (
            f"{text[100:200]}\n[server.log: characters 100 to 200 of {len(text)}; go on with cursor=200]"
        )


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"PK\x03\x04\x00\x00", "is not text"), (None, "is gone")],
)
async def test_what_cannot_be_read_is_said_to_the_model(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    async with bed_of(tmp_path, "read_file", file=file_id(LOG)) as bed:
        if content is not None:
            bed.platform.files["log"] = content
        await bed.say("what is in it?", attachments=(LOG,))
        assert told in result(bed)


@pytest.mark.parametrize(("file", "cursor"), [("nowhere", 0), (file_id(LOG), -1), (file_id(LOG), 99)])
async def test_a_wrong_id_or_place_is_said_to_the_model(tmp_path: Path, file: str, cursor: int) -> None:
    async with bed_of(tmp_path, "read_file", file=file, cursor=cursor) as bed:
        bed.platform.files["log"] = b"short"
        await bed.say("what is in it?", attachments=(LOG,))
        assert "There is no file" in result(bed) or "between 0 and 5" in result(bed)


async def test_a_text_goes_out_as_a_file_before_the_reply(tmp_path: Path) -> None:
    async with bed_of(tmp_path, "send_text_file", name="a.csv", content="a;ä\n", text="Here:") as bed:
        assert await bed.say("as a file please") == "Done."
        file, reply = bed.platform.sent
        assert (file.text, reply.text) == ("Here:", "Done.")
        assert file.attachments[0].name == "a.csv"
        assert Path(file.attachments[0].ref).read_text() == "a;ä\n"
        assert result(bed) == "Sent: a.csv, 5 bytes."


async def test_a_platform_without_files_says_so_to_the_model(tmp_path: Path) -> None:
    model = ScriptedModel([call("send_text_file", name="a.csv", content="a"), "Done."])
    platform = FakePlatform(features=Features(lookup=True))
    async with Bed(
        tmp_path, model=model, platform=platform, plugins=[FilesPlugin(FilesPluginSettings())]
    ) as bed:
        await bed.say("as a file please")
        assert result(bed) == "fake takes no files. Give the content as text."


async def test_only_files_of_the_opened_folders_leave_the_machine(tmp_path: Path) -> None:
    open_, closed = tmp_path / "reports", tmp_path / "secrets"
    open_.mkdir()
    closed.mkdir()
    (open_ / "report.txt").write_text("fine")
    (closed / "key").write_text("sk-secret")
    (open_ / "link").symlink_to(closed / "key")
    settings = FilesPluginSettings(folders=(open_,))
    for path, sent in {
        open_ / "report.txt": True,
        open_ / ".." / "secrets" / "key": False,
        open_ / "link": False,
        closed / "key": False,
        open_ / "nowhere": False,
        open_: False,
        Path("a\0b"): False,
    }.items():
        async with bed_of(tmp_path / "data", "send_file", settings, path=str(path)) as bed:
            await bed.say("send it")
            assert bool(bed.platform.sent[0].attachments) is sent, path
            if not sent:
                assert "is no file that may be sent" in result(bed)


async def test_without_folders_no_file_of_the_machine_can_be_sent(tmp_path: Path) -> None:
    async with bed_of(tmp_path, "send_file", path=str(tmp_path / "x")) as bed:
        await bed.say("send it")
        assert "There is no tool" in result(bed)
