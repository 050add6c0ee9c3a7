"""The log in both forms: where a line belongs to, and that no secret stands in it (X2, case 52)."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_core.cli.logs import formatter
from hermes_core.commands import Command, Context, command
from hermes_core.config import Config, LogSettings, Secrets
from hermes_core.errors import ConfigError, SendError
from hermes_core.hookspecs import hookimpl
from hermes_core.job import JobRequest
from hermes_core.messages import Address, Author, Entry, ToolCall
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Script
from hermes_core.testing.virtual import run
from hermes_core.tools import AsyncTool, JobContext, Tool, async_tool, tool
from tests.test_cli import hermes

log = logging.getLogger("weather")


class Talkative:
    """Logs with the standard library from wherever a plugin's code runs."""

    @hookimpl
    def hermes_message(self, entry: Entry) -> None:
        log.warning("seen")

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        @command("look")
        async def look(context: Context) -> str:
            """Look out."""
            log.warning("looked")
            return "wet"

        return [look]

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool
        async def measure() -> str:
            """Measure."""
            await asyncio.sleep(0)
            log.warning("measured")
            return "12 degrees"

        return [measure]

    @hookimpl
    def hermes_turn_ended(self) -> None:
        log.warning("ended")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged from here on, as JSON."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter(LogSettings(format="json"), Secrets(), False))
    root = logging.getLogger()
    root.addHandler(handler)
    yield written
    root.removeHandler(handler)


def told(lines: io.StringIO, logger: str = "weather") -> dict[str, dict[str, Any]]:
    """Message to the other fields, of one logger."""
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    return {one.pop("message"): one for one in found if one["logger"] == logger}


def test_what_a_plugin_logs_says_in_which_conversation_turn_and_entry(
    tmp_path: Path, lines: io.StringIO
) -> None:
    async def story() -> None:
        scripts: list[Script] = [[ToolCall("1", "measure", "{}")], "12 degrees."]
        async with Bed(tmp_path, scripts, plugins=[Talkative()]) as bed:
            await bed.say("how warm is it?", "7", id="m1")
            await bed.say("/look", "8", id="m2")

    run(story())
    found = told(lines)
    where = {
        name: {key: one[key] for key in ("conversation", "turn", "entry") if key in one}
        for name, one in found.items()
    }
    assert where == {
        "seen": {"conversation": "fake:agent:7", "entry": "m1"},
        "measured": {"conversation": "fake:agent:7", "turn": 1},
        "ended": {"conversation": "fake:agent:7", "turn": 1},
        "looked": {"conversation": "fake:agent:8", "entry": "m2"},
    }
    assert {one["level"] for one in found.values()} == {"warning"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one["time"]) for one in found.values())


def test_conversations_that_run_at_once_do_not_mix_their_fields(tmp_path: Path, lines: io.StringIO) -> None:
    async def story() -> None:
        scripts = [[ToolCall("1", "measure", "{}")]] * 20
        async with Bed(tmp_path, scripts, plugins=[Talkative()]) as bed:
            await asyncio.gather(*(bed.say("how warm?", str(number)) for number in range(20)))

    run(story())
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    measured = [one["conversation"] for one in found if one["message"] == "measured"]
    assert sorted(measured) == sorted(f"fake:agent:{number}" for number in range(20))


def test_a_job_and_an_adapter_say_so_themselves(tmp_path: Path, lines: io.StringIO) -> None:
    class Works:
        @hookimpl
        def hermes_async_tools(self) -> Iterable[AsyncTool]:
            @async_tool
            async def dig(context: JobContext) -> str:
                """Dig."""
                log.warning("dug")
                return "a hole"

            return [dig]

    async def story() -> str:
        async with Bed(tmp_path, plugins=[Works()]) as bed:
            request = JobRequest(bed.platform.address("7"), Author("ann"), "dig", {}, "k", notify=False)
            job = await bed.runtime.jobs.start(request)
            while not (await bed.runtime.jobs.status(job.id)).state.final:
                await asyncio.sleep(0.01)
            bed.platform.refuse.append(SendError("No.", permanent=True))
            await bed.say("hello", "9")
            return job.id

    id_ = run(story())
    assert told(lines)["dug"]["job"] == id_
    assert told(lines)["dug"]["conversation"] == "fake:agent:7"
    refused = next(one for text, one in told(lines, "hermes.outbox").items() if "cannot be delivered" in text)
    assert refused["conversation"] == "fake:agent:9"


def record(message: str, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, None)
    return logging.LogRecord("weather", logging.ERROR, "file.py", 1, message, None, info)


def test_a_json_line_is_one_line_and_has_its_traceback_as_a_field() -> None:
    try:
        raise ValueError("no\ntown")
    except ValueError as error:
        one = logging.LogRecord(
            "weather", logging.ERROR, "f", 1, "it\nfailed", None, (type(error), error, error.__traceback__)
        )
    line = formatter(LogSettings(format="json"), Secrets(), False).format(one)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["message"], found["error"]) == ("it\nfailed", "ValueError")
    assert found["traceback"].startswith("Traceback")
    assert found["traceback"].endswith("ValueError: no\ntown\n")


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("secret", ['sk-"quoted"-1', "sk-back\\slash-1", "sk-schlüssel-1"])
def test_case_52_a_secret_is_hidden_in_both_forms_whatever_json_makes_of_it(form: str, secret: str) -> None:
    secrets = Secrets({"KEY": secret})
    secrets.read("model.api_key_env", "KEY")
    made = formatter(LogSettings(format=form), secrets, True)
    line = made.format(record(f"sent {secret}", ValueError(f"{secret} refused")))
    assert "sent ***" in line
    assert "*** refused" in line
    for form_of_it in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        assert form_of_it not in line


def test_what_a_plugin_gives_besides_stands_in_a_field_of_its_own_without_secrets() -> None:
    secrets = Secrets({"KEY": "sk-planted-1"})
    secrets.read("model.api_key_env", "KEY")
    given = {
        "town": "Oslo",
        "tries": 3,
        "headers": {"sk-planted-1": ["a", "sk-planted-1"]},
        "path": Path("x"),
    }
    one = logging.makeLogRecord(
        {"name": "weather", "msg": "asked", "levelno": 30, "levelname": "WARNING", **given}
    )
    line = formatter(LogSettings(format="json"), secrets, False).format(one)
    assert json.loads(line)["extra"] == {
        "town": "Oslo",
        "tries": 3,
        "headers": {"***": ["a", "***"]},
        "path": "x",
    }
    plain = formatter(LogSettings(format="json"), secrets, False).format(record("asked"))
    assert "extra" not in json.loads(plain)


def test_a_text_line_says_where_it_belongs_to_once(tmp_path: Path) -> None:
    made = formatter(LogSettings(), Secrets(), False)

    async def line(message: str) -> str:
        from hermes_core.trace import Trace, enter

        enter(Trace(Address("fake", "agent", "7"), 3))
        return made.format(record(message))

    assert run(line("slow")).endswith(" ERROR weather: slow (fake:agent:7, turn 3)")
    assert (
        run(line("turn 3 of fake:agent:7 failed")).endswith("turn 3 of fake:agent:7 failed (turn 3)") is False
    )
    assert made.format(record("outside")).endswith(" ERROR weather: outside")


def test_a_logger_can_have_a_level_of_its_own_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    settings = Config.of({"log": {"level": "error", "levels": ["hermes.telegram = debug", "httpx=INFO"]}}).log
    assert settings.of_loggers() == [("hermes.telegram", "debug"), ("httpx", "info")]
    with pytest.raises(ConfigError, match=r"log\.levels.*LOGGER=LEVEL.*loud"):
        Config.of({"log": {"levels": ["hermes=loud"]}})
    with pytest.raises(ConfigError, match=r"log\.format must be one of text, json"):
        Config.of({"log": {"format": "xml"}})


def test_the_command_line_goes_before_the_config_and_the_log_of_a_chat_is_json(tmp_path: Path) -> None:
    (tmp_path / "hermes.toml").write_text('[log]\nlevel = "error"\n')
    settings = ("--set", f"runtime.data_dir={tmp_path}/data", "--log-level", "debug", "--log-json")
    done = hermes(tmp_path, "chat", *settings)
    assert (done.code, done.err) == (0, "")
    written = (tmp_path / "data/hermes.log").read_text().splitlines()
    assert written, "on this level something is said"
    assert all({"time", "level", "logger", "message"} <= set(json.loads(line)) for line in written)
