"""The pipe mode over real descriptors: pipes, files, subprocesses."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_core.adapter import Features
from hermes_core.errors import Incomplete, SendError
from hermes_core.messages import Address, Attachment, Outgoing
from hermes_terminal.pipe import PipeAdapter, Streams
from hermes_terminal.seat import ANY_SIZE, Seat

from .fake_gateway import FakeGateway, converse

SEAT = Seat.of("main")
PROGRAM = [sys.executable, "-m", "adapters.terminal.tests.fake_gateway"]
ROOT = Path(__file__).parents[3]


def program(typed: bytes, *arguments: str) -> tuple[str, str]:
    """What the program writes to stdout and stderr when this is typed into it."""
    done = subprocess.run(
        [*PROGRAM, *arguments], input=typed, capture_output=True, cwd=ROOT, timeout=60, check=True
    )
    return done.stdout.decode(), done.stderr.decode()


class Ends:
    """The far ends of the three streams of an adapter under test."""

    def __init__(self) -> None:
        self.near_in, self.stdin = os.pipe()
        self.stdout, self.near_out = os.pipe()
        self.stderr, self.near_err = os.pipe()
        self.streams = Streams(self.near_in, self.near_out, self.near_err)

    def type(self, data: bytes, *, end: bool = True) -> None:
        os.write(self.stdin, data)
        if end:
            self.close("stdin")

    def close(self, name: str) -> None:
        os.close(getattr(self, name))
        setattr(self, name, -1)

    def close_all(self) -> None:
        for name in ("near_in", "stdin", "stdout", "near_out", "stderr", "near_err"):
            if getattr(self, name) >= 0:
                self.close(name)

    def written(self, name: str = "stdout") -> str:
        """What stands in a pipe whose near end nobody writes to any more."""
        self.close({"stdout": "near_out", "stderr": "near_err"}[name])
        with os.fdopen(os.dup(getattr(self, name)), "rb") as file:
            return file.read().decode()


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    if ends.stdin >= 0:
        ends.close("stdin")
    for (
        thread
    ) in threading.enumerate():  # else one could read from the next test's pipe, under the same number
        if thread.name == "hermes-stdin":
            thread.join(10)
    ends.close_all()


async def test_each_line_has_a_turn_of_its_own_and_the_next_waits_for_it(ends: Ends) -> None:
    gateway = FakeGateway()
    ends.type(b"one\ntwo\nthree\n")
    await converse(gateway, PipeAdapter(SEAT, ends.streams))
    assert gateway.events == [
        "settled",
        *("received one", "settled"),
        *("received two", "settled"),
        *("received three", "settled"),
    ]
    assert ends.written() == "echo: one\necho: two\necho: three\n"


async def test_every_line_is_a_message_with_a_new_id_from_the_person_who_is_logged_in(ends: Ends) -> None:
    gateway = FakeGateway()
    ends.type(b"same\nsame\n")
    await converse(gateway, PipeAdapter(SEAT, ends.streams))
    first, second = gateway.received
    assert first.id != second.id
    assert (first.author.id, first.address) == ("local", Address("terminal", "local", "main"))
    assert first.author.name


@pytest.mark.parametrize(
    ("typed", "received"),
    [
        pytest.param(b"", [], id="nothing at all"),
        pytest.param(b"\n  \n\t\n\n", [], id="blank lines only"),
        pytest.param(b"no end", ["no end"], id="no newline at the end"),
        pytest.param(b"a\r\nb\r\n", ["a", "b"], id="line ends of Windows"),
        pytest.param(b"\xff\xfe ok\n", ["\ufffd\ufffd ok"], id="no UTF-8"),
        pytest.param("žluťoučký 日本 👩‍👩‍👧\n".encode(), ["žluťoučký 日本 👩‍👩‍👧"], id="other scripts"),
        pytest.param(b"a\x00b\x1b[2J\n", ["a\x00b\x1b[2J"], id="control characters stay in the message"),
    ],
)
async def test_lines_are_read_whatever_they_hold(ends: Ends, typed: bytes, received: list[str]) -> None:
    gateway = FakeGateway()
    ends.type(typed)
    await converse(gateway, PipeAdapter(SEAT, ends.streams))
    assert [message.text for message in gateway.received] == received


async def test_a_character_that_arrives_in_two_pieces_is_one_character(ends: Ends) -> None:
    gateway = FakeGateway()
    talk = asyncio.ensure_future(converse(gateway, PipeAdapter(SEAT, ends.streams)))
    await gateway.is_ready.wait()
    for byte in "日本\n".encode():
        ends.type(bytes([byte]), end=False)
        await asyncio.sleep(0)
    ends.close("stdin")
    await talk
    assert [message.text for message in gateway.received] == ["日本"]


def test_a_line_of_three_megabytes_arrives_whole() -> None:
    line = b"x" * 3_000_000
    out, _ = program(line + b"\nnext\n")
    assert out == f"echo: {line.decode()}\necho: next\n"


def test_the_input_may_be_a_file_and_the_output_too(tmp_path: Path) -> None:
    typed, answered = tmp_path / "in", tmp_path / "out"
    typed.write_bytes(b"one\ntwo")
    with typed.open("rb") as stdin, answered.open("wb") as stdout:
        subprocess.run(PROGRAM, stdin=stdin, stdout=stdout, cwd=ROOT, timeout=60, check=True)
    assert answered.read_text() == "echo: one\necho: two\n"


def test_an_input_that_is_closed_from_the_start_is_an_empty_one() -> None:
    closed = [*PROGRAM]
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *closed],
        capture_output=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"", b"")


def test_answers_to_commands_go_to_the_output_and_notices_do_not() -> None:
    out, err = program(b"/status\nfail\nlast\n")
    assert out == "command /status\necho: last\n"
    assert err == "The model did not answer.\n"


def test_a_reply_that_may_be_a_repeat_says_so() -> None:
    assert program(b"again\n")[0] == "(may be a repeat) echo: again\n"


def test_replies_are_written_as_they_are_where_no_terminal_reads_them() -> None:
    assert "\x1b[2J" in program(b"raw\n")[0]


def test_the_program_stops_when_nobody_reads_its_output(tmp_path: Path) -> None:
    typed = b"".join(b"line %d\n" % number for number in range(200))
    (tmp_path / "in").write_bytes(typed)
    with (tmp_path / "in").open("rb") as stdin:
        process = subprocess.Popen(
            [*PROGRAM, "--data", str(tmp_path)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"echo: line 0\n"
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.stderr.close()
    events = (tmp_path / "events").read_text()
    assert "unsent permanent=True" in events
    assert "received line 199" not in events


async def test_a_reader_that_is_slow_does_not_stop_the_event_loop(ends: Ends) -> None:
    adapter = PipeAdapter(SEAT, ends.streams)
    sending = asyncio.ensure_future(adapter.send(Outgoing("k", SEAT.address, "x" * 1_000_000, number=1)))
    for _ in range(100):  # the loop goes round although the pipe has been full for long
        await asyncio.sleep(0)
    assert not sending.done()
    reading = asyncio.to_thread(os.read, ends.stdout, 10)
    assert await reading == b"x" * 10
    total = 10
    while total < 1_000_001:
        total += len(await asyncio.to_thread(os.read, ends.stdout, 1 << 16))
    await sending
    assert total == 1_000_001


async def test_an_output_that_somebody_made_non_blocking_gets_everything(ends: Ends) -> None:
    os.set_blocking(ends.near_out, False)
    os.set_blocking(ends.near_in, False)
    gateway = FakeGateway()
    adapter = PipeAdapter(SEAT, ends.streams)
    sending = asyncio.ensure_future(adapter.send(Outgoing("k", SEAT.address, "x" * 300_000, number=1)))
    total = 0
    while total < 300_001:
        total += len(await asyncio.to_thread(os.read, ends.stdout, 1 << 16))
    await sending
    ends.type(b"one\n")
    await converse(gateway, adapter)
    assert ends.written() == "echo: one\n"


async def test_cancelling_ends_it_within_a_second_though_no_line_ever_comes(ends: Ends) -> None:
    gateway = FakeGateway()
    run = asyncio.ensure_future(PipeAdapter(SEAT, ends.streams).run(gateway))
    await gateway.is_ready.wait()
    run.cancel()
    await asyncio.wait({run}, timeout=1)
    assert run.cancelled()


async def test_a_line_that_the_store_does_not_take_is_tried_again_and_then_reported(ends: Ends) -> None:
    gateway = FakeGateway()
    ends.type(b"full\nnext\n")
    with pytest.raises(Incomplete, match="1 of 2 messages not answered"):
        await converse(gateway, PipeAdapter(SEAT, ends.streams, retry=(0.0, 0.0)))
    assert gateway.events.count("refused") == 3
    assert ends.written() == "echo: next\n"
    assert ends.written("stderr") == "Not taken: 'full'. The disk is full.\n"


async def test_a_message_for_another_conversation_is_not_shown_in_this_one(ends: Ends) -> None:
    adapter = PipeAdapter(SEAT, ends.streams)
    with pytest.raises(SendError, match="not open here") as caught:
        await adapter.send(Outgoing("k", Address("terminal", "local", "other"), "secret", number=1))
    assert not caught.value.permanent
    assert ends.written() == ""


async def test_a_full_disk_under_the_output_is_no_final_failure() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        adapter = PipeAdapter(SEAT, Streams(None, full.fileno(), None))
        with pytest.raises(SendError, match="No space left") as caught:
            await adapter.send(Outgoing("k", SEAT.address, "text", number=1))
    assert (caught.value.permanent, caught.value.unknown) == (False, False)


def test_a_pipe_claims_that_its_person_sits_here_and_answers_no_questions_and_that_files_are_named() -> None:
    assert PipeAdapter.features == Features(local=True, unattended=True, max_file=ANY_SIZE)


async def test_a_file_is_a_line_on_stdout_with_its_place(ends: Ends) -> None:
    adapter = PipeAdapter(SEAT, ends.streams)
    file = Attachment("re\x1bport.txt", "text/plain", 2_000, "/there/kept-report.txt")
    await adapter.send(Outgoing("k", SEAT.address, "Here it is.", attachments=(file,)))
    await adapter.send(Outgoing("l", SEAT.address, "", attachments=(file,), repeat=True))
    line = "📎 re␛port.txt (2 kB): /there/kept-report.txt\n"
    assert ends.written() == f"Here it is.\n{line}(may be a repeat) \n{line}"


async def test_a_run_that_is_begun_again_goes_on_behind_the_last_line_that_was_taken(ends: Ends) -> None:
    gateway, adapter = FakeGateway(), PipeAdapter(SEAT, ends.streams)
    first = asyncio.create_task(converse(gateway, adapter))
    ends.type(b"one\n", end=False)
    async with asyncio.timeout(10):
        while gateway.events.count("settled") < 2:  # its turn is over
            await asyncio.sleep(0.005)
    first.cancel()
    await asyncio.wait({first})
    ends.type(b"two\n")
    await converse(gateway, adapter)
    assert [one.text for one in gateway.received] == ["one", "two"]
