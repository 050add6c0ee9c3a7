"""Edits: what becomes of a message that was edited while it waits (D9).

Text stays text in its place. What has become a command, or another command than it was, is taken out and
handled as if it came now (T5): it has an id of its own, made from the new text, so the same edit that
comes twice is one. Once a turn has taken the message nothing changes.
"""

from __future__ import annotations

import hashlib

from hermes_core.commands import Registry, parse
from hermes_core.inbox import EDITED, ENTERED
from hermes_core.messages import Entry, When
from hermes_core.router.lane import Lane
from hermes_core.router.services import Services

__all__ = ["edited"]


async def edited(services: Services, lane: Lane, id_: str, text: str, account: str) -> None:
    """The message with this id has this text now; `account` is what commands may be addressed to."""
    conversation = lane.conversation
    waiting = conversation.within(id_)
    if not waiting:
        return
    one = waiting[-1]
    command = parse(text, account)
    if command is None and (ENTERED not in one.id.removeprefix(id_) or one.when is not When.AT_REPLY):
        conversation.amend(one.id, text)
        return
    if command is not None and _says_the_same(services.plugins.commands, one, command[0]):
        conversation.amend(one.id, command[1].strip())
        return
    mark = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
    id_ = f"{id_}{EDITED}{mark}"
    if one.id.startswith(id_):
        return  # the same edit, a second time
    conversation.cancel([other.id for other in waiting])
    entry = Entry(
        id_,
        one.address,
        one.author,
        text,
        When.QUEUE if command is not None else conversation.mode,
        command=command is not None,
        group=one.group,
        attachments=one.attachments,
        arrived=services.wall(),
    )
    store = services.store
    admission = await services.durably(lambda: store.admit(entry), conversation.refused)
    if admission.fresh:
        lane.put(admission.entry, services.access.role(one.address.platform, one.author))


def _says_the_same(commands: Registry, one: Entry, name: str) -> bool:
    """Whether this is the command that put the entry in, and all that it takes is the text that waits."""
    found = commands.get(name)
    return (
        found is not None
        and found.name == one.by
        and len(found.parameters) == 1
        and found.parameters[0].rest
        and one.when is not When.AT_REPLY
    )
