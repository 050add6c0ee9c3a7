"""What Hermes says about itself: figures as Prometheus reads them, and a platform that has gone deaf (case 43)."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from hermes_busy.plugin import BusyPlugin
from hermes_core.adapter import Features, Gateway
from hermes_core.errors import SendError
from hermes_core.hookspecs import hookimpl
from hermes_core.http.health import route as health_route
from hermes_core.http.metrics import FAMILIES, samples, written
from hermes_core.job import JobRequest
from hermes_core.messages import Author, Entry
from hermes_core.metrics import Histogram
from hermes_core.pulse import Pulse
from hermes_core.route import Request
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.testing.platform import FakePlatform
from hermes_core.testing.virtual import run
from hermes_core.tools import AsyncTool, async_tool
from tests.http.inside import ENVIRON, Inside, problem

Read = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Read:
    """What Prometheus' own parser makes of it: name and labels to value. A sample twice is no good."""
    found: Read = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def value(found: Read, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def of(bed: Bed) -> Read:
    return parsed(written(samples(bed.runtime)))


class Watches:
    """Hooks that succeed, fail and take their time; an async tool."""

    @hookimpl
    async def hermes_message(self, entry: Entry) -> None:
        await asyncio.sleep(0.5)

    @hookimpl
    def hermes_turn_started(self) -> None:
        raise ValueError("no")

    @hookimpl
    def hermes_async_tools(self) -> Iterable[AsyncTool]:
        @async_tool
        async def dig() -> str:
            """Dig."""
            return "a hole"

        return [dig]


def test_a_whole_day_is_counted_and_every_figure_that_is_promised_is_there(tmp_path: Path) -> None:
    async def story() -> Read:
        hold, waiting = Hold(), Hold()
        scripts: list[Any] = ["one", ["partly", hold, "never"], "two", "three", [waiting]]
        config = {"conversation": {"busy": "interrupt"}}
        async with Bed(tmp_path, scripts, plugins=[Watches(), BusyPlugin()], config=config) as bed:
            bed.platform.gateway.alive()
            await bed.say("first")
            await bed.platform.say("second")
            await hold.reached.wait()
            await bed.say("no, third")
            bed.platform.refuse += [SendError("Later."), SendError("Never.", permanent=True)]
            await bed.say("fourth")
            request = JobRequest(bed.platform.address("7"), Author("ann"), "dig", {}, "k", notify=False)
            job = await bed.runtime.jobs.start(request)
            while not (await bed.runtime.jobs.status(job.id)).state.final:
                await asyncio.sleep(0.1)
            await bed.platform.say("fifth", "2")
            await waiting.reached.wait()
            await bed.platform.say("/queue sixth", "2")
            await asyncio.sleep(5)
            return of(bed)

    found = run(story())
    fake = {"platform": "fake"}
    assert value(found, "hermes_messages_received_total", **fake) == 6
    assert value(found, "hermes_platform_up", **fake) == 1
    assert value(found, "hermes_turn_seconds_count", end="completed") == 3
    assert value(found, "hermes_turn_seconds_count", end="interrupted") == 1
    assert value(found, "hermes_turn_seconds_bucket", end="completed", le="+Inf") == 3
    assert value(found, "hermes_interrupt_seconds_count") == 1
    assert value(found, "hermes_interrupt_seconds_bucket", le="0.05") == 1, "no tool ran (I8)"
    assert value(found, "hermes_turns_running") == 1
    assert value(found, "hermes_queue_entries", **fake) == 1
    assert value(found, "hermes_outbox_retries_total", **fake) == 1
    assert value(found, "hermes_outbox_undeliverable_total", **fake) == 1
    assert value(found, "hermes_jobs_ended_total", state="done") == 1
    hook = {"plugin": "watches", "hook": "hermes_message"}
    assert value(found, "hermes_hook_calls_total", **hook) == 6
    failing = {"plugin": "watches", "hook": "hermes_turn_started"}
    assert value(found, "hermes_hook_failures_total", **failing) == value(
        found, "hermes_hook_calls_total", **failing
    )
    assert value(found, "hermes_hook_failures_total", **failing) == 5
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in found}
    assert names == set(FAMILIES), "nothing is promised that never comes"


def test_what_the_platform_does_not_take_is_seen_with_its_age(tmp_path: Path) -> None:
    async def story() -> tuple[Read, Read]:
        async with Bed(tmp_path) as bed:
            bed.platform.refuse += [SendError("Wait.", retry_after=3600.0)]
            await bed.platform.say("hello")
            while not bed.model.requests or bed.platform.refuse:
                await asyncio.sleep(0.01)
            stuck = of(bed)
            await bed.platform.settled()
            return stuck, of(bed)

    stuck, after = run(story())
    assert value(stuck, "hermes_outbox_messages", platform="fake") == 1
    assert value(stuck, "hermes_outbox_oldest_seconds", platform="fake") > 0
    assert value(after, "hermes_outbox_messages", platform="fake") == 0
    assert value(after, "hermes_outbox_oldest_seconds", platform="fake") == 0
    assert value(after, "hermes_outbox_sent_total", platform="fake") == 1


def test_a_hook_is_timed_with_its_waiting_and_also_when_it_fails() -> None:
    from hermes_core.plugins import Plugins

    class Slow:
        @hookimpl
        async def hermes_turn_ended(self) -> None:
            await asyncio.sleep(0.02)
            raise ValueError("no")

    async def story() -> Any:
        plugins = Plugins()
        plugins.add("slow", Slow())
        await plugins.each("hermes_turn_ended")
        (one,) = [tally for _, hook, tally in plugins.tallies() if hook == "hermes_turn_ended"]
        return one

    tally = asyncio.run(story())
    assert (tally.calls, tally.failed) == (1, 1)
    assert tally.seconds >= 0.02


@given(st.text(), st.text())
def test_any_label_arrives_as_it_is(version: str, model: str) -> None:
    if any(one in text for text in (version, model) for one in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):
        return  # the parser of the test takes these for the end of a line; Prometheus itself does not
    try:
        (version + model).encode()
    except UnicodeEncodeError:
        return
    text = written([("hermes_info", {"version": version, "model": model}, 1)])
    assert parsed(text) == {("hermes_info", frozenset({("version", version), ("model", model)})): 1}


@given(st.lists(st.floats(0, 4000, allow_nan=False)))
def test_a_histogram_has_everything_in_its_buckets(seconds: list[float]) -> None:
    histogram = Histogram((0.5, 1, 60))
    for one in seconds:
        histogram.observe(one)
    assert sum(histogram.counts) == len(seconds)
    assert math.isclose(histogram.total, sum(seconds), abs_tol=1e-6)
    reached = 0
    for bound, count in zip((0.5, 1, 60), histogram.counts, strict=False):
        reached += count
        assert reached == sum(one <= bound for one in seconds)


async def test_the_figures_are_for_callers_with_the_token_and_health_is_for_all(tmp_path: Path) -> None:
    async with Inside(tmp_path, config={"http": {"token_env": "TOKEN"}}) as house:
        problem(await house.client.get("/metrics"), 401)
        answer = await house.client.get("/metrics", headers={"Authorization": f"Bearer {ENVIRON['TOKEN']}"})
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert value(parsed(answer.text), "hermes_jobs", state="running") == 0
        assert (await house.client.get("/health")).json() == {"status": "ok"}


# ---- case 43


class Beating(FakePlatform):
    """A platform whose connection gives signs of life, or fails."""

    def __init__(self) -> None:
        super().__init__("beating", Features(once=True))
        self.failing = 0

    async def run(self, gateway: Gateway) -> None:
        if self.failing:
            self.failing -= 1
            raise OSError("cut")
        await super().run(gateway)


async def health(bed: Bed) -> Any:
    import json

    answer = await health_route(bed.runtime).answer(Request("GET", "/health", {}, {}, {}, b"", ""))
    return json.loads(answer.body)


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.getMessage().startswith("platform ")]


def test_case_43_a_platform_that_is_connected_and_deaf_is_reported_once_and_again_when_it_is_heard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Bed(tmp_path, platform=Beating(), config={"health": {"silent_after": "3m"}}) as bed:
            gateway = bed.platform.gateway
            for _ in range(10):
                gateway.alive()
                await asyncio.sleep(170)
            assert (alarms(caplog), (await health(bed))["status"]) == ([], "ok")
            await asyncio.sleep(20)
            assert await health(bed) == {"status": "degraded", "platforms": {"beating": "silent"}}
            assert value(of(bed), "hermes_platform_up", platform="beating") == 0
            assert value(of(bed), "hermes_platform_heard_seconds", platform="beating") == 190
            await asyncio.sleep(4 * 3600)
            assert alarms(caplog) == [
                "platform beating is silent: it was connected, and nothing was heard of it for 180 s"
            ]
            gateway.alive()
            assert await health(bed) == {"status": "ok", "platforms": {"beating": "up"}}
            assert alarms(caplog)[1:] == ["platform beating is heard again"]

    with caplog.at_level(logging.WARNING):
        run(story())


def test_case_43_messages_are_signs_of_life_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with Bed(tmp_path, platform=Beating()) as bed:
            bed.platform.gateway.alive()
            for _ in range(20):
                await asyncio.sleep(100)
                await bed.say("still here")
            assert alarms(caplog) == []

    with caplog.at_level(logging.WARNING):
        run(story())


def test_case_43_a_connection_that_lives_and_brings_nothing_is_reported_where_that_is_wanted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Bed(tmp_path, platform=Beating(), config={"health": {"quiet_after": "2h"}}) as bed:

            async def beat(seconds: float) -> None:
                for _ in range(int(seconds // 60)):
                    bed.platform.gateway.alive()
                    await asyncio.sleep(60)

            await bed.say("hello")
            await beat(3600)
            assert (await health(bed))["platforms"] == {"beating": "up"}
            await beat(4 * 3600)
            assert await health(bed) == {"status": "degraded", "platforms": {"beating": "quiet"}}
            assert value(of(bed), "hermes_platform_up", platform="beating") == 1
            await bed.say("at last")
            await beat(120)
            assert (await health(bed))["status"] == "ok"
            assert len(alarms(caplog)) == 2

    with caplog.at_level(logging.WARNING):
        run(story())


def test_an_adapter_that_gives_no_signs_costs_no_timer_and_is_never_called_silent(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, platform=Beating()) as bed:
            handles = len(asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]
            pulse = bed.runtime.services.pulses["beating"]
            assert (pulse.state, pulse.age, handles) == ("up", None, 0)

    run(story())


def test_an_adapter_that_fails_is_down_until_it_is_connected_again(tmp_path: Path) -> None:
    async def story() -> None:
        platform = Beating()
        platform.failing = 2
        async with Bed(tmp_path, platform=platform) as bed:
            assert (await health(bed))["platforms"] == {"beating": "up"}
            bed.platform.gateway.alive()
            bed.platform.hang_up()
            await asyncio.sleep(1)

    async def down() -> tuple[str, float | None, str]:
        pulse = Pulse("x", 180.0)
        pulse.ready()
        pulse.alive()
        pulse.down()
        await asyncio.sleep(1000)
        before, age = pulse.state, pulse.age
        pulse.ready()
        await asyncio.sleep(200)
        pulse.close()
        return before, age, pulse.state

    run(story())
    assert run(down()) == ("down", None, "silent"), (
        "who gave signs once is expected to after a new start, too"
    )
