"""Review of commands by typing them: odd arguments, made from what each handler takes, in a runtime in memory.

Zero, negative, huge, empty, long, several lines, an emoji: whatever the signature lets through. Faulty is a
handler that raises anything but a refusal, or answers with a text in which nothing stands. Handlers really
run here, so this is for the tests of a plugin's own author, who may leave commands out.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec

from hermes_core.commands import Command
from hermes_core.commands.parameters import Parameter
from hermes_core.commands.registry import Registry
from hermes_core.config import Config
from hermes_core.errors import BadArguments, CommandError, JobError
from hermes_core.plugins.finding import made
from hermes_core.testing.kit import Hermes
from hermes_core.testing.review import Finding, Subject

__all__ = ["odd", "tried"]

_NUMBERS: Final = ("1", "0", "-1", "2", str(10**20))
_TEXTS: Final = ("x", "🙂", "-3", '""', "%s{}", "ü" * 3000)


def odd(command: Command) -> Iterator[str]:
    """What to type behind the name: each argument once in every odd way, with ordinary ones beside it."""
    choices = [_words(one) for one in command.parameters]
    typed = {" ".join(one[0] for one in choices): None, "": None}
    for index, words in enumerate(choices):
        for word in words:
            row = [one[0] for one in choices]
            row[index] = word
            typed[" ".join(row)] = None
            typed[" ".join([*row[:index], word])] = None  # where the others may be left out
    for number in range(max(map(len, choices), default=0)):
        typed[" ".join(one[number % len(one)] for one in choices)] = None
    for one in typed:
        try:
            command.bind(one)
        except BadArguments:
            continue  # the signature refuses it already
        except Exception:  # noqa: BLE001, S112 - the check "commands" tells of this one
            continue
        yield one


def _words(parameter: Parameter) -> tuple[str, ...]:
    kind = parameter.kind
    if parameter.rest:
        return (*_TEXTS, "one\ntwo")
    if kind is bool:
        return ("yes", "no")
    if typing.get_origin(kind) is typing.Literal:
        return tuple(map(str, typing.get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return tuple(str(one.value) for one in kind)
    if kind is float:
        return (*_NUMBERS, "0.5", "nan", "inf")
    return _NUMBERS if kind is int else (*_TEXTS, "0 -1" if parameter.many else "0")


def tried(hermes: Hermes, subject: Subject, config: Config, untried: Collection[str] = ()) -> list[Finding]:
    """Type every command of the plugin, but for `untried`; gives one finding for each that is faulty.

    `hermes` must not have been started. It is closed afterwards.
    """
    if subject.problem:
        return []  # it is told by the check "loads"
    found: dict[str, str] = {}

    async def story() -> None:
        name = subject.package.name
        hermes.bed.plugins.add(name, made(name, subject.loaded, config))
        wanted = [one for one in subject.commands if one.name not in untried]
        last: list[Any] = []
        _watch(hermes.bed.plugins.commands, {one.name for one in wanted}, last)
        await hermes.start()
        for one in wanted:
            for typed in odd(one):
                last.clear()
                await hermes(f"/{one.name} {typed}".strip())
                if problem := _problem(last):
                    found[one.name] = f"/{one.name} {_short(typed)}: {problem}"
                    break

    hermes.run(story())
    return [Finding("commands", text) for text in found.values()]


def _problem(last: list[Any]) -> str:
    for one in last:
        if isinstance(one, Exception) and not isinstance(one, CommandError | JobError):
            return f"the handler raised {type(one).__name__}: {one}; BadArguments says what to type instead"
        if isinstance(one, str) and not one.strip():
            return "it answers with an empty text, which nobody sees; where silence is meant, give None"
    return ""


def _short(typed: str) -> str:
    return repr(typed if len(typed) <= 40 else f"{typed[:40]}…")


def _watch(commands: Registry, names: Collection[str], last: list[Any]) -> None:
    """Let `last` have what these commands give or raise."""
    watched = Registry()
    for one in commands.all():
        watched.add(commands.owner(one.name) or "?", _watched(one, last) if one.name in names else one)
    commands.become(watched)


def _watched(command: Command, last: list[Any]) -> Command:
    def plain(*given: Any) -> Any:
        try:
            result = command.handler(*given)
        except Exception as error:
            last.append(error)
            raise
        last.append(result)
        return result

    async def waits(*given: Any) -> Any:
        try:
            result: Any = await typing.cast("Any", command.handler(*given))
        except Exception as error:
            last.append(error)
            raise
        last.append(result)
        return result

    return msgspec.structs.replace(command, handler=plain if command.plain else waits)
