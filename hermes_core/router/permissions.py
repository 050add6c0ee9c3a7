"""Permissions: the tool calls that wait for a yes, and what was allowed for good in a conversation.

Nothing of it is stored. A call that waits belongs to a running turn and ends with it; after a crash the turn
goes on as D4 says, and a call that is made again is asked about again.
"""

from __future__ import annotations

import asyncio
import enum
import secrets
from collections.abc import Mapping
from typing import Final

import msgspec

from hermes_core.errors import CommandError, NotAllowed
from hermes_core.messages import Address, Author, Role
from hermes_core.permission import Permission
from hermes_core.recent import Recent

__all__ = ["Permissions", "Verdict", "Waiting"]

ALPHABET: Final = "abcdefghjkmnpqrstuvwxyz23456789"
READ: Final = 1.0  # seconds: who answers sooner has not read the question
ENDED: Final = 200  # how many are remembered after their end, for who answers late
ALWAYS: Final = 1000  # how many conversations keep what was allowed for good


class Verdict(enum.StrEnum):
    """How the waiting of a call ended."""

    ALLOWED = "allowed"
    DENIED = "denied"
    EXPIRED = "expired"
    ENDED = "ended"  # its turn


_WORDS: Final = {"yes": True, "y": True, "no": False, "n": False}

_WHY: Final = {
    Verdict.ALLOWED: "it was approved already",
    Verdict.DENIED: "it was denied already",
    Verdict.EXPIRED: "nobody answered in time",
    Verdict.ENDED: "the work that asked was stopped",
}


class Waiting(msgspec.Struct, frozen=True, eq=False):
    """A call that waits. `people` may answer, None: admins; each needs `role`. `answer` comes with who gave it.

    `since`: of the loop's time.
    """

    permission: Permission
    address: Address
    people: frozenset[str] | None
    role: Role
    answer: asyncio.Future[tuple[Verdict, Author]]
    since: float

    def is_of(self, author: Author, role: Role, *, allow: bool) -> bool:
        """Whether this person may say so."""
        own = author.id in self.people if self.people is not None else role >= Role.ADMIN
        return role >= self.role and (own or (not allow and role >= Role.ADMIN))


class Permissions:
    """All of one run. Only in the event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self.asked: Mapping[str, Waiting] = self._waiting  # what waits anywhere; each message looks here
        self._ended = Recent[tuple[Address, str], Verdict](ENDED)
        self._always = Recent[Address, set[tuple[str, str, str]]](ALWAYS)

    def open(
        self,
        address: Address,
        tool: str,
        text: str,
        people: frozenset[str] | None,
        role: Role,
        seconds: float,
    ) -> Waiting:
        """Let a call wait; `close` ends that."""
        loop = asyncio.get_running_loop()
        while (id_ := "".join(secrets.choice(ALPHABET) for _ in range(4))) in self._waiting:
            pass
        now = loop.time()
        permission = Permission(id_, tool, text, now + seconds)
        waiting = Waiting(permission, address, people, role, loop.create_future(), now)
        self._waiting[id_] = waiting
        return waiting

    def close(self, waiting: Waiting, verdict: Verdict) -> None:
        """It waits no more."""
        id_ = waiting.permission.id
        if self._waiting.pop(id_, None) is not None:
            self._ended[waiting.address, id_] = verdict

    def waiting(self, address: Address) -> list[Permission]:
        """What waits in this conversation, the oldest first."""
        return [one.permission for one in self._waiting.values() if one.address == address]

    def said(self, address: Address, text: str, author: Author, role: Role) -> bool | None:
        """What a lone “yes” or “no” of this person says to what waits here; None: it is no answer.

        It is none where nothing waits that this person may answer so, nor before anybody could have read the question.
        """
        allow = _WORDS.get(text.strip().rstrip(".!").casefold())
        if allow is None:
            return None
        read = asyncio.get_running_loop().time() - READ
        here = [one for one in self._waiting.values() if one.address == address and not one.answer.done()]
        own = any(one.is_of(author, role, allow=allow) for one in here)
        return allow if own and all(one.since <= read for one in here) else None

    def decide(
        self, address: Address, id_: str, author: Author, role: Role, *, allow: bool, always: bool = False
    ) -> Permission:
        """Answer for this person; `CommandError` where it waits no more, `NotAllowed` for who may not."""
        waiting = self._waiting.get(id_)
        # what waits elsewhere is nobody's business here; what is cancelled is about to be closed
        if waiting is None or waiting.address != address or waiting.answer.done():
            raise CommandError(*self._gone(address, id_))
        if not waiting.is_of(author, role, allow=allow):
            raise NotAllowed(
                f"{waiting.permission.id} is not yours to answer.",
                "Only an admin may." if waiting.people is None else "Only the one may for whom it would run.",
            )
        self.close(waiting, Verdict.ALLOWED if allow else Verdict.DENIED)
        waiting.answer.set_result((Verdict.ALLOWED if allow else Verdict.DENIED, author))
        if allow and always:
            kept = self._always[address] = self._always.get(address, set())
            kept.add((waiting.permission.tool, waiting.permission.text, author.id))
        return waiting.permission

    def always(self, address: Address, tool: str, text: str, people: frozenset[str] | None) -> bool:
        """Whether this very call was allowed here for good, by all of these people; None: by any admin."""
        kept = self._always.get(address)
        if not kept:
            return False
        by = {author for one, what, author in kept if (one, what) == (tool, text)}
        return bool(by) if people is None else bool(people) and people <= by

    def forget(self, address: Address) -> None:
        """A new conversation begins here: nothing is allowed for good any more."""
        self._always.pop(address, None)

    def _gone(self, address: Address, id_: str) -> tuple[str, str]:
        verdict = self._ended.get((address, id_))
        if verdict is None:
            return f"Nothing waits for an answer under {id_[:20]!r} here.", ""
        return f"{id_} is no longer waiting: {_WHY[verdict]}.", ""
