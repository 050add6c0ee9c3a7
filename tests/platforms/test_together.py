"""One agent on three platforms at once, in one process: the same conversation goes the same way on each.

The model is the demo model, so that interrupts, tools and jobs are those of a run that anybody can make.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from hermes_core.testing.driver import until

from .stage import Platform, Stage

EXAMPLE = Path(__file__).parents[2] / "examples/three_platforms/hermes.toml"

WRONG = {
    "slack": {"SLACK_BOT_TOKEN": "xoxb-wrong", "SLACK_APP_TOKEN": "xapp-wrong"},
    "telegram": {"TELEGRAM_BOT_TOKEN": "99:wrong"},
    "discord": {"DISCORD_BOT_TOKEN": "wrong"},
}
SHELL = {"enabled": True, "approval": "never"}


async def says(platform: Platform, text: str, chat: int = 1) -> str:
    """Wait until one of the agent's messages holds this; gives that message."""
    await until(
        lambda: any(text in one for one in platform.texts(chat)),
        f"the agent says {text!r}",
        lambda: platform.texts(chat),
        20.0,
    )
    return next(one for one in reversed(platform.texts(chat)) if text in one)


def counting(platform: Platform) -> int:
    """How many of the agent's messages count."""
    return sum(one.count("3, 4, 5, 6, 7") for one in platform.texts(1))


async def conversation(platform: Platform) -> None:
    """A talk with everything in it: an interrupt, a steer, a note for later, a job, a stop."""
    await platform.say(1, "count to 3")
    assert "1, 2, 3. Done." in await says(platform, "Done.")

    # an interrupt: what was shown gets its mark, and the new message is answered
    await platform.say(1, "count to 400")
    await says(platform, "1, 2, 3, 4")
    await platform.say(1, "count to 2")
    await says(platform, "1, 2. Done.")
    assert not any("399, 400" in one for one in platform.texts(1))

    # a note for later: behind the next reply
    await platform.say(1, "/after 1 mind the gap")
    await says(platform, "after reply")
    await platform.say(1, "count to 4")
    await says(platform, "1, 2, 3, 4. Done.")
    await platform.say(1, "count to 5")
    await says(platform, "has come")

    # a steer joins the running turn
    await platform.say(1, "count to 60")
    await says(platform, "1, 2, 3, 4, 5, 6, 7")
    await platform.say(1, "/steer and in the end count to 6")
    await says(platform, "You steered me")

    # a job goes on while people talk, and its end is told
    await platform.say(1, "start sleep 1; echo finished-$((40 + 2))")
    await says(platform, "finished-42")

    # a stop ends everything
    counted = counting(platform)
    await platform.say(1, "count to 400")
    await until(
        lambda: counting(platform) > counted, "the agent counts", lambda: platform.texts(1)[-4:], 20.0
    )
    await platform.say(1, "/stop")
    await says(platform, "Stopped")


async def test_the_same_conversation_on_all_platforms_at_once(tmp_path: Path) -> None:
    async with Stage(tmp_path, model=None, terminal=True, plugins={"shell": SHELL}) as stage:
        async with asyncio.timeout(100):
            await asyncio.gather(*(conversation(one) for one in stage.platforms.values()))
        ready = next(line for line in stage.log().splitlines() if "ready: " in line)
        assert all(name in ready for name in ("discord", "slack", "telegram", "terminal"))
        assert await stage.end(signal.SIGTERM) == 0
        assert "Traceback" not in stage.log()


@pytest.mark.parametrize(
    "wrong", [("slack", "telegram", "discord"), ("slack", "discord")], ids=["all", "two"]
)
async def test_a_platform_that_refuses_for_good_ends_the_program_only_where_no_other_is_left(
    tmp_path: Path, wrong: tuple[str, ...]
) -> None:
    stage = Stage(tmp_path)
    for name in wrong:
        stage.environ |= WRONG[name]
    if len(wrong) < 3:
        async with stage:
            assert "ready: telegram\n" in stage.log()
            await stage.platforms["telegram"].say(1, "hello there")
            assert "you said: hello there" in await says(stage.platforms["telegram"], "you said")
        return
    with pytest.raises(AssertionError):  # it ends before it is ready
        await stage.__aenter__()
    await stage.__aexit__(None, None, None)
    assert stage.process.returncode == 2
    assert "ready:" not in stage.log()
    assert "Traceback" not in stage.log()
    assert all(f"adapter {name}:" in stage.log() for name in wrong)


async def test_the_example_of_one_agent_on_three_platforms_runs_as_it_stands(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.example = EXAMPLE
    stage.environ = {
        "OPENAI_API_KEY": "sk-test",
        "HERMES__ACCESS__ALLOW": "*",
    }
    async with stage:
        for number, platform in enumerate(stage.platforms.values(), 1):
            await platform.say(number, "hello there")
            assert "you said: hello there" in await says(platform, "you said", number)
        assert await stage.end() == 0
