"""The adapter in front of a Slack that others wrote: `emulate`, from npm, over signed HTTP (X3).

It knows messages, threads, reactions, files and scopes, and nothing of Socket Mode, buttons and streams. So the
same adapter shows here that it gets along with the least that a compatible server has.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import aiohttp
import pytest

from hermes_core.messages import Address, Attachment, Outgoing
from hermes_core.testing.model import Hold
from hermes_slack.manifest import manifest

from .house import House
from .npm import NotInstalled, install
from .receiver import Receiver

PACKAGES: Final = ("emulate@0.12.2", "node@24")
AGENT, BOT, ANN = "U0AGENT", "B0AGENT", "ann"
SCOPES: Final = manifest().content["oauth_config"]["scopes"]["bot"]
SEED: Final = {
    "slack": {
        "signing_secret": "secret-of-this-test",
        "strict_scopes": True,
        "users": [{"name": ANN, "real_name": "Ann Example"}],
        "oauth_apps": [
            {
                "client_id": "1.1",
                "client_secret": "none",
                "app_id": "A0APP",
                "name": "hermes",
                "redirect_uris": ["http://127.0.0.1/none"],
                "scopes": SCOPES,
                "bot_id": BOT,
                "bot_user_id": AGENT,
                "bot_name": "hermes",
            }
        ],
        "channels": [{"name": "talk"}],
        "tokens": [
            {
                "token": "xoxp-ann",
                "type": "user",
                "user": ANN,
                "scopes": [*SCOPES, "channels:read", "im:write"],
            },
            {"token": "xoxb-agent", "type": "bot", "user_id": AGENT, "bot_id": BOT, "scopes": SCOPES},
        ],
    }
}


@dataclass
class Elsewhere:
    """That Slack, and Ann's hands and eyes there."""

    base_url: str
    session: aiohttp.ClientSession
    bot_token: str = "xoxb-agent"
    app_token: str = ""
    signing_secret: str = "secret-of-this-test"

    async def ann(self, method: str, **arguments: str) -> dict[str, Any]:
        headers = {"Authorization": "Bearer xoxp-ann"}
        async with self.session.post(self.base_url + method, data=arguments, headers=headers) as response:
            answer = await response.json()
        assert answer["ok"], answer
        return dict(answer)

    async def until(self, condition: Any, seconds: float = 20.0) -> None:
        async with asyncio.timeout(seconds):
            while not await condition():
                await asyncio.sleep(0.05)

    async def said(self, channel: str, thread: str = "") -> list[str]:
        """What the agent has said there, oldest first."""
        method = "conversations.replies" if thread else "conversations.history"
        answer = await self.ann(method, channel=channel, limit="100", **({"ts": thread} if thread else {}))
        own = [one for one in answer["messages"] if one.get("user") == AGENT or one.get("bot_id") == BOT]
        return [str(one["text"]) for one in sorted(own, key=lambda one: float(one["ts"]))]

    async def says(self, texts: list[str], channel: str, thread: str = "") -> None:
        async def found() -> bool:
            return await self.said(channel, thread) == texts

        try:
            await self.until(found)
        except TimeoutError:
            assert await self.said(channel, thread) == texts


@pytest.fixture(scope="session")
def package(request: pytest.FixtureRequest) -> Path:
    """The packages, installed once for each checkout."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("needs node and npm")
    folder = Path(request.config.cache.mkdir("-".join(PACKAGES)))
    try:
        return install(folder, PACKAGES)
    except NotInstalled as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as there:
        yield there


@pytest.fixture
async def elsewhere(package: Path, receiver: Receiver, tmp_path: Path) -> AsyncIterator[Elsewhere]:
    seed = tmp_path / "seed.json"
    seed.write_text(json.dumps(SEED))
    process = await asyncio.create_subprocess_exec(
        *(str(package / ".bin" / "node"), str(Path(__file__).with_name("emulate.mjs"))),
        *(str(package / "emulate"), str(seed), receiver.url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30), aiohttp.ClientSession() as session:
            url = (await process.stdout.readline()).decode().strip()
            yield Elsewhere(f"{url}/api/", session)
    finally:
        process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def channel_of(elsewhere: Elsewhere) -> str:
    listed = await elsewhere.ann("conversations.list")
    return next(str(one["id"]) for one in listed["channels"] if one["name"] == "talk")


async def test_a_mention_is_answered_in_its_thread(
    tmp_path: Path, elsewhere: Elsewhere, receiver: Receiver
) -> None:
    hold = Hold()
    script: list[str | Hold] = ["a text that is long enough", hold, " and **its** end"]
    async with House(tmp_path, cast("Any", elsewhere), [script], http=True) as house:
        receiver.adapter = house.plugin.adapter
        channel = await channel_of(elsewhere)
        root = (await elsewhere.ann("chat.postMessage", channel=channel, text=f"<@{AGENT}> hello"))["ts"]
        await elsewhere.says(["a text that is long enough"], channel, root)
        hold.release()
        await elsewhere.says(["a text that is long enough and *its* end"], channel, root)
        await elsewhere.ann("chat.postMessage", channel=channel, text="more", thread_ts=root)
        await elsewhere.says(["a text that is long enough and *its* end", "you said: more"], channel, root)
        assert len(house.model.requests) == 2
        assert set(receiver.statuses) == {200}
        receiver.adapter = None


async def test_what_was_posted_is_found_again_and_files_arrive(
    tmp_path: Path, elsewhere: Elsewhere, receiver: Receiver
) -> None:
    async with House(tmp_path, cast("Any", elsewhere), http=True) as house:
        adapter = house.plugin.adapter
        where = Address("slack", AGENT, await channel_of(elsewhere))
        content = bytes(range(256))
        (tmp_path / "a.bin").write_bytes(content)
        sent = await adapter.send(Outgoing("k1", where, "found **again**"))
        assert await adapter.find("k1", where) == sent
        assert await adapter.find("k2", where) is None
        file = Attachment("a.bin", size=len(content), ref=str(tmp_path / "a.bin"))
        await adapter.send(Outgoing("k3", where, "", attachments=(file,)))
        history = await elsewhere.ann("conversations.history", channel=where.channel)
        shared = [one for message in history["messages"] for one in message.get("files", ())]
        assert [one["name"] for one in shared] == ["a.bin"]
        got = Attachment("a.bin", ref=shared[0]["url_private_download"])
        assert b"".join([piece async for piece in adapter.fetch(got)]) == content
