"""Whatever turns say and whatever the platform does: each text stands there once, in order, whole or with its mark."""

from __future__ import annotations

import asyncio
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_core.adapter import Broken
from hermes_core.testing.virtual import run

from .wall import HERE, MARK, House, Wall

FAULTS: Final = st.sampled_from(["ok", "ok", "refused", "parked", "before", "after", "gone", "fault"])
WORDS: Final = st.text("ab *", min_size=1, max_size=30).filter(
    lambda text: bool(text.replace("*", "").strip())
)
PAUSES: Final = st.sampled_from([0.0, 0.05, 0.3, 3.0])


class Turn:
    """What one turn says, and how it ends: with its reply, with nothing more, or broken."""

    def __init__(self, number: int, texts: list[tuple[list[str], bool]], end: str) -> None:
        self.number = number
        self.texts = texts  # the deltas of each text, and whether a tool is called at once behind it
        self.end = end

    def whole(self) -> list[str]:
        """What stands there when nothing broke off."""
        said = [f"{self.number}{n}{''.join(deltas)}" for n, (deltas, _) in enumerate(self.texts)]
        if self.end == "reply":
            said[-1] += "."
        return said


def turns() -> st.SearchStrategy[list[tuple[list[tuple[list[str], bool]], str]]]:
    """Some turns in a row."""
    text = st.tuples(st.lists(WORDS, min_size=1, max_size=3), st.booleans())
    ends = st.sampled_from(["reply", "reply", "nothing", "broken"])
    return st.lists(st.tuples(st.lists(text, min_size=1, max_size=3), ends), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(
    turns(),
    st.lists(FAULTS, max_size=12),
    st.lists(PAUSES, min_size=1, max_size=20),
    st.lists(st.integers(0, 30), max_size=3),
)
def test_r3_d5_every_text_ends_whole_or_with_its_mark_in_order_and_once(
    said: list[tuple[list[tuple[list[str], bool]], str]],
    faults: list[str],
    pauses: list[float],
    cuts: list[int],
) -> None:
    wall = Wall(faults)
    run(_talk(wall, [Turn(n + 1, *one) for n, one in enumerate(said)], pauses, cuts))
    shown = [one.replace("*", "") for one in wall.texts()]
    expected = [
        (turn, text.replace("*", ""), number == len(turn.texts) - 1)
        for turn in (Turn(n + 1, *one) for n, one in enumerate(said))
        for number, text in enumerate(turn.whole())
    ]
    for turn, text, last in expected:
        if shown and shown[0] == _shown(text):
            shown.pop(0)
        elif turn.end == "broken" and last:  # it was closed, or nobody saw anything of it
            if shown and shown[0].endswith(_shown(MARK)) and shown[0].startswith(text[:2]):
                shown.pop(0)
        else:
            raise AssertionError((text, shown, wall.calls))
    assert shown == []


def _shown(text: str) -> str:
    """Blank messages are left out."""
    parts = [text[at : at + 20] for at in range(0, len(text), 20)]
    return "".join(one for one in parts if one.strip())


async def _talk(wall: Wall, turns: list[Turn], pauses: list[float], cuts: list[int]) -> None:
    """The turns, with pauses between what they say; the connection is made anew at the steps `cuts`."""
    house = House(wall)
    step = 0
    reconnect = asyncio.Event()
    over = False

    async def connect() -> None:
        while not over:
            async with house.connected():
                await reconnect.wait()
                reconnect.clear()

    connection = asyncio.create_task(connect())

    async def pause() -> None:
        nonlocal step
        await asyncio.sleep(pauses[step % len(pauses)])
        if step in cuts:
            reconnect.set()
        step += 1

    for turn in turns:
        house.does("thinking")
        await pause()
        for part, (deltas, tool) in enumerate(turn.texts):
            for n, delta in enumerate(deltas):
                house.says(turn.number, part, f"{turn.number}{part}{delta}" if n == 0 else delta)
                await pause()
            if tool or part < len(turn.texts) - 1:
                house.does("tool")
                await pause()
        await _end(house, turn)
        house.does("idle")
    await asyncio.sleep(3600.0)
    over = True
    reconnect.set()
    await connection


async def _end(house: House, turn: Turn) -> None:
    if turn.end == "broken":
        house.writing.show(HERE, Broken(turn.number, "interrupted"))
    elif turn.end == "reply":
        await house.reply(turn.number, turn.whole()[-1])
