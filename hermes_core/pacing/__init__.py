"""When to send: one budget per destination, texts shown while they are written, and typing (R3).

Pure logic; whoever uses it brings the clock. For an adapter that shows drafts:

    budget = Budget(lambda chat: (Rate(1.0, burst=3),), (Rate(30.0, burst=30),), loop.time)

    def cut(text, final):                       # plain while it is written, formatted at the end
        return split(parse(text), TELEGRAM, 4096) if final else split(plain(text), PLAIN, 4096)

    async def perform(action):                  # one call to the platform
        match action:
            case Post(): return await client.send(chat, action.content)
            case Edit(): return await client.edit(chat, action.id, action.content)
            case Delete(): return await client.delete(chat, action.id)

    live = Live(Stream(cut), perform, budget, chat, loop.time)
    live.tell(Delta("Hel"))                     # from Adapter.show(Drafted)
    group.create_task(live.run())               # in the adapter's own task group
    ids = await live.finish(outgoing.text)      # from Adapter.send: the draft becomes this message
    live.tell(Stopped("_(interrupted)_"))       # from Adapter.show(Broken)

Without drafts `finish` alone does the same for one message: split, paced, in order, all ids known.
"""

from __future__ import annotations

from hermes_core.pacing.budget import Budget, Rate, Want
from hermes_core.pacing.live import Live
from hermes_core.pacing.stream import (
    Action,
    Cut,
    Delete,
    Delta,
    Done,
    Edit,
    Event,
    Failed,
    Finished,
    Post,
    Refused,
    Slot,
    Stopped,
    Stream,
    Tempo,
    Tick,
)
from hermes_core.pacing.typing import Typing

__all__ = [
    "Action",
    "Budget",
    "Cut",
    "Delete",
    "Delta",
    "Done",
    "Edit",
    "Event",
    "Failed",
    "Finished",
    "Live",
    "Post",
    "Rate",
    "Refused",
    "Slot",
    "Stopped",
    "Stream",
    "Tempo",
    "Tick",
    "Typing",
    "Want",
]
