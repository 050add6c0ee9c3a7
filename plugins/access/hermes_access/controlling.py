"""/control: switch commands and tools off and on, rename them, say who may use them; here or everywhere."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable
from typing import Final, Literal

from hermes_core.commands import Command, Context, command
from hermes_core.config import Config
from hermes_core.errors import BadArguments, CommandError, HermesError
from hermes_core.messages import Role
from hermes_core.rules import EVERYWHERE, Rule, Rules

__all__ = ["control"]

What = Literal["list", "disable", "enable", "rename", "role", "reset"]
_ROLES: Final = ("user", "admin", "owner")
_TYPE: Final = (
    "Type /control list, /control disable|enable|reset NAME, /control rename NAME NEW, or /control role NAME "
    "user|admin|owner; NAME is /COMMAND or TOOL, and everywhere behind it means all conversations."
)


def control(config: Config) -> Command:
    """The command, on the file of this start's data folder."""
    rules = Rules(config.runtime.data_dir)

    @command(
        "control", role=Role.OWNER, form="list | disable|enable|reset NAME | rename NAME NEW | role NAME ROLE"
    )
    async def control_(context: Context, what: What = "list", *words: str) -> str:
        """Switch a command or tool off or on, rename it, or say who may use it, in this conversation."""
        place = str(context.address)
        if words and words[-1].lower() == "everywhere":
            place, words = EVERYWHERE, words[:-1]
        try:
            if what == "list":
                return await asyncio.to_thread(_listed, rules, context)
            if len(words) != (2 if what in ("rename", "role") else 1):
                raise BadArguments(f"/control {what}: that does not fit.", _TYPE)
            kind, name = _meant(rules, context, words[0])
            change = _change(rules, context, what, kind, words[1] if len(words) > 1 else "")
            said = await asyncio.to_thread(change, place, kind, name)
        except CommandError:
            raise
        except HermesError as error:
            raise CommandError(error.message, error.advice) from error
        shown = f"/{name}" if kind == "commands" else name
        return f"{shown} {'everywhere' if place == EVERYWHERE else 'here'}: {said}."

    return control_


def _change(
    rules: Rules, context: Context, what: str, kind: str, value: str
) -> Callable[[str, str, str], str]:
    """What is to be done with place, kind and name; gives what holds then."""
    if what == "reset":
        return lambda *rule: "as its plugin made it" if rules.reset(*rule) else "nothing was changed about it"
    if what == "rename":
        new = value.removeprefix("/")
        taken = (
            context.registry.get(new) is not None
            if kind == "commands"
            else new in context.conversation.tools()
        )
        if taken:
            raise CommandError(f"There is a {kind[:-1]} {value} already.", "Choose another name.")
        return lambda *rule: str(rules.change(*rule, name=new))
    if what == "role":
        role = value.lower()
        if role not in _ROLES:
            raise BadArguments(f"There is no role {value[:40]!r}.", "There are user, admin and owner.")
        return lambda *rule: str(rules.change(*rule, role=role))
    return lambda *rule: str(rules.change(*rule, enabled=what == "enable"))


def _meant(rules: Rules, context: Context, word: str) -> tuple[str, str]:
    """Kind and own name of what is called so here, or has a rule under that name."""
    kind = "commands" if word.startswith("/") else "tools"
    shown = word.removeprefix("/")
    if kind == "commands":
        shown = shown.lower()
        found = context.registry.get(shown)
        known = [one.name for one in context.registry.all()]
        shown = found.name if found is not None else shown
    else:
        known = list(context.conversation.tools())
    ruled = {name for _, one, name, _ in rules.listing(context.address) if one == kind}
    if shown in known:
        return kind, rules.origin(context.address, kind, shown)
    if shown in ruled:
        return kind, shown
    near = difflib.get_close_matches(shown, [*known, *ruled], 1)
    slash = "/" if kind == "commands" else ""
    other = "" if kind == "commands" or context.registry.get(shown) is None else f"The command is /{shown}."
    raise BadArguments(
        f"There is no {kind[:-1]} {slash}{shown[:40]} here.",
        other or (f"Did you mean {slash}{near[0]}?" if near else _TYPE),
    )


def _listed(rules: Rules, context: Context) -> str:
    rows = [_row(*one) for one in rules.listing(context.address)]
    tools = ", ".join(
        f"{name} ({role.name.lower()}s)" if role > Role.USER else name
        for name, role in sorted(context.conversation.tools().items())
    )
    head = "\n".join(rows) or "Nothing was changed here."
    return f"{head}\n\nTools here: {tools or 'none'}. Commands: /help"


def _row(place: str, kind: str, name: str, rule: Rule) -> str:
    shown = f"/{name}" if kind == "commands" else name
    return f"- {shown} {'everywhere' if place == EVERYWHERE else 'here'}: {rule}"
