"""`hermes run` with `[adapters.slack]`, as a real process in front of the fake Slack, and killed at bad moments."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from hermes_core.adapter import AdapterFactory
from hermes_core.config import Config, Secrets
from hermes_core.errors import ConfigError
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_slack.plugin import SlackPlugin

TOKENS = {
    "SLACK_APP_TOKEN": FakeSlack.app_token,
    "SLACK_BOT_TOKEN": FakeSlack.bot_token,
    "SLACK_SIGNING_SECRET": FakeSlack.signing_secret,
}
PATIENCE = 30.0


class Program:
    """`hermes run` in a folder of its own; what it says on stderr is in `said`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""

    async def until(self, words: str) -> None:
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while words not in self.said:
                line = await self.process.stderr.readline()
                assert line, self.said
                self.said += line.decode()

    async def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        async with asyncio.timeout(PATIENCE):
            _, rest = await self.process.communicate()
        self.said += rest.decode()
        return self.process.returncode or 0


@contextlib.asynccontextmanager
async def running(
    folder: Path, slack: FakeSlack, more: str = "", adapter: str = "", pace: float = 0.005
) -> AsyncIterator[Program]:
    config = folder / "hermes.toml"
    config.write_text(
        f'[runtime]\ndata_dir = "{folder / "data"}"\n[access]\nallow = ["*"]\n[plugins.demo]\npace = {pace}\n'
        f'[adapters.slack]\nbase_url = "{slack.base_url}"\n{adapter}\n{more}'
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HERMES")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hermes_core", "run", "--config", str(config)),
        env={**environ, **TOKENS, "HOME": str(folder)},
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    program = Program(process)
    try:
        yield program
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_hermes_run_answers_in_slack_and_stops_in_order(tmp_path: Path, slack: FakeSlack) -> None:
    async with running(tmp_path, slack) as program:
        await program.until("ready: slack")
        assert program.said == "ready: slack\n", (
            "the usual names of the variables are no reason for a warning"
        )
        slack.world.say("D1", "UANN", "hello")
        await slack.until(lambda: bool(slack.texts("D1")), PATIENCE)
        await slack.until(lambda: not slack.unacked())
        assert await program.end(signal.SIGTERM) == 0
        assert "Traceback" not in program.said
        assert not any(token in program.said for token in TOKENS.values())


async def test_after_kill_9_every_accepted_message_is_answered_once_d6(
    tmp_path: Path, slack: FakeSlack
) -> None:
    held = slack.hold("chat.postMessage")  # taken by Slack, and the program dies before it knows
    async with running(tmp_path, slack) as program:
        await program.until("ready: slack")
        slack.world.say("D1", "UANN", "/status")
        await slack.until(lambda: len(slack.texts("D1")) == 1, PATIENCE)
        slack.world.say("D2", "UANN", "/status")
        await slack.until(lambda: len(slack.texts("D2")) == 1, PATIENCE)
        await program.end(signal.SIGKILL)
    held.set()
    async with running(tmp_path, slack) as program:
        await program.until("ready: slack")
        await slack.redeliver()
        slack.world.say("D1", "UANN", "/busy queue")
        await slack.until(lambda: len(slack.texts("D1")) == 2, PATIENCE)
        await program.end(signal.SIGTERM)
    first, second = slack.texts("D1")
    assert "queue" in second
    assert first != second
    assert len(slack.texts("D2")) == 1


@pytest.mark.parametrize("channel", ["D1", "C1"])
async def test_a_text_that_kill_9_cut_off_gets_its_end_in_the_same_message_r3(
    tmp_path: Path, slack: FakeSlack, channel: str
) -> None:
    """In a thread Slack still takes it for a stream of the run that is dead."""
    async with running(tmp_path, slack, pace=0.03) as program:
        await program.until("ready: slack")
        ts = slack.world.say(channel, "UANN", "<@U0AGENT> count to 60")
        thread = ts if channel == "C1" else None
        await slack.until(lambda: "12" in "".join(slack.texts(channel, thread)), PATIENCE)
        await program.end(signal.SIGKILL)
    assert slack.world.streams.alive == (1 if thread else 0)
    (cut_off,) = slack.texts(channel, thread)
    assert "60" not in cut_off
    (message,) = [one for one in slack.world.channel(channel).messages.values() if one.get("bot_id")]
    async with running(tmp_path, slack) as program:
        await program.until("ready: slack")
        await slack.until(lambda: "60" in slack.texts(channel, thread)[0], PATIENCE)
        await program.end(signal.SIGTERM)
    assert len(slack.texts(channel, thread)) == 1
    assert message["text"] == slack.texts(channel, thread)[0]
    assert slack.world.streams.alive == 0


@pytest.mark.parametrize(("channel", "method"), [("D1", "chat.postMessage"), ("C1", "chat.startStream")])
async def test_a_draft_that_kill_9_met_while_it_was_posted_is_found_and_completed_d5_r3(
    tmp_path: Path, slack: FakeSlack, channel: str, method: str
) -> None:
    """Slack has it, and the program died before it knew under which time stamp."""
    held = slack.hold(method)
    async with running(tmp_path, slack, pace=0.03) as program:
        await program.until("ready: slack")
        ts = slack.world.say(channel, "UANN", "<@U0AGENT> count to 60")
        thread = ts if channel == "C1" else None
        await slack.until(lambda: len(slack.texts(channel, thread)) == 1, PATIENCE)
        await program.end(signal.SIGKILL)
    held.set()
    async with running(tmp_path, slack) as program:
        await program.until("ready: slack")
        await slack.until(lambda: "60" in slack.texts(channel, thread)[-1], PATIENCE)
        await program.end(signal.SIGTERM)
    (text,) = slack.texts(channel, thread)
    assert "interrupted" not in text
    assert slack.world.streams.alive == 0


async def test_a_text_of_a_turn_that_does_not_go_on_after_kill_9_gets_its_mark_r3(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with running(tmp_path, slack, pace=0.03) as program:
        await program.until("ready: slack")
        ts = slack.world.say("C1", "UANN", "<@U0AGENT> count to 60")
        await slack.until(lambda: "12" in "".join(slack.texts("C1", ts)), PATIENCE)
        slack.deliver = False
        slack.world.say("C1", "UANN", "<@U0AGENT> /stop", thread=ts)  # written while the program is down
        await program.end(signal.SIGKILL)
    slack.deliver = True
    async with running(tmp_path, slack, pace=0.3) as program:
        await program.until("ready: slack")
        await slack.until(lambda: slack.texts("C1", ts)[0].rstrip("*_").endswith("interrupted"), PATIENCE)
        await program.end(signal.SIGTERM)
    assert "60" not in slack.texts("C1", ts)[0]
    assert slack.world.streams.alive == 0


async def test_signed_http_reaches_the_agent_through_the_shared_server(
    tmp_path: Path, slack: FakeSlack
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    slack.deliver = False
    slack.world.say("D1", "UANN", "/status")
    body = json.dumps(slack.events[0]).encode()
    url = f"http://127.0.0.1:{port}/slack/events"

    def post(headers: dict[str, str]) -> int:
        asked = urllib.request.Request(url, body, headers, method="POST")
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    async with running(tmp_path, slack, f"[http]\nport = {port}\n", 'mode = "http"') as program:
        await program.until("ready: slack, web")
        async with asyncio.timeout(PATIENCE):
            while not _listens(port):
                await asyncio.sleep(0.01)
        assert await asyncio.to_thread(post, slack.signed(b"another body")) == 401
        assert slack.texts("D1") == []
        assert await asyncio.to_thread(post, slack.signed(body)) == 200
        await slack.until(lambda: len(slack.texts("D1")) == 1, PATIENCE)
        assert slack.called("apps.connections.open") == []
        assert await program.end(signal.SIGTERM) == 0


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# ---- settings


def factory(environ: dict[str, str], **settings: object) -> AdapterFactory:
    config = Config.of({"adapters": {"slack": settings}})
    built = config.section("adapters", "slack", SlackPlugin.Settings)
    plugin = SlackPlugin(msgspec.structs.replace(built, secrets=Secrets(environ)))
    return next(iter(plugin.hermes_adapters()))


@pytest.mark.parametrize(
    ("mode", "missing"),
    [
        ("socket", "SLACK_BOT_TOKEN"),
        ("socket", "SLACK_APP_TOKEN"),
        ("http", "SLACK_BOT_TOKEN"),
        ("http", "SLACK_SIGNING_SECRET"),
    ],
)
def test_a_missing_secret_names_its_key_and_variable(mode: str, missing: str) -> None:
    environ = {name: value for name, value in TOKENS.items() if name != missing}
    with pytest.raises(ConfigError, match=f"adapters.slack.*{missing}"):
        factory(environ, mode=mode).open({})


@pytest.mark.parametrize(("mode", "spare"), [("socket", "SLACK_SIGNING_SECRET"), ("http", "SLACK_APP_TOKEN")])
def test_a_secret_that_the_mode_does_not_need_may_be_missing(mode: str, spare: str) -> None:
    environ = {name: value for name, value in TOKENS.items() if name != spare}
    assert factory(environ, mode=mode).open({}).platform == "slack"


def test_http_without_a_server_is_said_and_not_deaf() -> None:
    config = Config.of({"adapters": {"slack": {"mode": "http"}}})
    built = config.section("adapters", "slack", SlackPlugin.Settings)
    plugin = SlackPlugin(msgspec.structs.replace(built, secrets=Secrets(TOKENS)))
    plugin.hermes_configured(config)
    with pytest.raises(ConfigError, match=r"mode.*http.*server"):
        next(iter(plugin.hermes_adapters())).open({})
    plugin.hermes_configured(Config.of({"http": {"port": 0}}))
    assert next(iter(plugin.hermes_adapters())).open({}).platform == "slack"


def test_an_address_that_is_none_is_said() -> None:
    with pytest.raises(ConfigError, match="base_url"):
        factory(TOKENS, base_url="slack.com").open({})
