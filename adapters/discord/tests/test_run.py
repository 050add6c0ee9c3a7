"""`hermes run` as a real process on Discord: ready, an answer, kill -9, and the answer all the same (D6)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from hermes_core.testing.platforms.discord import FakeDiscord
from hermes_core.writing import Journal

from .bench import until


async def begin(folder: Path, discord: FakeDiscord) -> asyncio.subprocess.Process:
    """The program, as it begins."""
    config = folder / "hermes.toml"
    config.write_text(f"""
[runtime]
data_dir = "{folder / "data"}"
[access]
allow = ["discord:*"]
[adapters.discord]
token_env = "BOT"
base_url = "{discord.base_url}"
gateway_url = "{discord.gateway_url}"
[plugins.demo]
pace = 0.004
""")
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hermes_core", "run", "--config", str(config)),
        env={**os.environ, "BOT": discord.token},
        stderr=asyncio.subprocess.PIPE,
    )


async def start(folder: Path, discord: FakeDiscord) -> asyncio.subprocess.Process:
    """The program; returns when it says that it is ready."""
    process = await begin(folder, discord)
    assert process.stderr is not None
    async with asyncio.timeout(20.0):
        while line := await process.stderr.readline():
            if line.startswith(b"ready: discord"):
                return process
    raise AssertionError("it ended before it was ready")


async def end(process: asyncio.subprocess.Process, how: signal.Signals) -> int:
    """End it, and give its exit code."""
    process.send_signal(how)
    async with asyncio.timeout(10.0):
        await process.communicate()
    assert process.returncode is not None
    return process.returncode


async def test_what_was_said_before_a_kill_is_answered_after_it_once(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat, other = discord.direct("ann"), discord.direct("bob")
    process = await start(tmp_path, discord)
    await discord.say(other, "bob", "hello")
    await until(lambda: discord.texts(other))
    await discord.say(chat, "ann", "please write a long answer")
    await until(lambda: discord.texts(chat))
    await end(process, signal.SIGKILL)
    cut_off = discord.mine(chat)[0]["id"]
    await discord.say(other, "bob", "are you still there?", told=False)
    process = await start(tmp_path, discord)
    await until(lambda: len(discord.texts(other)) == 2, 20.0)
    await until(lambda: "".join(discord.texts(chat)).rstrip().endswith("has an end."), 60.0)
    assert await end(process, signal.SIGTERM) == 0
    whole = "".join(discord.texts(chat))
    assert discord.mine(chat)[0]["id"] == cut_off
    assert [whole.count(one) for one in ("The second ferryman", "turn_back(bell)", "has an end.")] == [
        1,
        1,
        1,
    ]
    assert "interrupted" not in whole
    assert len(discord.texts(other)) == 2


async def test_r3_a_text_that_a_kill_cut_off_and_that_is_then_stopped_gets_its_mark(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct("ann")
    process = await start(tmp_path, discord)
    await discord.say(chat, "ann", "please write a long answer")
    await until(lambda: discord.texts(chat))
    await end(process, signal.SIGKILL)
    cut_off = discord.mine(chat)[0]["id"]
    process = await start(tmp_path, discord)
    await discord.say(chat, "ann", "/stop")
    await until(lambda: len(discord.texts(chat)) > 1, 20.0)
    await until(lambda: any(one.endswith("*✂ interrupted*") for one in discord.texts(chat)), 20.0)
    assert await end(process, signal.SIGTERM) == 0
    assert discord.mine(chat)[0]["id"] == cut_off
    assert sum(one.count("interrupted*") for one in discord.texts(chat)) == 1
    assert all(one.whole for one in Journal(tmp_path / "data" / "discord" / "drafts.jsonl").drafts())


async def test_a_missing_intent_ends_the_program_with_words_that_say_what_to_do(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    discord.gateway.allowed = 0
    process = await begin(tmp_path, discord)
    async with asyncio.timeout(20.0):
        _, said = await process.communicate()
    assert process.returncode == 2
    assert b'Turn on "Message Content Intent"' in said
    assert b"Traceback" not in said
    assert discord.token.encode() not in said
