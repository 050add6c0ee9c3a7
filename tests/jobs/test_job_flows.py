"""Stories of function jobs, on the fake platform in virtual time (J1 to J13, T4)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core import history
from hermes_core.adapter import Progress
from hermes_core.errors import ToolError
from hermes_core.hookspecs import hookimpl
from hermes_core.job import ABANDONED, Job
from hermes_core.messages import Said, SaidKind, Step, ToolCall
from hermes_core.models import Request
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run
from hermes_core.tools import AsyncTool, JobContext, Tool, async_tool, tool
from hermes_jobs.plugin import JobsPlugin


class Work:
    """nap: sleeps so many seconds; fail; stubborn: finishes although it was told to stop; talk: puts out much."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.swallowed = self.late = 0
        self.events: list[tuple[str, str]] = []
        self.context: JobContext | None = None

    @hookimpl
    def hermes_async_tools(self) -> Iterable[AsyncTool]:
        @async_tool
        async def nap(context: JobContext, seconds: float, name: str = "") -> str:
            """Sleep.

            Args:
                seconds: How long.
            """
            self.begun.append(name)
            self.context = context
            context.progress(0.0, "lying down")
            await asyncio.sleep(seconds / 2)
            context.progress(0.5)
            await asyncio.sleep(seconds / 2)
            return f"slept {seconds:g} s\nand more of it"

        @async_tool(idempotent=True)
        async def again(seconds: float) -> str:
            """Sleep, repeatably."""
            self.begun.append("again")
            await asyncio.sleep(seconds)
            return "done in the end"

        @async_tool
        async def fail() -> str:
            """Fail."""
            raise ToolError("it broke.")

        @async_tool
        async def stubborn() -> str:
            """Finish, whatever happens."""
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                return "finished first"
            return "slept"

        @async_tool
        async def deaf(context: JobContext, seconds: float = 300) -> str:
            """Swallow every cancellation, and end after so many seconds in all."""
            self.begun.append("deaf")
            clock = asyncio.get_running_loop()
            until = clock.time() + seconds
            while (left := until - clock.time()) > 0:
                try:
                    await asyncio.sleep(left)
                except asyncio.CancelledError:
                    self.swallowed += 1
            context.progress(0.9, "late progress")
            context.output("late output")
            self.late += 1
            return "late result"

        @async_tool
        async def talk(context: JobContext, lines: int) -> None:
            """Put out lines, one a second."""
            for number in range(lines):
                context.output(f"line {number}\n")
                await asyncio.sleep(1)

        return [nap, again, fail, stubborn, deaf, talk]

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool(deadline=3600)
        async def wait(seconds: float) -> str:
            """Block."""
            await asyncio.sleep(seconds)
            return "waited"

        return [wait]

    @hookimpl
    async def hermes_job_event(self, job: Job) -> None:
        self.events.append((job.tool, job.state.value))


def bed(folder: Path, scripts: Iterable[Any] = (), work: Work | None = None, **more: Any) -> Bed:
    plugins = [JobsPlugin(), BusyPlugin(), BasicsPlugin(), work or Work()]
    return Bed(folder, scripts, plugins=plugins, **more)


def call(tool: str, id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(id, tool, json.dumps(arguments))


def start(tool: str, key: str = "k1", id: str = "c1", **arguments: Any) -> list[ToolCall]:
    return [call(f"start_{tool}", id, idempotency_key=key, **arguments)]


def result(request: Request, name: str) -> str:
    """The text of the last result of a tool."""
    found = [
        one.text
        for item in request.items
        if isinstance(item, Step)
        for call, one in zip(item.calls, item.results, strict=True)
        if call.name == name
    ]
    return found[-1]


def job_of(request: Request, name: str) -> str:
    """The id that a start gave."""
    return str(json.loads(result(request, name))["job_id"])


def later(make: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """A script that needs what was said before."""
    return make


async def until(condition: Callable[[], Any]) -> None:
    """Let the loop turn until the condition holds; virtual time does not move."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


# ---- start, go on, be told


def test_j1_a_start_returns_at_once_and_the_end_comes_back_as_an_event(tmp_path: Path) -> None:
    async def story() -> None:
        work = Work()
        scripts = [start("nap", seconds=360), "started, what else?", "it has ended"]
        async with bed(tmp_path, scripts, work) as b:
            assert await b.say("take a nap") == "started, what else?"
            assert asyncio.get_running_loop().time() == 0
            answer = json.loads(result(b.model.requests[1], "start_nap"))
            assert set(answer) == {"job_id", "status"}
            assert answer["status"] in ("queued", "running")
            assert await b.say("hello") == "it has ended"  # the conversation goes on meanwhile
            await asyncio.sleep(361)
            await b.platform.settled()
            assert len(b.platform.sent) == 3
            (event,) = [one for one in b.model.requests[-1].items if isinstance(one, Said)][2:]
            id_ = answer["job_id"]
            assert event.kind is SaidKind.EVENT
            assert event.text.splitlines() == [
                f"[event] job_completed job_id={id_} tool=start_nap status=done",
                "summary: slept 360 s",
                f'details: get_job_result(job_id="{id_}")',
            ]
            assert work.events == [("nap", "queued"), ("nap", "running"), ("nap", "done")]

    run(story())


def test_j1_the_description_says_not_to_wait_and_the_key_is_required(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed(tmp_path, [[call("start_nap", seconds=1)], "no"]) as b:
            await b.say("start it without a key")
            spec = next(one for one in b.model.requests[0].tools if one.name == "start_nap")
            assert "Do not wait" in spec.description
            assert "[event]" in spec.description
            assert "idempotency_key" in spec.schema["required"]
            assert spec.schema["properties"]["seconds"]["description"] == "How long."
            assert set(spec.schema["properties"]) == {
                "seconds", "name", "idempotency_key", "deadline", "depends_on",
            }  # fmt: skip
            assert "idempotency_key" in result(b.model.requests[1], "start_nap")
            assert await b.store.jobs() == []

    run(story())


def test_j8_an_empty_reply_to_an_event_sends_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed(tmp_path, [start("nap", seconds=5), "ok", ""]) as b:
            await b.say("go")
            await asyncio.sleep(6)
            await b.platform.settled()
            assert len(b.model.requests) == 3
            assert b.platform.texts() == ["ok"]

    run(story())


def test_case_24_an_event_enters_the_running_turn_at_its_next_gap(tmp_path: Path) -> None:
    async def story() -> None:
        scripts = [start("nap", seconds=5), [call("wait", "c2", seconds=60)], "all done"]
        async with bed(tmp_path, scripts) as b:
            assert await b.say("nap and wait") == "all done"
            assert asyncio.get_running_loop().time() == 60
            assert "job_completed" in b.model.texts(2)[-1]
            await asyncio.sleep(10)
            assert len(b.model.requests) == 3, "the turn has carried it: no other follows"

    run(story())


def test_t4_an_event_never_interrupts_and_is_carried_with_what_waits(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        scripts = [start("nap", seconds=5), "ok", [hold, "first"], "both"]
        async with bed(tmp_path, scripts, config={"conversation": {"busy": "queue"}}) as b:
            await b.say("go")
            await b.platform.say("think")
            await hold.reached.wait()
            await b.platform.say("and this")
            await asyncio.sleep(10)
            assert b.model.cut == 0
            hold.release()
            await b.platform.settled()
            assert b.platform.texts() == ["ok", "first", "both"]
            last = b.model.texts()[-2:]
            assert last[0] == "and this"
            assert last[1].startswith("[event] job_completed")

    run(story())


def test_case_26_three_jobs_that_end_within_a_second_are_one_turn(tmp_path: Path) -> None:
    async def story() -> None:
        calls = [start("nap", f"k{n}", f"c{n}", seconds=30 + n / 10)[0] for n in range(3)]
        hold = Hold()
        async with bed(tmp_path, [calls, "started", [hold, "first"], "the rest"]) as b:
            await b.say("go")
            await asyncio.sleep(31)
            hold.release()
            await b.platform.settled()
            assert b.platform.texts() == ["started", "first", "the rest"]
            events = [text for text in b.model.texts() if text.startswith("[event]")]
            assert len(events) == 3

    run(story())


# ---- polling and folding


def test_case_25_an_end_that_was_read_by_polling_is_not_told_again(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        store = MemoryStore()
        scripts = [
            start("nap", seconds=5),
            later(lambda r: [hold, call("get_job_status", "c2", job_id=job_of(r, "start_nap"))]),
            "I know",
        ]
        async with bed(tmp_path, scripts, store=store) as b:
            await b.platform.say("go")
            await hold.reached.wait()
            await asyncio.sleep(10)  # it ends while the model thinks, and its event waits for the gap
            hold.release()
            await b.platform.settled()
            assert json.loads(result(b.model.requests[2], "get_job_status"))["status"] == "done"
            assert not any("[event]" in text for text in b.model.texts())
            await asyncio.sleep(10)
            assert b.platform.texts() == ["I know"]
            assert await store.open_work() == []

    run(story())


def test_j7_no_event_follows_a_stop_whose_answer_told_the_end(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        scripts = [
            start("nap", seconds=500),
            later(lambda r: [call("stop_job", "c2", job_id=job_of(r, "start_nap"))]),
            "stopped",
        ]
        async with bed(tmp_path, scripts, store=store) as b:
            assert await b.say("start and stop") == "stopped"
            assert json.loads(result(b.model.requests[2], "stop_job"))["status"] == "cancelled"
            await asyncio.sleep(100)
            assert len(b.model.requests) == 3
            assert not any("[event]" in text for text in b.model.texts())
            assert await store.open_work() == [], "its entry is used up"
        async with bed(tmp_path, store=store) as b:
            await asyncio.sleep(100)
            assert b.model.requests == []

    run(story())


def test_j7_with_nothing_kept_of_an_interrupted_turn_the_event_comes_after_all(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        scripts = [
            start("nap", seconds=500),
            "ok",
            later(lambda r: [call("stop_job", "c2", job_id=job_of(r, "start_nap"))]),
            [hold, "never"],
            "new",
        ]
        config = {"interrupt": {"keep": "nothing"}}
        async with bed(tmp_path, scripts, config=config) as b:
            await b.say("start")
            await b.platform.say("stop it")
            await hold.reached.wait()
            assert not any("[event]" in text for text in b.model.texts())
            assert await b.say("something else") == "new"
            assert any("job_cancelled" in text for text in b.model.texts())

    run(story())


def test_j9_later_prompts_hold_one_line_of_a_job_that_was_read(tmp_path: Path) -> None:
    async def story() -> None:
        scripts = [
            start("talk", lines=100),
            "ok",
            later(lambda r: [call("get_job_result", "c2", job_id=job_of(r, "start_talk"))]),
            "half of it",
            later(lambda r: [call("get_job_result", "c3", job_id=job_of(r, "start_talk"))]),
            "all of it",
            "later",
        ]
        async with bed(tmp_path, scripts) as b:
            await b.say("talk")
            await asyncio.sleep(50)
            await b.say("how far?")
            assert "line 40" in result(b.model.requests[3], "get_job_result")
            await asyncio.sleep(60)
            await b.platform.settled()
            carried = b.model.requests[4]
            assert "line 40" in result(carried, "get_job_result"), "it had not ended when this was read"
            assert any(
                "details: get_job_result" in one.text for one in carried.items if isinstance(one, Said)
            )
            assert "line 99" in result(b.model.requests[5], "get_job_result")
            await b.say("and now?")
            items = b.model.requests[-1].items
            history.check(items)
            text = "\n".join(
                [one.text for one in items if isinstance(one, Said)]
                + [r.text for one in items if isinstance(one, Step) for r in one.results]
            )
            assert "line " not in text
            assert "details:" not in text
            id_ = job_of(b.model.requests[-1], "start_talk")
            assert f"[event] job_completed job_id={id_} tool=start_talk status=done summary: done" in text

    run(story())


def test_e7_an_event_that_no_model_call_has_carried_is_not_folded(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [start("nap", seconds=5), "ok", [hold], "new"]) as b:
            await b.say("go")
            await asyncio.sleep(6)
            await hold.reached.wait()
            await b.say("never mind")
            assert any("details: get_job_result" in text for text in b.model.texts())

    run(story())


def test_case_29_polling_in_a_loop_ends_with_an_error(tmp_path: Path) -> None:
    async def story() -> None:
        polls = [
            later(lambda r, n=n: [call("get_job_status", f"p{n}", job_id=job_of(r, "start_nap"))])  # type: ignore[misc]
            for n in range(8)
        ]
        async with bed(tmp_path, [start("nap", seconds=500), *polls, "I give up"]) as b:
            assert await b.say("go") == "I give up"
            steps = [one for one in b.model.requests[-1].items if isinstance(one, Step)][1:]
            answers = [one.results[0] for one in steps]
            assert [one.error for one in answers] == [False] * 6 + [True] * 2
            assert "note" not in json.loads(answers[0].text)
            assert json.loads(answers[1].text)["note"].startswith("Nothing new; you will be told")
            assert "Stop polling" in answers[-1].text

    run(story())


@pytest.mark.parametrize("tool", ["list_jobs", "get_job_result"])
def test_j11_listing_and_reading_in_a_loop_are_polling_too(tmp_path: Path, tool: str) -> None:
    async def story() -> None:
        def poll(request: Request) -> list[ToolCall]:
            more = {"job_id": job_of(request, "start_nap")} if tool == "get_job_result" else {}
            return [call(tool, f"p{len(request.items)}", **more)]

        async with bed(tmp_path, [start("nap", seconds=500), *[poll] * 8, "I give up"]) as b:
            assert await b.say("go") == "I give up"
            steps = [one for one in b.model.requests[-1].items if isinstance(one, Step)][1:]
            assert [one.results[0].error for one in steps] == [False] * 6 + [True] * 2

    run(story())


def test_j10_output_is_read_page_by_page_while_the_job_runs(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed(tmp_path, [start("talk", lines=30), "ok"], config={"jobs": {"page_chars": 50}}) as b:
            await b.say("talk")
            id_ = job_of(b.model.requests[1], "start_talk")
            jobs = b.runtime.jobs
            await asyncio.sleep(10.5)
            text, cursor, pages = "", "", 0
            while True:
                page = await jobs.result(id_, cursor)
                assert len(page.text) <= 50
                text, cursor, pages = text + page.text, page.cursor, pages + 1
                if not page.more:
                    break
            assert text == "".join(f"line {number}\n" for number in range(11))
            assert pages == 2
            await asyncio.sleep(60)
            rest = await jobs.result(id_, cursor, 10_000)
            assert text + rest.text == "".join(f"line {number}\n" for number in range(30))
            assert (await jobs.result(id_, rest.cursor)).text == ""

    run(story())


# ---- keys, dependencies, deadlines, stops


def test_j3_the_same_key_is_the_same_job_also_after_a_restart_and_other_arguments_are_refused(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        store, work = MemoryStore(), Work()
        scripts = [
            start("nap", seconds=5),
            start("nap", id="c2", seconds=5),
            start("nap", id="c3", seconds=6),
            "ok",
        ]
        async with bed(tmp_path, scripts, work, store=store) as b:
            await b.say("go")
            steps = [one.results[0] for one in b.model.requests[-1].items if isinstance(one, Step)]
            assert json.loads(steps[0].text)["job_id"] == json.loads(steps[1].text)["job_id"]
            assert steps[2].error
            assert "other arguments" in steps[2].text
            await asyncio.sleep(10)
            await b.platform.settled()
        async with bed(tmp_path, [start("nap", id="c9", seconds=5), "again"], work, store=store) as b:
            await b.say("once more")
            last = json.loads(result(b.model.requests[-1], "start_nap"))
            assert last["status"] == "done"
        assert work.begun == [""]
        assert len(await store.jobs()) == 1

    run(story())


def test_j4_a_job_waits_for_those_it_depends_on_and_fails_naming_the_one_that_failed(tmp_path: Path) -> None:
    async def story() -> None:
        work = Work()
        async with bed(
            tmp_path,
            [
                start("nap", "a", seconds=10, name="a"),
                later(
                    lambda r: start(
                        "nap", "b", "c2", seconds=1, name="b", depends_on=[job_of(r, "start_nap")]
                    )
                ),
                start("fail", "c", "c3"),
                later(
                    lambda r: start(
                        "nap", "d", "c4", seconds=1, name="d", depends_on=[job_of(r, "start_fail")]
                    )
                ),
                start("nap", "e", "c5", seconds=1, depends_on=["jnowhere"]),
                "ok",
            ],
            work,
        ) as b:
            await b.say("go")
            assert "There is no job 'jnowhere' to depend on" in result(b.model.requests[-1], "start_nap")
            await asyncio.sleep(9)
            assert work.begun == ["a"]
            await asyncio.sleep(10)
            assert work.begun == ["a", "b"]
            jobs = {one.key: one for one in await b.store.jobs()}
            assert [jobs[key].state.value for key in "abcd"] == ["done", "done", "failed", "failed"]
            assert jobs["d"].summary == f"It depends on job {jobs['c'].id}, which ended as failed."

    run(story())


def test_j6_past_its_deadline_a_job_is_stopped_and_timed_out(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed(tmp_path, [start("nap", seconds=500, deadline="20s"), "ok", "I see"]) as b:
            await b.say("go")
            await asyncio.sleep(19)
            assert b.platform.texts() == ["ok"]
            await asyncio.sleep(2)
            await b.platform.settled()
            assert "job_timed_out" in b.model.texts()[-1]
            assert "status=timed_out" in b.model.texts()[-1]

    run(story())


@pytest.mark.parametrize(
    ("tool", "state", "seconds"),
    [("nap", "cancelled", 0.0), ("stubborn", "done", 0.0), ("fail", "failed", 0.0)],
)
def test_j5_case_30_the_answer_to_a_stop_is_the_true_end(
    tmp_path: Path, tool: str, state: str, seconds: float
) -> None:
    async def story() -> None:
        arguments: dict[str, Any] = {"seconds": 500} if tool == "nap" else {}
        async with bed(tmp_path, [start(tool, **arguments), "ok", "I see"]) as b:
            await b.say("go")
            await asyncio.sleep(1)
            await b.platform.settled()
            id_ = job_of(b.model.requests[1], f"start_{tool}")
            await b.platform.say(f"/stop {id_}")
            await b.platform.settled()
            wanted = {
                "nap": f"Job {id_} was stopped.",
                "stubborn": f"Job {id_} had ended: done, finished first",
                "fail": f"Job {id_} had ended: failed, it broke.",
            }
            assert wanted[tool] in b.platform.texts()
            job = await b.runtime.jobs.status(id_)
            assert job.state.value == state
            assert len([one for one in b.model.texts() if one.startswith("[event]")]) == 1

    run(story())


@pytest.mark.parametrize("why", ["stop", "deadline"])
def test_j5_j6_a_function_that_swallows_its_cancellation_is_abandoned_with_its_true_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    async def story() -> None:
        work, more = Work(), {"deadline": "20s"} if why == "deadline" else {}
        config = {"jobs": {"max_running": 1}}
        calls = [*start("deaf", **more), *start("nap", "k2", "c2", seconds=1)]
        async with bed(tmp_path, [calls, "ok", "I see", "and that"], work, config=config) as b:
            await b.say("go")
            id_ = job_of(b.model.requests[1], "start_deaf")
            if why == "stop":
                await b.platform.say(f"/stop {id_}")
            else:
                await asyncio.sleep(20)
            await asyncio.sleep(1)
            await b.platform.settled()
            assert work.swallowed == 3, "it is asked in at most three rounds (I3)"
            ended = await b.runtime.jobs.status(id_)
            state = "cancelled" if why == "stop" else "timed_out"
            reason = "It was asked to stop." if why == "stop" else "Its deadline passed."
            summary = f"{reason} {ABANDONED}"
            assert (ended.state.value, ended.summary) == (state, summary)
            if why == "stop":
                assert f"Job {id_}: cancelled. {summary}" in b.platform.texts()
            assert f"job {id_} (start_deaf) does not let itself be ended and is abandoned" in caplog.text
            await asyncio.sleep(5)
            assert work.begun == ["deaf", ""], "its place is free for the next one"
            await asyncio.sleep(600)
            await b.platform.settled()
            assert work.late == 1, "it has come to its end, and nothing of that counts"
            assert await b.runtime.jobs.status(id_) == ended
            assert (await b.runtime.jobs.result(id_)).text == ""
            events = {text for text in b.model.texts() if f"job_id={id_}" in text}
            assert len(events) == 1, "exactly one event (J7)"
            assert f"[event] job_{state} " in events.pop()
            assert work.events.count(("deaf", state)) == 1
            shown = [one.text for _, one in b.platform.shown if isinstance(one, Progress) and one.job == id_]
            assert not any("late" in text for text in shown)

    run(story())


def test_j12_an_abandoned_job_is_lost_when_the_program_ends_unless_it_may_be_repeated(tmp_path: Path) -> None:
    async def story() -> None:
        store, work = MemoryStore(), Work()
        async with bed(tmp_path, [start("deaf"), "ok"], work, store=store) as b:
            await b.say("go")
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 3
        (job,) = await store.jobs()
        assert job.state.value == "lost"
        assert ABANDONED in job.summary
        async with bed(tmp_path, ["I see"], work, store=store) as b:
            await b.platform.settled()
            assert "job_lost" in b.model.texts()[-1]
            await asyncio.sleep(600)
            assert await store.jobs() == [job]
            assert work.begun == ["deaf"]

    run(story())


def test_i10_stop_all_ends_the_turn_and_every_job_and_starts_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        calls = [start("nap", f"k{n}", f"c{n}", seconds=500)[0] for n in range(3)]
        async with bed(tmp_path, [calls, [call("wait", "w", seconds=900)], "never"]) as b:
            await b.platform.say("go")
            await asyncio.sleep(5)
            assert await b.say("/stop all") != ""
            assert b.platform.texts()[0].startswith("Stopped. Job ")
            assert b.platform.texts()[0].count("was stopped") == 3
            await asyncio.sleep(5)
            assert b.platform.texts()[1:] == []
            assert [one.state.value for one in await b.store.jobs()] == ["cancelled"] * 3
            await b.say("and now?")
            assert len([one for one in b.model.texts() if "job_cancelled" in one]) == 3

    run(story())


@pytest.mark.parametrize("restart", [False, True], ids=["live", "restarted"])
def test_i10_after_stop_an_event_starts_nothing_and_rides_with_the_next_message_also_after_a_restart(
    tmp_path: Path, restart: bool
) -> None:
    async def story() -> None:
        store, work = MemoryStore(), Work()
        scripts = [[*start("nap", seconds=5), call("wait", "w", seconds=900)], "both", "more"]
        async with bed(tmp_path, scripts, work, store=store) as b:
            await b.platform.say("go")
            await asyncio.sleep(10)  # the job ends, and its event waits for the gap
            await b.say("/stop")
            await asyncio.sleep(100)
            assert len(b.model.requests) == 1
            if not restart:
                assert await b.say("hello") == "both"
                texts = b.model.texts()
        if restart:
            async with bed(tmp_path, ["both"], work, store=store) as b:
                await asyncio.sleep(100)
                assert b.model.requests == [], "what was stopped stays stopped"
                assert await b.say("hello") == "both"
                texts = b.model.texts()
        assert [text.partition(" job_id")[0] for text in texts[-2:]] == ["[event] job_completed", "hello"]
        assert await store.open_work() == []
        assert await store.notes(b.platform.address()) == []

    run(story())


def test_e6_only_starter_and_admins_may_stop_a_job(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed(tmp_path, [start("nap", seconds=500), "ok"]) as b:
            await b.say("go", author="bob", group=True)
            id_ = job_of(b.model.requests[1], "start_nap")
            answer = await b.say(f"/stop {id_}", author="eve", group=True)
            assert "started by somebody else" in answer
            assert (
                await b.say(f"/stop {id_}", channel="2") == f"There is no job {id_!r} in this conversation."
            )
            await b.platform.say(f"/stop {id_}", author="ann", group=True)
            await b.platform.settled()
            assert f"Job {id_} was stopped." in b.platform.texts()

    run(story())


# ---- people


def test_j13_people_see_jobs_and_their_progress_in_one_line(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed(tmp_path, [start("nap", seconds=20), "ok", "I see"]) as b:
            assert await b.say("/jobs") == "There are no jobs here."
            await b.say("go")
            id_ = job_of(b.model.requests[1], "start_nap")
            assert await b.say("/jobs") == f"- {id_} nap “20.0” running: 0% lying down"
            await asyncio.sleep(11)
            shown = [one for _, one in b.platform.shown if isinstance(one, Progress)]
            assert {one.job for one in shown} == {id_}
            assert [one.text for one in shown] == [
                "nap: running",
                "nap: running, 0% lying down",
                "nap: running, 50%",
            ]
            await asyncio.sleep(11)
            await b.platform.settled()
            last = [one for _, one in b.platform.shown if isinstance(one, Progress)][-1]
            assert (last.text, last.done) == ("nap: done, slept 20 s", True)
            told = await b.say(f"/job {id_}")
            assert f"{id_} nap “20.0” done: slept 20 s" in told
            assert "and more of it" in told
            assert await b.say("/job nope") == "There is no job 'nope' in this conversation."

    run(story())


def test_t7_jobs_go_on_after_new_and_their_event_says_what_they_were(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed(tmp_path, [start("nap", seconds=20), "ok", "I see"]) as b:
            await b.say("go")
            await b.say("/new")
            await asyncio.sleep(30)
            await b.platform.settled()
            (text,) = b.model.texts()
            assert text.splitlines()[-1].startswith("This conversation no longer holds its start: start_nap")
            assert b.platform.texts()[-1] == "I see"

    run(story())


def test_case_28_no_id_is_given_for_what_was_not_started(tmp_path: Path) -> None:
    async def story() -> None:
        calls = [call("start_nap", "c1", idempotency_key="k", seconds="soon"), *start("nope", "k2", "c2")]
        async with bed(tmp_path, [calls, "no"]) as b:
            await b.say("go")
            step = b.model.requests[-1].items[-1]
            assert isinstance(step, Step)
            assert all(one.error and "job_id" not in one.text for one in step.results)
            assert await b.store.jobs() == []

    run(story())


# ---- restart


def test_j12_at_a_restart_a_function_is_lost_or_if_it_may_be_repeated_begun_again(tmp_path: Path) -> None:
    async def story() -> None:
        store, work = MemoryStore(), Work()
        calls = [*start("nap", "a", "c1", seconds=500), *start("again", "b", "c2", seconds=500)]
        async with bed(tmp_path, [calls, "ok"], work, store=store) as b:
            await b.say("go")
            await asyncio.sleep(5)
        jobs = {one.key: one.state.value for one in await store.jobs()}
        assert jobs == {"a": "lost", "b": "running"}
        async with bed(tmp_path, ["lost one", "got one"], work, store=store) as b:
            await b.platform.settled()
            assert "job_lost" in b.model.texts()[-1]
            await asyncio.sleep(501)
            await b.platform.settled()
            assert b.platform.texts() == ["lost one", "got one"]
        done = {one.key: one for one in await store.jobs()}
        assert (done["b"].state.value, done["b"].runs) == ("done", 2)
        assert work.begun == ["", "again", "again"]

    run(story())


def test_max_running_holds_and_the_order_is_that_of_the_starts(tmp_path: Path) -> None:
    async def story() -> None:
        work = Work()
        calls = [start("nap", f"k{n}", f"c{n}", seconds=10, name=str(n))[0] for n in range(7)]
        async with bed(tmp_path, [calls, "ok"], work, config={"jobs": {"max_running": 3}}) as b:
            await b.say("go")
            await asyncio.sleep(5)
            assert work.begun == ["0", "1", "2"]
            await asyncio.sleep(10)
            assert work.begun == ["0", "1", "2", "3", "4", "5"]
            await asyncio.sleep(20)
            await b.platform.settled()
            assert {one.state.value for one in await b.store.jobs()} == {"done"}

    run(story())
