"""The parts of jobs by themselves: declaring, names, events, folding, pages (J1, J3, J7, J9, J10)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hermes_core import history
from hermes_core.errors import HermesError, JobError, ToolError
from hermes_core.job import (
    Job,
    JobRequest,
    JobState,
    NoJobs,
    event,
    event_job,
    fingerprint,
    job_id,
    one_line,
)
from hermes_core.jobs.output import page
from hermes_core.messages import Address, Author, Role, Said, SaidKind, Step, ToolCall, ToolResult, When
from hermes_core.processes.spool import MARK, Spool
from hermes_core.tools import JobContext, Kind, Program, ToolContext, async_tool

HERE = Address("test", "me", "1")
ANN = Author("ann", "Ann")


def job(**more: Any) -> Job:
    return replace(Job("j1", HERE, ANN, "count", "{}", "k", "d", 0.0, 9.0, state=JobState.DONE), **more)


def request(**more: Any) -> JobRequest:
    return replace(JobRequest(HERE, ANN, "count", {"a": 1, "b": 2}, "k"), **more)


# ---- declaring


def test_j1_one_decorator_makes_the_tool_that_starts_it() -> None:
    @async_tool(deadline="5m", role=Role.ADMIN)
    async def index(context: JobContext, folder: str, deep: bool = False) -> str:
        """Index a folder.

        Args:
            folder: Which one.
        """
        return folder

    start = index.starter
    assert (index.name, start.name, index.process, index.deadline) == ("index", "start_index", False, 300.0)
    assert (start.kind, start.idempotent, start.role) == (Kind.ASYNC, True, Role.ADMIN)
    assert start.schema["required"] == ["folder", "idempotency_key"]
    assert start.description.startswith("Index a folder.\n\nThis starts a job and returns at once")
    assert index.context == "context"
    assert index.check('{"folder": "x"}') == {"folder": "x", "deep": False}
    with pytest.raises(ToolError, match="do not fit"):
        index.check('{"folder": 1}')


def test_j1_a_function_that_gives_back_a_program_is_a_process() -> None:
    @async_tool
    def build(target: str) -> Program:
        """Build."""
        return Program(("make", target))

    assert build.process
    assert not build.idempotent


async def blocking_in_disguise(context: JobContext) -> Program:
    """Take a context and give a program."""
    return Program(("true",))


def thread(path: str) -> str:
    """Block."""
    return path


async def taken(deadline: str) -> str:
    """Have a parameter that every start has."""
    return deadline


async def count() -> str:
    """Count."""
    return ""


async def undescribed() -> str:
    return ""


async def wrong(path: str) -> str:
    """Describe another parameter.

    Args:
        file: It is called path.
    """
    return path


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (blocking_in_disguise, "without its JobContext"),
        (thread, "would block"),
        (taken, "one that every start has"),
        (undescribed, "no docstring"),
        (wrong, "no parameter of it"),
    ],
)
def test_what_cannot_work_is_said_at_once(function: Any, said: str) -> None:
    with pytest.raises(HermesError, match=said):
        async_tool(function)


def test_names_and_deadlines_that_cannot_work_are_said_at_once() -> None:
    with pytest.raises(HermesError, match="cannot be the name"):
        async_tool("x" * 60)(count)
    with pytest.raises(HermesError, match="no duration"):
        async_tool(deadline="soon")(count)
    with pytest.raises(HermesError, match="longer than nothing"):
        async_tool(deadline=0)(count)


async def test_without_jobs_everything_is_refused_in_words() -> None:
    jobs = NoJobs()
    assert await jobs.list() == []
    for asking in (jobs.start("x", {}, "k"), jobs.status("j"), jobs.result("j"), jobs.stop("j")):
        with pytest.raises(JobError):
            await asking


@pytest.mark.parametrize("deadline", ["soon", "0", -1])
async def test_a_deadline_that_is_none_is_refused_before_anything_is_started(deadline: Any) -> None:
    context = ToolContext(HERE, ANN, Role.USER, None)  # type: ignore[arg-type]
    with pytest.raises(ToolError):
        await async_tool(count).starter.function(
            context=context, idempotency_key="k", deadline=deadline, depends_on=()
        )


# ---- names


@given(st.text(), st.text(), st.text(min_size=1), st.text(min_size=1))
def test_j3_an_id_is_made_from_address_and_key_alone(
    channel: str, other: str, key: str, another: str
) -> None:
    here, there = Address("t", "a", channel), Address("t", "a", other)
    assert job_id(here, key) == job_id(Address("t", "a", channel), key)
    assert (job_id(here, key) == job_id(there, key)) == (channel == other)
    assert (job_id(here, key) == job_id(here, another)) == (key == another)
    assert job_id(here, key).isalnum()


@pytest.mark.parametrize(
    "other",
    [
        {"tool": "other"},
        {"arguments": {"a": 1}},
        {"deadline": 5.0},
        {"depends_on": ("j2",)},
        {"callback": "https://example.org"},
    ],
)
def test_j3_the_fingerprint_sees_every_argument_and_no_order(other: dict[str, Any]) -> None:
    assert fingerprint(request()) == fingerprint(request(arguments={"b": 2, "a": 1}))
    assert fingerprint(request()) != fingerprint(request(**other))


@given(st.text())
def test_a_summary_is_one_bounded_line(text: str) -> None:
    line = one_line(text)
    assert len(line) <= 300
    assert line == " ".join(line.split())


# ---- events


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (JobState.DONE, "job_completed"),
        (JobState.FAILED, "job_failed"),
        (JobState.CANCELLED, "job_cancelled"),
        (JobState.TIMED_OUT, "job_timed_out"),
        (JobState.LOST, "job_lost"),
    ],
)
def test_j7_each_end_has_its_event(state: JobState, word: str) -> None:
    entry = event(job(state=state, summary="3 files", ended=7.0))
    assert entry.text == (
        f"[event] {word} job_id=j1 tool=start_count status={state.value}\n"
        "summary: 3 files\n"
        'details: get_job_result(job_id="j1")'
    )
    assert (entry.id, entry.when, entry.author, entry.arrived) == (
        f"job:j1:{state.value}",
        When.EVENT,
        ANN,
        7.0,
    )
    assert event_job(entry.id) == "j1"


@pytest.mark.parametrize("id_", ["", "m1", "job:", "job:a", "job:a:b:c", "xjob:a:done"])
def test_an_entry_that_is_no_event_names_no_job(id_: str) -> None:
    assert event_job(id_) is None


# ---- folding


EVENT = Said(SaidKind.EVENT, event(job(summary="3 files")).text)
LINE = "[event] job_completed job_id=j1 tool=start_count status=done summary: 3 files"
READ = ToolCall("r", "get_job_result", '{"job_id": "j1"}')
OTHER = ToolCall("o", "get_job_result", '{"job_id": "j2"}')
SAID = Said(SaidKind.MESSAGE, EVENT.text)


def reading(status: str, *, error: bool = False) -> Step:
    results = (
        ToolResult("r", f"job_id=j1 status={status} more=no next_cursor=9\nline\nline", error),
        ToolResult("o", "job_id=j2 status=running more=no next_cursor=9\nother"),
    )
    return Step("", (READ, OTHER), results)


def test_j9_an_event_folds_once_a_model_call_has_carried_it() -> None:
    assert history.folded((EVENT,)) == (EVENT,)
    assert history.folded((EVENT, SAID)) == (EVENT, SAID)
    assert [one.text for one in history.folded((EVENT, Step("I see")))] == [LINE, "I see"]


def test_j9_results_of_a_read_job_fold_and_others_do_not() -> None:
    before = reading("running")
    items = history.folded((before, EVENT, Step("I see")))
    history.check((SAID, *items))
    step = items[0]
    assert isinstance(step, Step)
    assert step.results[0].text == "job_id=j1 status=running (read before; the output is left out here)"
    assert step.results[1] == before.results[1]
    assert step.calls == before.calls


def test_j9_a_final_state_that_was_read_by_polling_folds_as_well() -> None:
    step = history.folded((SAID, reading("done")))[1]
    assert isinstance(step, Step)
    assert "line" not in step.results[0].text.splitlines()


def test_nothing_folds_that_a_person_wrote_or_that_failed_or_that_goes_on() -> None:
    for items in ((SAID, Step("")), (SAID, reading("running")), (SAID, reading("done", error=True))):
        assert history.folded(items) is items


# ---- pages


@given(
    data=st.lists(st.one_of(st.text(), st.binary()), max_size=6),
    result=st.text(max_size=50),
    chars=st.integers(1, 40),
    final=st.booleans(),
)
def test_j10_pages_read_one_after_the_other_are_the_whole_output(
    data: list[str | bytes], result: str, chars: int, final: bool
) -> None:
    raw = b"".join(one if isinstance(one, bytes) else one.encode("utf-8", "replace") for one in data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        if raw:
            path.write_bytes(raw)
        one = job(state=JobState.DONE if final else JobState.RUNNING, result=result if final else "")
        text, cursor = "", ""
        for _ in range(len(raw) + len(result) + 3):
            read = page(one, path, cursor, chars)
            assert len(read.text) <= chars
            text, cursor = text + read.text, read.cursor
            if not read.more:
                break
        else:
            raise AssertionError("it never ends")
    given_ = result.encode("utf-8", "replace") if final else b""
    whole = raw + (b"\n" if raw and given_ else b"") + given_
    # How many marks an invalid run of bytes becomes depends on where a page ends; everything else is exact.
    expected = whole.decode("utf-8", "ignore")
    if final:
        assert text.replace("\ufffd", "") == expected.replace("\ufffd", "")
    else:
        assert expected.replace("\ufffd", "").startswith(text.replace("\ufffd", ""))


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "٣", "9" * 30, "1 "])
def test_a_cursor_of_somebody_elses_is_refused(tmp_path: Path, cursor: str) -> None:
    with pytest.raises(JobError, match="no cursor"):
        page(job(), tmp_path / "none", cursor, 10)


def test_a_cursor_beyond_the_end_reads_nothing(tmp_path: Path) -> None:
    read = page(job(result="abc"), tmp_path / "none", "99", 10)
    assert (read.text, read.more, read.cursor) == ("", False, "99")


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(0, 60))
def test_j10_a_spool_never_holds_more_and_counts_what_is_missing(chunks: list[bytes], limit: int) -> None:
    whole = b"".join(chunks)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        spool = Spool(str(path), limit)
        seen = b""
        for chunk in chunks:
            spool.add(chunk)
            now = path.read_bytes()
            assert now.startswith(seen), "what was readable stays where it was"
            seen = now
        spool.close()
        kept = path.read_bytes()
    assert kept.startswith(seen)
    assert spool.written == len(kept)
    if len(whole) <= limit:
        assert (kept, spool.cut) == (whole, 0)
    else:
        mark = MARK.format(spool.cut).encode()
        assert len(kept) <= limit + len(mark)
        head, tail = kept.split(mark, 1)
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert spool.cut == len(whole) - len(head) - len(tail)
