"""X2, case 52: tokens are planted wherever a run can come upon them, and every output of real runs is searched."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import httpx

from hermes_core.commands import Command, Context, command
from hermes_core.errors import ModelError
from hermes_core.hookspecs import hookimpl
from hermes_core.testing.bed import Bed
from hermes_core.testing.model_server import ModelServer, asks, fails, says
from hermes_core.testing.virtual import run

MODEL, CALLBACK, HTTP = (
    "model-key-7f3a9c2e51",
    "whsec_UGxhbnRlZC1zZWNyZXQtMDEyMzQ1Njc4OQ==",
    "http-token-b81d04e6",
)
PLATFORM, FOREIGN = "platform-token-55aa77", "ghp_" + "Zz9Yy8Xx7W" * 4
PLANTED = (MODEL, CALLBACK, HTTP, PLATFORM, FOREIGN)
PATIENCE = 30.0

CONFIG = """
[runtime]
data_dir = "data"

[model]
provider = "openai"
name = "any"
base_url = "{url}"
api_key_env = "PLANTED_MODEL_KEY"

[http]
port = 0
token_env = "PLANTED_HTTP_TOKEN"

[jobs.callbacks]
secret_env = "PLANTED_CALLBACK_SECRET"

[adapters.telegram]
enabled = false
token_env = "PLANTED_PLATFORM_TOKEN"

[plugins.shell]
enabled = true
approval = "never"
"""


def environment(folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES", "XDG_"))}
    (folder / "callback").write_text(CALLBACK)
    return own | {
        "HOME": str(folder),
        "PLANTED_MODEL_KEY": MODEL,
        "PLANTED_HTTP_TOKEN": HTTP,
        "PLANTED_CALLBACK_SECRET_FILE": str(folder / "callback"),
        "PLANTED_PLATFORM_TOKEN": PLATFORM,
    }


async def hermes(folder: Path, *arguments: str, typed: str = "", environ: dict[str, str]) -> str:
    """Run it to its end; gives all that it wrote."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hermes_core", *arguments),
        cwd=folder,
        env=environ,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(typed.encode()), PATIENCE)
    return said.decode()


def found(text: str) -> list[str]:
    """Which of the planted tokens stand there."""
    return [token for token in PLANTED if token in text]


def kept(folder: Path) -> str:
    """All that the store holds."""
    with sqlite3.connect(next((folder / "data").glob("*.db"))) as store:
        return "\n".join(store.iterdump())


def house(folder: Path, server: ModelServer) -> None:
    (folder / "hermes.toml").write_text(CONFIG.format(url=server.base_url))
    (folder / "found.txt").write_text("\n".join(PLANTED) + "\n")


async def test_x2_case_52_planted_tokens_stand_in_no_output_of_a_conversation(tmp_path: Path) -> None:
    environ = environment(tmp_path)
    async with ModelServer() as server:
        house(tmp_path, server)
        start: dict[str, Any] = {"command": "cat found.txt", "idempotency_key": "k"}
        server.script(
            asks(("run_command", json.dumps({"command": "cat found.txt; cat missing-$(head -1 found.txt)"}))),
            # a model that tells what it should not know, in pieces that cut each token in two
            says(*(piece for token in PLANTED for piece in (f"It is {token[:9]}", f"{token[9:]} indeed. "))),
            asks(("start_command", json.dumps(start))),
            says("started"),
            says("The job has ended."),
            fails(401, f"Incorrect API key provided: {MODEL}. Also {FOREIGN}"),
            says("late"),
        )
        said = await hermes(
            tmp_path,
            "chat",
            "--log-level",
            "debug",
            "--debug",
            typed="look\ngo\nand\nmore\n",
            environ=environ,
        )
        assert "It is ***" in said
        assert server.requests, "the model was asked"
        sent = "\n".join(json.dumps(one.body) for one in server.requests)
    log = (tmp_path / "data/hermes.log").read_text()
    assert log
    assert found(said) == []
    assert found(log) == []
    assert found(kept(tmp_path)) == []
    assert found(sent) == [], "not even the model is told"


async def test_x2_case_52_planted_tokens_stand_in_no_output_of_a_server(tmp_path: Path) -> None:
    environ = environment(tmp_path)
    async with ModelServer() as server:
        house(tmp_path, server)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hermes_core", "run", "--log-level", "debug", "--debug"),
            cwd=tmp_path,
            env=environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        lines: list[str] = []
        async with asyncio.timeout(PATIENCE):
            while "ready: " not in (line := (await process.stderr.readline()).decode()):
                assert line, lines
                lines.append(line)
        lines.append(line)
        url = line.rpartition("web ")[2].strip()
        answers = await _talk(url)
        process.terminate()
        rest, _ = await process.stderr.read(), await asyncio.wait_for(process.wait(), PATIENCE)
    assert "***" in answers
    assert found(answers) == []
    assert found("".join(lines) + rest.decode()) == []
    assert found(kept(tmp_path)) == []


async def _talk(url: str) -> str:
    """What a server answers to right and wrong requests about a job that prints the tokens."""
    texts = []
    async with httpx.AsyncClient(base_url=url, trust_env=False) as wrong:
        for path in ("/health", "/openapi.json", "/jobs/x", f"/jobs/{FOREIGN}", "/metrics", "/nothing"):
            answer = await wrong.get(path, headers={"Authorization": f"Bearer {PLATFORM}"})
            texts.append(answer.text + str(answer.headers))
    async with httpx.AsyncClient(
        base_url=url, trust_env=False, headers={"Authorization": f"Bearer {HTTP}"}
    ) as client:
        body = {"tool": "command", "arguments": {"command": "cat found.txt; exit 3"}}
        answer = await client.post("/jobs", json=body, headers={"Idempotency-Key": "k"})
        assert answer.status_code == 202, answer.text
        id_ = answer.json()["job_id"]
        async with asyncio.timeout(PATIENCE):
            while (facts := await client.get(f"/jobs/{id_}")).json()["status"] != "failed":
                await asyncio.sleep(0.02)
        texts.append(facts.text)
        texts.append((await client.get(f"/jobs/{id_}/result?cursor=")).text)
        for wrong_body in ({"tool": MODEL}, {"tool": "command", "arguments": {"command": 3, MODEL: 1}}):
            answer = await client.post("/jobs", json=wrong_body, headers={"Idempotency-Key": "other"})
            assert answer.status_code >= 400
            texts.append(answer.text)
    return "\n".join(texts)


async def test_x2_planted_tokens_stand_in_no_output_of_the_command_line(tmp_path: Path) -> None:
    environ = environment(tmp_path)
    async with ModelServer() as server:
        house(tmp_path, server)
        said = [
            await hermes(tmp_path, *words, environ=environ)
            for words in (
                ("config", "show"),
                ("config", "show", "--json", "--set", f"model.name={MODEL}"),
                ("plugins", "list", "--debug"),
                ("jobs", "list", "--json"),
                ("jobs", "show", MODEL),
                ("pair", "approve", PLATFORM, "--debug"),
                ("run", "--set", f"http.host={PLATFORM}", "--debug"),
                ("run", "--set", f"model.provider={MODEL}", "--debug"),
                ("run", "--set", f"{HTTP}.x=1"),
            )
        ]
    assert all(said)
    assert [found(one) for one in said] == [[]] * len(said)


def test_x2_a_token_is_hidden_while_it_is_written_in_the_reply_in_commands_and_in_notices(
    tmp_path: Path,
) -> None:
    class Talkative:
        @hookimpl
        def hermes_commands(self) -> list[Command]:
            @command("tell")
            async def tell(context: Context) -> str:
                """Tell."""
                return f"It is {FOREIGN}."

            return [tell]

    async def story() -> None:
        script = ["It is ghp_", *FOREIGN[4:], " indeed."]
        fault = ModelError(f"I am told {FOREIGN}.")
        async with Bed(tmp_path, [script, [fault]], plugins=[Talkative()]) as bed:
            assert await bed.say("what is it?") == "It is *** indeed."
            assert bed.platform.drafts() == "It is *** indeed."
            assert await bed.say("/tell") == "It is ***."
            bed.runtime.services.tell_directly(bed.platform.address("2"), f"disk {FOREIGN}")
            await asyncio.sleep(1)
            assert bed.platform.texts("2") == ["disk ***"]
            assert await bed.say("and now?", "3") == "I am told ***."
            (turn,) = await bed.store.history(bed.platform.address())
            assert FOREIGN not in str(turn)
            stored = [
                await bed.store.text_of(one.address, f"p{number}")
                for number, one in enumerate(bed.platform.sent, 1)
            ]
            assert stored == ["It is *** indeed.", "It is ***.", None, "I am told ***."]

    run(story())
