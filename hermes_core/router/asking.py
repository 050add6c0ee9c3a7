"""Asking: before a tool call that needs it runs, a person in its conversation is asked."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from hermes_core.errors import StoreError
from hermes_core.messages import Address, Author, Choice, Entry, Outgoing, When
from hermes_core.permission import shown
from hermes_core.router.permissions import Verdict
from hermes_core.router.services import Services
from hermes_core.tools import Tool

__all__ = ["ask"]

log = logging.getLogger("hermes.access")

LONGEST: Final = 3000  # characters that people can be asked to read
_NOT: Final = "It was not run. Do not try it again or by another way; say what you wanted it for."


async def ask(
    services: Services,
    address: Address,
    entries: Sequence[Entry],
    tool: Tool,
    arguments: Mapping[str, Any],
    refused: Callable[[StoreError], None],
    turn: int,
) -> str | None:
    """Wait for a yes to this call; None: it may run, else what the model reads instead of a result.

    `entries` are those of the turn: whose turn it is may answer. What the turn has said so far stands above the
    question. Cancelled, the question is withdrawn: a
    late answer is told so. The deadline of the tool does not run meanwhile.
    """
    asked = _text(tool, arguments)
    if asked is None:
        return None
    text = _visible(asked)
    settings, permissions = services.config.permissions, services.permissions
    said = [one for one in entries if one.when is not When.EVENT]
    people = frozenset(one.author.id for one in said or entries)  # of events alone: who started the jobs
    allowed = people if settings.by == "turn" else None
    if permissions.always(address, tool.name, text, allowed):
        return None
    adapter = services.adapters.get(address.platform)
    if adapter is None or adapter.features.unattended:
        return f"{tool.name} needs a person's permission, and nobody can be asked here. {_NOT}"
    if (
        services.config.secrets.hide(text) != text
    ):  # what is masked could be anything: nobody can say yes to it
        return (
            f"{tool.name} needs a person's permission, and its arguments hold a secret, which is shown to nobody. "
            "It was not run. Leave the secret out."
        )
    if len(text) > LONGEST:
        return (
            f"{tool.name} needs a person's permission, and {len(text)} characters are too many to read "
            f"({LONGEST} at most). It was not run. Make it shorter."
        )
    waiting = permissions.open(address, tool.name, text, allowed, tool.role, settings.expires)
    verdict = Verdict.ENDED
    try:
        outgoing = _question(address, waiting.permission.id, tool.name, text, settings.expires, said)
        outgoing = msgspec.structs.replace(outgoing, within=str(turn))
        await services.durably(lambda: services.store.post(outgoing), refused)
        services.outbox.put(outgoing)
        async with asyncio.timeout(settings.expires):
            verdict, author = await waiting.answer
    except TimeoutError:
        # somebody may have answered at the very instant, and was told that it counts
        late = waiting.answer.done() and not waiting.answer.cancelled()
        verdict, author = waiting.answer.result() if late else (Verdict.EXPIRED, Author(""))
    finally:
        permissions.close(waiting, verdict)
    log.info("%s of %s: %s (%s)", tool.name, address, verdict.value, author.id or "nobody")
    if verdict is Verdict.ALLOWED:
        return None
    if verdict is Verdict.DENIED:
        return f"{author.name or 'The user'} said no to {tool.name}. {_NOT}"
    return f"Nobody gave {tool.name} permission within {_words(settings.expires)}. {_NOT}"


def _text(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    assert tool.approval is not None
    try:
        text: object = tool.approval(arguments)
        if text is None or (isinstance(text, str) and text.strip()):
            return text
        raise TypeError(f"what people are shown is a text, not {text!r:.40}")
    except Exception as error:  # the edge to foreign code: what cannot be put in its words is shown as it is
        log.error("what %s would do cannot be shown in its own words", tool.name, exc_info=error)
        return shown(arguments)


def _visible(text: str) -> str:
    """Nothing can hide: what has no shape of its own, or turns the direction of writing, is spelled out."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else f"<U+{ord(one):04X}>" for one in text)


def _question(
    address: Address, id_: str, tool: str, text: str, expires: float, said: Sequence[Entry]
) -> Outgoing:
    fence = "```"
    while fence in text:
        fence += "`"
    return Outgoing(
        f"{address}#ask:{id_}:{secrets.token_hex(4)}",
        address,
        f"May I run this? ({tool})\n\n{fence}\n{text}\n{fence}\n\n"
        f"Type /approve {id_} or /deny {id_} within {_words(expires)}; /approve {id_} always lets exactly "
        "this run here without a question from now on. Where nothing else waits, yes or no is enough.",
        answers=said[-1].id if said else None,
        choices=(
            Choice("Approve", f"/approve {id_}"),
            Choice("Always", f"/approve {id_} always"),
            Choice("Deny", f"/deny {id_}"),
        ),
    )


def _words(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g} seconds"
    return f"{seconds / 60:g} minutes" if seconds < 7200 else f"{seconds / 3600:g} hours"
