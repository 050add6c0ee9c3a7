"""Three platforms that misbehave at random, 200 conversations, one program: nothing lost, nothing twice, in order.

`--soak-seconds N` says for how long people write; 30 by default, 300 for the long one.
"""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_core.testing.driver import until

from .stage import Platform, Stage, shown

CHATS = 200
CONTEXT = 600  # characters of its past that a conversation keeps: full soon, so that memory must be flat
EVERY = 0.02  # seconds between two messages
REPEAT = "may be a repeat"
TOKEN = re.compile(r"[cn]\d+-\d+")


def numbers(texts: list[str]) -> list[str]:
    """The tokens that the agent's messages hold, in their order, marked repeats left out."""
    seen: list[str] = []
    for text in texts:
        found = TOKEN.findall(text)
        if REPEAT not in text or not set(found) <= set(seen):
            seen.extend(found)
    return seen


def _kind(token: str) -> str:
    """Messages keep their order among messages, and commands among commands."""
    return token[0]


def test_the_flags_of_long_runs_need_no_folder_beside_them() -> None:
    root = Path(__file__).parents[2]
    flags = ("--soak-seconds", "300", "--crash-kills", "5000", "--crash-seed", "1")
    command = (sys.executable, "-m", "pytest", *flags, "--help")
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--soak-seconds" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_nothing_is_lost_or_twice_on_three_platforms_that_misbehave(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seconds = request.config.getoption("--soak-seconds")
    seed = random.SystemRandom().randrange(10**6)
    dice = random.Random(seed)
    said: dict[tuple[str, int], list[str]] = {}
    talk = {"busy": "queue", "receipts": False}
    async with Stage(tmp_path, conversation=talk, context_chars=CONTEXT) as stage:
        names = sorted(stage.platforms)
        loop = asyncio.get_running_loop()
        end, early = loop.time() + seconds, 0
        count = troubles = 0
        while loop.time() < end:
            chat = dice.randrange(CHATS)
            platform = stage.platforms[names[chat % 3]]
            count += 1
            token = f"{dice.choice('cnn')}{chat}-{count}"
            said.setdefault((platform.name, chat), []).append(token)
            # a command that is not there is answered at once (T5), through the outbox alone
            await platform.say(chat, f"/{token}" if token[0] == "c" else f"tell me {token}")
            if dice.random() < 0.12:
                troubles += 1
                await stage.platforms[dice.choice(names)].trouble(dice)
            await asyncio.sleep(EVERY)
            if not early and loop.time() > end - seconds * 0.6:
                early = stage.memory()
        slack = stage.platforms["slack"]

        async def answered() -> bool:
            await slack.fake.redeliver()  # type: ignore[attr-defined]
            return all(
                set(tokens) <= set(numbers(stage.platforms[name].texts(chat)))
                for (name, chat), tokens in said.items()
            )

        try:
            await until(answered, "all is answered", seconds=120.0)
        except AssertionError:
            pytest.fail(f"seed {seed}: {missing(stage.platforms, said)}\n{stage.log()[-3000:]}")
        wrong = {
            f"{name} {chat}": (tokens, found)
            for (name, chat), tokens in said.items()
            if (found := sorted(numbers(stage.platforms[name].texts(chat)), key=_kind))
            != sorted(tokens, key=_kind)
        }
        assert not wrong, f"seed {seed}: {shown(wrong)}"
        assert stage.process.returncode is None, stage.log()[-3000:]
        grown = (stage.memory() - early) / 2**20
        log = stage.log()
        tries = log.count("next try") + log.count("a call for ")
        marks = sum(REPEAT in text for name, chat in said for text in stage.platforms[name].texts(chat))
        print(
            f"seed {seed}: {count} messages, {troubles} troubles, {tries} calls failed, {marks} marked repeats"
        )
        print(f"memory {grown:+.1f} MiB")
        assert grown < 25, f"seed {seed}: {grown:.1f} MiB more after {count} messages"
        assert await stage.end() == 0
        assert "Traceback" not in stage.log(), f"seed {seed}: {stage.log()[-5000:]}"


def missing(platforms: dict[str, Platform], said: dict[tuple[str, int], list[str]]) -> str:
    """What was not answered, and what stands there instead."""
    lost = {
        f"{name} {chat}": {"missing": gone, "there": platforms[name].texts(chat)[-6:]}
        for (name, chat), tokens in said.items()
        if (gone := [one for one in tokens if one not in numbers(platforms[name].texts(chat))])
    }
    return shown(dict(list(lost.items())[:5])) + f" in {len(lost)} conversations"
