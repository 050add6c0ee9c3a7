"""No secret comes into a job's output file, and so into none of its pages, however it was written and is read (X2)."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from hermes_core.hookspecs import hookimpl
from hermes_core.job import Job, JobRequest
from hermes_core.messages import Author
from hermes_core.processes import keep, records, tree
from hermes_core.testing.bed import Bed
from hermes_core.tools import AsyncTool, JobContext, Program, async_tool
from hermes_jobs.plugin import JobsPlugin

pytestmark = pytest.mark.skipif(not tree.VISIBLE, reason="kept processes are proven with /proc")

TOKEN = "ghp_" + "a1B2" * 9
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQ\n" * 40 + "-----END RSA PRIVATE KEY-----"
SECRETS = {"token": TOKEN, "key": KEY}


class Work:
    """Writes pieces: as a command with pauses between them, or as a function."""

    @hookimpl
    def hermes_async_tools(self) -> Iterable[AsyncTool]:
        @async_tool
        def command(pieces: list[str]) -> Program:
            """Write from a process."""
            return Program(("/bin/sh", "-c", 'for one; do printf %s "$one"; sleep 0.1; done', "sh", *pieces))

        @async_tool
        async def function(context: JobContext, pieces: list[str]) -> None:
            """Write from the program itself."""
            for one in pieces:
                context.output(one)

        return [command, function]


async def done(bed: Bed, tool: str, pieces: list[str]) -> Job:
    jobs = bed.runtime.jobs
    request = JobRequest(bed.platform.address(), Author("ann"), tool, {"pieces": pieces}, "k")
    job = await jobs.start(request)
    limit = time.monotonic() + 20
    while not (job := await jobs.status(job.id)).state.final:
        assert time.monotonic() < limit, "it never ended"
        await asyncio.sleep(0.01)
    return job


async def read(bed: Bed, job: Job, chars: int) -> str:
    """All pages of so many characters."""
    text, cursor = "", ""
    while True:
        page = await bed.runtime.jobs.result(job.id, cursor, chars)
        text += page.text
        if not page.more:
            return text
        cursor = page.cursor


@pytest.mark.parametrize("tool", ["command", "function"])
@pytest.mark.parametrize("secret", list(SECRETS))
@pytest.mark.parametrize("cuts", [(), (1,), (3,), (20,), (2, 11, 30)], ids=str)
async def test_x2_a_secret_in_pieces_is_in_no_file_and_no_page(
    tmp_path: Path, tool: str, secret: str, cuts: tuple[int, ...]
) -> None:
    text = SECRETS[secret]
    edges = [0, *cuts, len(text)]
    pieces = ["before ", *(text[a:b] for a, b in itertools.pairwise(edges)), " after\n"]
    async with Bed(tmp_path, [lambda request: ""] * 9, plugins=[Work(), JobsPlugin()]) as bed:
        job = await done(bed, tool, pieces)
        (file,) = (tmp_path / "jobs").glob("*.out")
        assert file.read_text() == "before *** after\n"
        for chars in (5, 9, 4000):
            assert await read(bed, job, chars) == "before *** after\n"


async def test_x2_a_keeper_knows_the_secrets_and_its_command_does_not(tmp_path: Path) -> None:
    script = "printf 'grüße-aus'; sleep 0.1; echo '-dem-tresor'; ls /proc/$$/fd | tr '\\n' ' '; env"
    kept = keep(
        Program(("/bin/sh", "-c", script)),
        tmp_path / "record",
        tmp_path / "output",
        kill_after=0.3,
        secrets=["grüße-aus-dem-tresor", "x" * 9000],
    )
    words = Path(f"/proc/{kept_pid(tmp_path / 'record')}/cmdline").read_text()
    assert "grüße" not in words.partition("/bin/sh")[0]
    await kept.wait()
    said = (tmp_path / "output").read_text()
    assert said.startswith("***\n0 1 2 ")
    assert "tresor" not in said


def kept_pid(record: Path) -> int:
    limit = time.monotonic() + 10
    while "shim" not in records.read(record):
        assert time.monotonic() < limit, "it never began"
        time.sleep(0.01)
    return records.process(records.read(record)["shim"])[0]


async def test_what_may_be_the_beginning_of_a_secret_is_there_at_the_end_all_the_same(tmp_path: Path) -> None:
    async with Bed(tmp_path, [lambda request: ""] * 9, plugins=[Work(), JobsPlugin()]) as bed:
        job = await done(bed, "command", ["a number: 123456", "789:AA", "A ghp_"])
        assert await read(bed, job, 4000) == "a number: 123456789:AAA ghp_"
