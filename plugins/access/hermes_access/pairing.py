"""/pair: who is let in, from a chat (X1)."""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from hermes_core.commands import Command, Context, command
from hermes_core.config import Config
from hermes_core.errors import BadArguments, CommandError, StateError
from hermes_core.messages import Role
from hermes_core.people import People, WrongCode, is_person

__all__ = ["pair"]

_TYPE = "Type /pair list, /pair approve CODE [user|admin|owner], or /pair revoke PLATFORM:ID"


def pair(config: Config) -> Command:
    """The command, on the file of this start's data folder."""
    people = People(config.runtime.data_dir)

    @command("pair", role=Role.OWNER, form="list | approve CODE [ROLE] | revoke PLATFORM:ID")
    async def pair_(
        context: Context,
        what: Literal["list", "approve", "revoke"] = "list",
        who: str = "",
        role: Literal["user", "admin", "owner"] = "user",
    ) -> str:
        """Say who may talk to the agent: let in who was given a code, or put somebody out."""
        if what != "list" and not who:
            raise BadArguments(f"/pair {what}: whom?", _TYPE)
        try:
            if what == "approve":
                return await asyncio.to_thread(_approve, people, who, Role[role.upper()])
            if what == "revoke":
                return await asyncio.to_thread(_revoke, people, config, who)
            return await asyncio.to_thread(_listed, people)
        except WrongCode as error:
            raise CommandError(
                error.message, error.advice.replace("hermes pair list", "/pair list")
            ) from error
        except StateError as error:
            raise CommandError(error.message, error.advice) from error

    return pair_


def _approve(people: People, who: str, role: Role) -> str:
    person = people.let_in(who, role) if is_person(who) else people.approve(who, role)
    name = f" ({person.name})" if person.name else ""
    return f"{person.id}{name} is let in as {role.name.lower()}, from the next message on."


def _revoke(people: People, config: Config, who: str) -> str:
    if not is_person(who):
        raise BadArguments(f"{who[:60]!r} is no person.", _TYPE)
    if near := people.like(who):
        raise BadArguments(f"{who[:60]} is an address and no person.", f"Did you mean {near}?")
    if who in (*config.access.owners, *config.access.admins):
        raise CommandError(f"{who} is named in the config.", "Take it out there, and start again.")
    before = people.revoke(who)
    return f"{who} is put out." if before else f"{who} was not let in here, and will not be served."


def _listed(people: People) -> str:
    known, askers, locked = people.listing()
    rows = [
        f"- {one.id} {one.name}: {'put out' if one.role is Role.NOBODY else one.role.name.lower()}"
        for one in known
    ]
    rows += [f"- {one.id} {one.name}: waits, code good until {_clock(one.expires)}" for one in askers]
    if locked:
        rows.append(f"- Too many wrong codes: none is looked at until {_clock(locked)}.")
    return "\n".join(rows) or "Nobody was let in, and nobody waits."


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M", time.localtime(seconds))
