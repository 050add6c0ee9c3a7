"""`hermes run` as a real process on Discord: ready, an answer, kill -9, and the answer all the same (D6)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from hermes_core.testing.platforms.discord import FakeDiscord

from .bench import until


async def start(folder: Path, discord: FakeDiscord) -> asyncio.subprocess.Process:
    """The program; returns when it says that it is ready."""
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
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hermes_core", "run", "--config", str(config)),
        env={**os.environ, "BOT": discord.token},
        stderr=asyncio.subprocess.PIPE,
    )
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
