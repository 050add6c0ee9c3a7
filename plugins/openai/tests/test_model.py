"""The model against a scripted server: real sockets, real HTTP."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import ClassVar

from hermes_core.config import ModelSettings
from hermes_core.file import NoFiles
from hermes_core.messages import Attachment, Said, SaidKind, ToolCall
from hermes_core.models import Request, Stop, Text, Usage
from hermes_core.testing.model_server import DONE, Answer, ModelServer, asks, chunk, says
from hermes_httpmodel.server_contract import Fault, ServerContract, ask
from hermes_openai.model import OpenAIModel, open_model

Open = Callable[..., OpenAIModel]


class TestServer(ServerContract):
    where = "/chat/completions"
    said = (chunk("a"),)
    done = (chunk(finish="stop"),)
    end = (DONE,)
    finished = (Stop("end"),)
    whole = b'{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}'
    page = "web page"
    faults: ClassVar[Mapping[str, Fault]] = {
        "error inside": (Answer((b'data: {"error": "boom"}\n\n',)), "reported an error", True, None)
    }


async def test_text_usage_and_stop_come_in_order(server: ModelServer, open_: Open) -> None:
    assert await ask(open_(server.base_url)) == [Text("All "), Text("well."), Usage(7, 3, 2), Stop("end")]
    asked = server.requests[0]
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer sk-secret"
    assert asked.body["model"] == "some-model"
    assert asked.body["stream"] is True
    assert asked.body["messages"][-1] == {"role": "user", "content": "hello"}


async def test_parallel_tool_calls_come_whole(server: ModelServer, open_: Open) -> None:
    server.script(asks(("look", '{"at": "the sea"}'), ("wait", "{}"), text="So."))
    calls = [ToolCall("id-0", "look", '{"at": "the sea"}'), ToolCall("id-1", "wait", "{}")]
    assert await ask(open_(server.base_url)) == [Text("So."), *calls, Usage(7, 3, 2), Stop("tools")]


# ---- the kit's own server


async def test_the_server_of_the_kit_runs_as_a_program_and_answers_at_once(open_: Open) -> None:
    program = [sys.executable, "-m", "hermes_core.testing.model_server", "--port", "0", "--text", "Here."]
    process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(await asyncio.wait_for(process.stdout.readline(), 20))
        deltas = await ask(open_(f"http://127.0.0.1:{port}/v1"))
        assert deltas == [Text("Here."), Usage(7, 3, 2), Stop("end")]
        assert says("Here.") == says("Here.")
    finally:
        process.terminate()
        await process.wait()


async def test_a_picture_is_sent_where_images_is_yes_and_not_to_other_servers_by_default(
    server: ModelServer,
) -> None:
    png = Attachment("a.png", "image/png", 3, "1")

    class Kept(NoFiles):
        async def read(self, attachment: Attachment) -> bytes:
            return b"ABC"

    request = Request("", (Said(SaidKind.MESSAGE, "look", attachments=(png,)),), (), Kept())
    shown = []
    for images in ("yes", "auto", "no"):
        server.script(says("A letter."))
        model = open_model(ModelSettings("openai", "m", server.base_url, images=images))
        _ = [delta async for delta in model.stream(request)]
        await model.aclose()
        shown.append(isinstance(server.requests[-1].body["messages"][0]["content"], list))
    assert shown == [True, False, False]
