"""Shell: a command as a tool, for owners and admins, ended whole."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from hermes_core.config import Config
from hermes_core.errors import ConfigError
from hermes_core.messages import Address, Author, Role, ToolCall
from hermes_core.processes import tree
from hermes_core.testing.bed import Bed
from hermes_core.tools import Outcome, Scope, Tool, ToolContext
from hermes_shell.plugin import ShellPlugin, ShellSettings

HERE = Address("test", "bot", "here")


@pytest.fixture
async def scope(tmp_path: Path) -> AsyncIterator[Scope]:
    records = tmp_path / "records"
    records.mkdir()
    made = Scope(records, kill_after=0.2)
    yield made
    await made.stop(0.2)
    assert list(records.iterdir()) == []


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def variables() -> Iterator[None]:
    """Environment variables with secrets in them, as a real run has."""
    added = {
        "SHOP_TOKEN": "s1",
        "OPENAI_API_KEY": "s2",
        "hook_secret": "s3",
        "DB_PASSWORD_OLD": "s4",
        "HERMES__MODEL__NAME": "s5",
        "UNLUCKY": "s6",
        "TOKENIZER": "fine",
        "MONKEY": "fine",
    }
    os.environ.update(added)
    yield
    for name in added:
        del os.environ[name]


def run_command(**settings: Any) -> Tool:
    (found,) = ShellPlugin(ShellSettings(**settings)).hermes_tools()
    return found


async def call(scope: Scope, called: Tool, role: Role = Role.ADMIN, **arguments: Any) -> Outcome:
    return await scope.call(called, json.dumps(arguments), ToolContext(HERE, Author("1"), role, scope))


def test_the_model_sees_a_command_and_a_timeout_with_the_configured_default() -> None:
    found = run_command(timeout=90.0)
    assert (found.name, found.role) == ("run_command", Role.ADMIN)
    assert found.schema["required"] == ["command"]
    assert found.schema["properties"]["timeout"] == {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 3600.0,
        "default": 90.0,
        "description": "Seconds until it is stopped with all that it started.",
    }
    assert found.schema["additionalProperties"] is False


async def test_a_command_gives_its_output_and_its_code(scope: Scope, work: Path) -> None:
    found = run_command(cwd=str(work))
    assert await call(scope, found, command="pwd") == Outcome(str(work))
    outcome = await call(scope, found, command="echo no >&2; exit 4")
    assert outcome == Outcome("no\n[exit code 4]", error=True)
    assert await call(scope, found, command="cat") == Outcome("(no output)")


async def test_without_a_setting_commands_start_where_the_program_does(scope: Scope) -> None:
    assert await call(scope, run_command(), command="pwd -P") == Outcome(str(Path.cwd().resolve()))


@pytest.mark.parametrize("approval", ["ask", "never"])
@pytest.mark.parametrize("role", [Role.NOBODY, Role.USER])
async def test_only_owners_and_admins_run_commands_whatever_is_set(
    scope: Scope, work: Path, approval: str, role: Role
) -> None:
    outcome = await call(scope, run_command(cwd=str(work), approval=approval), role, command="touch ran")
    assert outcome.error
    assert not (work / "ran").exists()


@pytest.mark.skipif(not tree.VISIBLE, reason="reads /proc")
async def test_the_timeout_ends_all_that_the_command_started(scope: Scope) -> None:
    script = "trap '' TERM; (setsid sleep 60 &); echo $$; sleep 60; sleep 60"
    before = {one.pid for one in psutil.Process().children(recursive=True)}  # servers of other tests
    begun = time.monotonic()
    calling = asyncio.create_task(call(scope, run_command(), command=script, timeout=0.4))
    while (
        len(found := [one for one in psutil.Process().children(recursive=True) if one.pid not in before]) < 4
    ):
        assert time.monotonic() - begun < 3
        await asyncio.sleep(0.002)
    outcome = await calling
    assert time.monotonic() - begun < 3
    assert outcome.error
    assert outcome.text.endswith("[stopped: it did not end within 0.4 s]")
    assert not any(one.is_running() for one in found)


@pytest.mark.parametrize("timeout", [0, -1, 3601, "soon"])
async def test_a_timeout_out_of_range_is_refused(scope: Scope, work: Path, timeout: object) -> None:
    outcome = await call(scope, run_command(cwd=str(work)), command="touch ran", timeout=timeout)
    assert outcome.error
    assert "$.timeout" in outcome.text
    assert not (work / "ran").exists()


async def test_output_is_bounded_and_says_what_is_left_out(scope: Scope) -> None:
    outcome = await call(scope, run_command(output_limit=1000), command="seq 1 100000")
    assert "bytes left out" in outcome.text
    assert outcome.text.startswith("1\n2\n")
    assert outcome.text.endswith("100000")
    assert len(outcome.text) < 1100


async def test_a_command_does_not_get_what_looks_like_a_secret(scope: Scope, variables: None) -> None:
    outcome = await call(scope, run_command(hide=("UNLUCKY",)), command="env")
    given = dict(line.partition("=")[::2] for line in outcome.text.splitlines())
    assert given["TOKENIZER"] == given["MONKEY"] == "fine"
    assert given["PATH"] == os.environ["PATH"]
    assert not {"s1", "s2", "s3", "s4", "s5", "s6"} & set(given.values())


async def test_a_command_does_not_get_what_the_config_names_as_a_secret(
    scope: Scope, variables: None
) -> None:
    plugin = ShellPlugin(ShellSettings())
    plugin.hermes_configured(Config.of({"adapters": {"other": {"token_env": "MONKEY"}}}))
    (tool,) = plugin.hermes_tools()
    outcome = await call(scope, tool, command="env")
    assert "TOKENIZER=fine" in outcome.text
    assert "MONKEY=" not in outcome.text


def test_the_system_prompt_gets_one_sentence_that_stays_the_same(work: Path) -> None:
    plugin = ShellPlugin(ShellSettings(cwd=str(work)))
    text = plugin.hermes_system_prompt("You are Hermes.", HERE)
    assert text.startswith("You are Hermes.\n\n")
    assert str(work) in text
    assert text == plugin.hermes_system_prompt("You are Hermes.", HERE)
    assert plugin.hermes_system_prompt("", HERE) == text.removeprefix("You are Hermes.\n\n")


def test_a_folder_that_is_not_there_is_an_error_of_the_config(work: Path) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.shell\.cwd"):
        ShellPlugin(ShellSettings(cwd=str(work / "none")))


@pytest.mark.parametrize(
    "wrong", [{"aproval": "ask"}, {"approval": "always"}, {"timeout": 0}, {"output_limit": 10}]
)
def test_settings_that_do_not_fit_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, ShellPlugin.Settings)


def test_the_readme_names_every_setting_with_its_default() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    for field in msgspec.structs.fields(ShellSettings):
        row = next(line for line in readme.splitlines() if line.startswith(f"| `{field.name}` |"))
        default = row.split("|")[2].strip()
        wanted = {"cwd": "where `hermes` was started", "timeout": "`60`", "hide": "`[]`"}
        assert default == wanted.get(field.name, f"`{json.dumps(field.default)}`")


# ---- start_command


async def test_j1_a_command_started_as_a_job_is_told_of_when_it_ends(tmp_path: Path, work: Path) -> None:
    start = ToolCall("c", "start_command", json.dumps({"command": "pwd; exit 3", "idempotency_key": "k"}))
    plugin = ShellPlugin(ShellSettings(approval="never", cwd=str(work)))
    async with Bed(tmp_path / "data", [[start], "started", "I see"], plugins=[plugin]) as bed:
        assert await bed.say("go") == "started"
        limit = time.monotonic() + 20
        while len(bed.platform.sent) < 2:
            assert time.monotonic() < limit
            await asyncio.sleep(0.01)
        (job,) = await bed.store.jobs()
        assert bed.model.texts()[-1].splitlines() == [
            f"[event] job_failed job_id={job.id} tool=start_command status=failed",
            f"summary: exit code 3: {work}",
            f'details: get_job_result(job_id="{job.id}")',
        ]


async def test_a_job_does_not_get_secrets_and_only_admins_get_the_tool(
    tmp_path: Path, work: Path, variables: None
) -> None:
    start = ToolCall("c", "start_command", json.dumps({"command": "env", "idempotency_key": "k"}))
    plugin = ShellPlugin(ShellSettings(approval="never", cwd=str(work), hide=("UNLUCKY",)))
    async with Bed(tmp_path / "data", [[start], "started", "I see", [start], "no"], plugins=[plugin]) as bed:
        await bed.say("go")
        limit = time.monotonic() + 20
        while len(bed.platform.sent) < 2:
            assert time.monotonic() < limit
            await asyncio.sleep(0.01)
        (job,) = await bed.store.jobs()
        text = (await bed.runtime.jobs.result(job.id, chars=100_000)).text
        assert "TOKENIZER=fine" in text
        assert not any(f"={secret}\n" in text for secret in ("s1", "s2", "s3", "s4", "s5", "s6"))
        await bed.say("go", channel="2", author="bob")
        assert "start_command" not in [one.name for one in bed.model.requests[-1].tools]
        assert len(await bed.store.jobs()) == 1
