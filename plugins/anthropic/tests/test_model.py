"""The model against a scripted server: real sockets, real HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from hermes_anthropic.model import AnthropicModel
from hermes_anthropic.thoughts import Thought, keep
from hermes_core.messages import Item, Said, SaidKind, Step, ToolCall, ToolResult
from hermes_core.models import Opaque, Request, Stop, Text, Usage
from hermes_core.testing.model_server import Answer, ModelServer, blocks, event, fails
from hermes_httpmodel.server_contract import QUIET, Fault, ServerContract, State, ask

Open = Callable[..., AnthropicModel]
HELLO = Said(SaidKind.MESSAGE, "hello")
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
OVERLOADED = event("error", error={"type": "overloaded_error", "message": "Overloaded"})


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


# "a" as an answer, cut where it matters: text has come and its block is open, it is closed, why it ended, the end.
*SAID, CLOSED, REASON, END = blocks(said("a"))
WELL = Answer(blocks(said("a")))


class TestServer(ServerContract):
    where = "/messages"
    said = tuple(SAID)
    done = (CLOSED, REASON)
    end = (END,)
    finished = (Usage(7, 3, 2), Stop("end"))
    whole = b'{"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}'
    page = "before /v1/messages"
    faults: ClassVar[Mapping[str, Fault]] = {
        "400": (fails(400), "refused the request", False, None),
        "too long": (fails(400, "prompt is too long: 9 tokens > 8 maximum"), "too long", False, None),
        "no credit": (fails(400, "Your credit balance is too low"), "no credit", False, None),
        "413": (fails(413), "too long", False, None),
        "529": (fails(529, code="overloaded_error"), "too much to do", True, None),
        "overloaded": (Answer((*SAID, OVERLOADED)), "too much to do", True, None),
    }
    states: ClassVar[Mapping[str, State]] = {
        "silent after a ping": (lambda: Answer((event("ping"), QUIET())), None),
        "in the middle of a thought": (lambda: Answer((*blocks(THOUGHT, stop=None)[:-2], QUIET())), None),
        "in the body of an error of its own": (lambda: Answer((b"{", QUIET()), 529), None),
    }


async def test_a_request_has_the_headers_and_the_address_of_the_api(server: ModelServer, open_: Open) -> None:
    server.script(Answer(blocks(said("Good day"))))
    assert await ask(open_(server.base_url)) == [Text("Good"), Text(" day"), Usage(7, 3, 2), Stop("end")]
    asked = server.requests[0]
    assert asked.path == "/v1/messages"
    assert asked.headers["x-api-key"] == "sk-secret"
    assert asked.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in asked.headers
    assert (asked.body["model"], asked.body["max_tokens"], asked.body["stream"]) == ("some-model", 8192, True)
    assert asked.body["messages"][-1]["content"][0]["text"] == "hello"


async def test_the_address_may_be_given_without_its_version(server: ModelServer, open_: Open) -> None:
    server.script(WELL)
    await ask(open_(server.base_url.removesuffix("/v1") + "/"))
    assert server.requests[0].path == "/v1/messages"


async def test_a_thought_goes_back_unchanged_with_the_results_of_its_calls(
    server: ModelServer, open_: Open
) -> None:
    use = {"type": "tool_use", "id": "x", "name": "look", "input": '{"at": "the sea"}'}
    server.script(Answer(blocks(THOUGHT, said("So."), use, stop="tool_use")), WELL)
    model = open_(server.base_url)
    call = ToolCall("x", "look", '{"at": "the sea"}')
    deltas = await ask(model)
    assert deltas[2:] == [call, Opaque(keep("some-model", [Thought(THOUGHT)])), Usage(7, 3, 2), Stop("tools")]
    opaque = next(delta.data for delta in deltas if isinstance(delta, Opaque))
    items: tuple[Item, ...] = (HELLO, Step("So.", (call,), (ToolResult("x", "blue"),), opaque))
    assert (await ask(model, Request("be kind", items)))[-1] == Stop("end")
    thought, text, used = server.requests[1].body["messages"][1]["content"]
    assert (thought, text, used["input"]) == (THOUGHT, said("So."), {"at": "the sea"})
    assert server.requests[1].body["messages"][2]["content"][0]["tool_use_id"] == "x"
