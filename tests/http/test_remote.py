"""A Job API elsewhere, driven as a tool with the same rules: one runtime drives another (H, J1, J5, J12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from hermes_core.errors import HermesError
from hermes_core.hookspecs import hookimpl
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.tools import AsyncTool, JobContext, Program
from hermes_jobs.http_remote import remote_tool
from tests.http.inside import Inside


class Driver:
    """A plugin whose tools are done by the server at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url

    @hookimpl
    def hermes_async_tools(self) -> Iterable[AsyncTool]:
        @remote_tool(self.url, tool="hold")
        async def far_hold(name: str, said: str = "") -> None:
            """Wait there."""

        @remote_tool(f"{self.url}/", "far_echo", tool="echo")
        async def whatever(text: str = "") -> None:
            """Say it there."""

        @remote_tool(self.url, tool="fail", deadline="1h")
        async def far_fail() -> None:
            """Fail there."""

        @remote_tool(self.url)
        async def unknown_there() -> None:
            """Is not there."""

        return (far_hold, whatever, far_fail, unknown_there)


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Inside]:
    async with Inside(tmp_path / "there", config={"jobs": {"page_chars": 7}}) as one:
        yield one


@pytest.fixture
async def here(tmp_path: Path, there: Inside) -> AsyncIterator[Inside]:
    async with Inside(tmp_path / "here", plugins=[Driver(there.url)]) as one:
        yield one


async def only(there: Inside) -> Any:
    """The one job over there."""
    (job,) = await there.store.jobs()
    return job


async def test_a_remote_tool_is_started_like_every_other(here: Inside, there: Inside) -> None:
    id_ = await here.job("far_echo", text="from there, in several pages")
    facts = await here.until(id_, "done")
    assert facts["summary"] == "from there, in several pages"
    assert (await here.client.get(f"/jobs/{id_}/result?cursor=0")).json()[
        "output"
    ] == "from there, in several pages"
    job = await only(there)
    assert job.key == id_, "the id here is the key there"
    starter = here.plugins.tools["start_far_hold"]
    assert set(starter.schema["properties"]) == {"name", "said", "idempotency_key", "deadline", "depends_on"}
    assert "Wait there." in starter.description


async def test_progress_there_is_progress_here(here: Inside, there: Inside) -> None:
    id_ = await here.job("far_hold", name="a")
    async with asyncio.timeout(20):
        while (await here.client.get(f"/jobs/{id_}")).json()["progress"]["fraction"] != 0.5:
            await asyncio.sleep(0.02)
    there.hands.go.set()
    assert (await here.until(id_, "done"))["summary"] == "let go"


async def test_a_failure_there_is_one_here_with_its_reason(here: Inside) -> None:
    facts = await here.until(await here.job("far_fail"), "failed")
    assert facts["summary"] == "failed on the other server: It went wrong."


async def test_what_the_other_server_refuses_fails_with_its_words(here: Inside) -> None:
    facts = await here.until(await here.job("unknown_there"), "failed")
    assert "422" in str(facts["summary"])
    assert "unknown_there" in str(facts["summary"])


async def test_a_stop_is_handed_on(here: Inside, there: Inside) -> None:
    id_ = await here.job("far_hold", name="a")
    await there.until_begun("a")
    assert (await here.client.delete(f"/jobs/{id_}")).status_code == 202
    await here.until(id_, "cancelled")
    assert (await only(there)).state.value == "cancelled"


async def test_a_deadline_here_stops_the_job_there(here: Inside, there: Inside) -> None:
    """(J6)"""
    answer = await here.start("far_hold", arguments={"name": "a"}, deadline=0.5)
    await here.until(answer.json()["job_id"], "timed_out")
    assert (await only(there)).state.value == "cancelled"


async def test_a_job_that_somebody_else_stopped_there_has_failed_here(here: Inside, there: Inside) -> None:
    id_ = await here.job("far_hold", name="a")
    await there.until_begun("a")
    await there.client.delete(f"/jobs/{(await only(there)).id}")
    facts = await here.until(id_, "failed")
    assert "cancelled on the other server" in str(facts["summary"])


async def test_a_restart_here_finds_the_job_there_again(tmp_path: Path, there: Inside) -> None:
    """(J12)"""
    store = await SQLiteStore.open(tmp_path / "here")
    async with Inside(tmp_path / "here", plugins=[Driver(there.url)], store=store) as here:
        id_ = await here.job("far_hold", name="a")
        await there.until_begun("a")
    assert (await only(there)).state.value == "running", "the end of this program is no stop"
    async with Inside(tmp_path / "here", plugins=[Driver(there.url)], store=store) as here:
        there.hands.go.set()
        facts = await here.until(id_, "done")
        assert facts["runs"] == 2
    assert there.hands.begun == ["a"], "it ran once"
    await store.close()


async def test_a_stop_that_a_restart_came_between_still_reaches_the_job_there(
    tmp_path: Path, there: Inside
) -> None:
    """(J5, J12)"""
    store = await SQLiteStore.open(tmp_path / "here")
    async with Inside(tmp_path / "here", plugins=[Driver(there.url)], store=store) as here:
        id_ = await here.job("far_hold", name="a")
        await there.until_begun("a")
    await store.stop_job(id_)  # what a crash right after the wish leaves
    async with Inside(tmp_path / "here", plugins=[Driver(there.url)], store=store) as here:
        await here.until(id_, "cancelled")
    assert (await only(there)).state.value == "cancelled"
    await store.close()


# ---- against a server that is not as it should be


Answer = tuple[int, str, bytes]


class Odd:
    """A server that answers from a list of (status, headers, body)."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            (int(one[15:]) for one in head.lower().split("\r\n") if one.startswith("content-length:")), 0
        )
        await reader.readexactly(length)
        self.asked.append(head.split(" HTTP")[0])
        status, headers, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if status:
            text = f"HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
            writer.write(text.encode() + body)
            await writer.drain()
        writer.close()


STARTED: Answer = (202, "", b'{"job_id": "jx", "status": "queued"}')
DONE: Answer = (200, "", b'{"job_id": "jx", "status": "done", "summary": "s"}')
PAGE: Answer = (200, "", b'{"output": "all", "next_cursor": "3", "more": false}')
Ask = Callable[[Odd], Awaitable[dict[str, Any]]]


@pytest.fixture
async def ask(tmp_path: Path) -> Ask:
    async def one(odd: Odd) -> dict[str, Any]:
        async with (
            await asyncio.start_server(odd.serve, "127.0.0.1", 0) as server,
            Inside(
                tmp_path, plugins=[Driver(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")]
            ) as here,
        ):
            return await here.until(await here.job("far_echo"), "done", "failed")

    return one


async def test_what_may_pass_is_asked_again(ask: Ask) -> None:
    odd = Odd(
        (503, "Retry-After: 0\r\n", b""), (0, "", b""), (409, "", b"{}"), STARTED, (502, "", b""), DONE, PAGE
    )
    assert (await ask(odd))["status"] == "done"
    assert odd.asked == ["POST /jobs"] * 4 + ["GET /jobs/jx"] * 2 + ["GET /jobs/jx/result"]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([(401, "", b'{"detail": "no token"}')], "401: no token"),
        ([(302, "Location: http://127.0.0.1:9/\r\n", b"")], "302"),
        ([(202, "", b"<html>")], "no JSON object"),
        ([(202, "", b'{"status": "queued"}')], "no job_id"),
        ([STARTED, (200, "", b'{"status": "fine"}')], "no status"),
        ([STARTED, (404, "", b'{"title": "Not Found"}')], "404: Not Found"),
    ],
    ids=["refused", "redirect", "no JSON", "no id", "no state", "forgotten"],
)
async def test_nonsense_fails_the_job_in_words(ask: Ask, answers: list[Answer], said: str) -> None:
    facts = await ask(Odd(*answers))
    assert facts["status"] == "failed"
    assert said in facts["summary"]


async def test_a_result_that_is_gone_there_is_an_empty_one_here(ask: Ask) -> None:
    assert (await ask(Odd(STARTED, DONE, (410, "", b'{"title": "Gone"}'))))["status"] == "done"


def test_what_would_run_here_is_no_remote_tool() -> None:
    with pytest.raises(HermesError, match="nothing of it runs here"):

        @remote_tool("http://127.0.0.1:9")
        async def takes_context(context: JobContext) -> None:
            """Do."""

    with pytest.raises(HermesError, match="nothing of it runs here"):

        @remote_tool("http://127.0.0.1:9")
        def gives_program() -> Program:
            """Do."""
            return Program(("true",))


async def test_a_stop_that_comes_when_it_is_done_there_tells_the_truth(tmp_path: Path) -> None:
    """(J5) The output is still on its way when the stop is asked for."""
    fetching = asyncio.Event()
    go = asyncio.Event()

    class Late(Odd):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(self.asked) == 2:
                fetching.set()
                await go.wait()
            await super().serve(reader, writer)

    odd = Late(STARTED, DONE, PAGE, (409, "", b"{}"))
    async with (
        await asyncio.start_server(odd.serve, "127.0.0.1", 0) as server,
        Inside(tmp_path, plugins=[Driver(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")]) as here,
    ):
        id_ = await here.job("far_echo")
        await fetching.wait()
        assert (await here.client.delete(f"/jobs/{id_}")).status_code == 202
        go.set()
        facts = await here.until(id_, "done", "failed", "cancelled")
        assert (facts["status"], facts["summary"]) == ("done", "all")
