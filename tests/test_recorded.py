"""Recordings: what a platform sent comes back as it was, without secrets, and in its time (P5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_core.config import Secrets
from hermes_core.testing.recorded import Recorder, payloads, replay
from hermes_core.testing.virtual import run


def test_what_is_recorded_comes_back_in_order_and_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    sent = [{"id": 1, "text": "héllo\n💧", "more": [None, True, 1.5, {"a": []}]}, {"id": 2}, "plain"]
    recorder = Recorder(file)
    for payload in sent:
        recorder.note(payload)
    assert list(payloads(file)) == sent
    assert len(file.read_text(encoding="utf-8").splitlines()) == 3


def test_x2_no_secret_and_no_name_that_is_to_be_left_out_is_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    secrets = Secrets({"BOT": "hunter2-and-more"})
    secrets.read("adapters.x.token_env", "BOT")
    recorder = Recorder(file, secrets, {"Ada Lovelace": "Ann"})
    recorder.note(
        {
            "token": "short",
            "nested": [{"password": "p", "url": "https://x.invalid/hunter2-and-more/y"}],
            "text": "Ada Lovelace pasted xoxb-12345678901-abcdefghij",
            "token_count": 3,
            "has_token": True,
        }
    )
    text = file.read_text()
    for secret in ("short", '"p"', "hunter2", "Lovelace", "xoxb-1"):
        assert secret not in text
    (kept,) = payloads(file)
    assert kept["text"] == "Ann pasted ***"
    assert kept["has_token"] is True


def test_a_replay_keeps_the_pauses(tmp_path: Path) -> None:
    times = iter((10.0, 10.5, 130.5))
    recorder = Recorder(tmp_path / "talk.jsonl", clock=lambda: next(times))
    for n in range(3):
        recorder.note(n)

    async def story() -> list[tuple[float, Any]]:
        loop = asyncio.get_running_loop()
        return [(loop.time(), payload) async for payload in replay(tmp_path / "talk.jsonl")]

    assert run(story()) == [(0.0, 0), (0.5, 1), (120.5, 2)]


@pytest.mark.parametrize("line", ["{", "[]", '{"after": 0}', '{"after": "x", "payload": 1}'])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text('{"after": 0, "payload": 1}\n' + line + "\n")
    with pytest.raises(ValueError, match="line 2: this is no recorded payload"):
        list(payloads(file))


def test_the_fixture_reads_what_lies_beside_the_test(
    recorded: Callable[[str], Iterator[Any]],
) -> None:
    assert [one["text"] for one in recorded("example.jsonl")] == ["hello", "and again"]
