"""A paste that the platform split, and that comes while a turn runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes_core.adapter import Broken
from hermes_core.messages import Said
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run


@pytest.mark.parametrize("apart", [0.0, 0.3])
def test_t6_the_parts_of_a_paste_that_interrupts_are_answered_together_whenever_they_come(
    tmp_path: Path, apart: float
) -> None:
    """The first part waits for no other (E1, I8, T4); a turn that has shown nothing yields to the next one silently."""

    async def story() -> None:
        first, *thinking = Hold(), Hold(), Hold()
        async with Bed(tmp_path, [["x", first], [thinking[0], "a"], [thinking[1], "b"], "all of it"]) as b:
            await b.platform.say("work")
            await first.reached.wait()
            for text in ("part 0", "part 1"):
                await b.platform.say(text, partial=True)
                await asyncio.sleep(apart)
            await b.platform.say("the end")
            for hold in thinking:
                hold.release()
            await b.platform.settled()
            said = [one.text for one in b.model.requests[-1].items if isinstance(one, Said)]
            assert "\n".join(said).endswith("part 0\npart 1\nthe end")
            assert len(b.platform.texts()) == 1, "one reply for all of it"
            broken = [one for _, one in b.platform.shown if isinstance(one, Broken)]
            assert [one.turn for one in broken] == [1]

    run(story())
