"""What the model server of the crash tests answers, and what it objects to in what it is asked.

A text of a person is a word and a name, such as `say a-17`. `run` and `mark` want the tool of that
kind for the name, and each call gets a name of its own (`a-17.1`); the final text of a turn names
everything that its prompt named. Each request is looked at as a provider would: every call has one
result, roles are in order, and nothing stands there twice.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from hermes_core.testing.model_server import DONE, Answer, Part, chunk

__all__ = ["CALL", "NAME", "RESTARTED", "Mind", "names"]

NAME = re.compile(r"\b[a-d]-\d+\b")
RESTARTED = "Interrupted by a restart"
CALL = re.compile(r"\b[a-d]-\d+\.\d+\b")
_WANTED = re.compile(r"\b(run|mark) ([a-d]-\d+)\b")
_LONGEST = 0.03  # seconds that an answer is held back at one point


def names(texts: Iterable[str]) -> list[str]:
    """The names in these texts, in order."""
    return [name for text in texts for name in NAME.findall(text)]


class Mind:
    """Answers requests. The command of each `run` adds one line to the file `runs` in its folder."""

    def __init__(self, chance: random.Random, noticed: Callable[[str, str], None]) -> None:
        self.objections: list[str] = []
        self.restarted: set[str] = set()
        self.last: dict[str, list[dict[str, Any]]] = {}
        self.requests = 0
        self._chance = chance
        self._noticed = noticed
        self._asked: Counter[str] = Counter()
        self._told: dict[str, str] = {}

    def answer(self, body: dict[str, Any]) -> Answer:
        """The answer to one request."""
        self.requests += 1
        messages: list[dict[str, Any]] = body["messages"]
        self._look(messages)
        self._noticed("model", "")
        prompt = _prompt(messages)
        asked = [one["content"] for one in prompt if one["role"] == "user"]
        calls = [call for one in prompt for call in one.get("tool_calls", ())]
        told = {call["id"]: call["function"]["arguments"] for call in calls}
        for one in prompt:
            if one["role"] == "tool" and one["content"].startswith(RESTARTED):
                self.restarted.update(CALL.findall(told[one["tool_call_id"]]))
        called = set(names(told.values()))
        wanted = [one for one in _WANTED.findall("\n".join(asked)) if one[1] not in called]
        return self._calls(wanted) if wanted else self._says("done: " + " ".join(names(asked)))

    def _look(self, messages: list[dict[str, Any]]) -> None:
        talk = [one for one in messages if one["role"] != "system"]
        said = names(one["content"] for one in talk if one["role"] == "user")
        if said:
            self.last[said[0].partition("-")[0]] = talk
        if len(set(said)) != len(said):
            self.objections.append(f"stands twice in a request: {sorted(said)}")
        if talk[0]["role"] != "user" or (talk[-1]["role"] == "assistant"):
            self.objections.append(f"begins with {talk[0]['role']}, ends with {talk[-1]['role']}")
        open_: list[str] = []
        seen: set[str] = set()
        calls: dict[str, str] = {}
        for one in talk:
            if one["role"] == "tool":
                if not open_ or open_.pop(0) != one["tool_call_id"]:
                    self.objections.append(f"a result without its call: {one}")
                elif self._told.setdefault(calls[one["tool_call_id"]], one["content"]) != one["content"]:
                    self.objections.append(f"another result than before: {one}")
                continue
            if open_:
                self.objections.append(f"calls without a result: {open_}")
            calls.update({call["id"]: call["function"]["arguments"] for call in one.get("tool_calls", ())})
            open_ = [call["id"] for call in one.get("tool_calls", ())]
            if seen & set(open_):
                self.objections.append(f"call ids used twice: {open_}")
            seen |= set(open_)
        if open_:
            self.objections.append(f"calls without a result at the end: {open_}")

    def _calls(self, wanted: list[tuple[str, str]]) -> Answer:
        calls = []
        for index, (kind, name) in enumerate(wanted):
            self._asked[name] += 1
            call = f"{name}.{self._asked[name]}"
            pause = self._chance.choice(["", "; sleep 0.02", "; sleep 0.1 & sleep 0.03"])
            command = {"command": f"echo {call} >> runs{pause}"}
            function = {"name": "run_command" if kind == "run" else "mark"}
            function["arguments"] = json.dumps(command if kind == "run" else {"call": call})
            calls.append({"index": index, "id": f"call-{index}", "type": "function", "function": function})
        return self._answer((chunk(calls=calls),), "tool_calls")

    def _says(self, text: str) -> Answer:
        half = len(text) // 2
        return self._answer((chunk(text[:half]), chunk(text[half:])), "stop")

    def _answer(self, chunks: Iterable[bytes], finish: str) -> Answer:
        parts: list[Part] = []
        for one in chunks:
            if self._chance.random() < 0.3:
                parts.append(self._soon())
            parts.append(one)
        parts += [chunk(finish=finish), DONE]
        return Answer(parts, before=self._soon() if self._chance.random() < 0.3 else None)

    def _soon(self) -> asyncio.Event:
        event = asyncio.Event()
        asyncio.get_running_loop().call_later(self._chance.uniform(0, _LONGEST), event.set)
        return event


def _prompt(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What came since the last final answer."""
    for index in range(len(messages) - 1, -1, -1):
        one = messages[index]
        if one["role"] == "assistant" and not one.get("tool_calls"):
            return messages[index + 1 :]
    return [one for one in messages if one["role"] != "system"]
