"""Declare: from a handler to a `Command`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec

from hermes_core.commands.parameters import Parameter, converted, form_of, parameters_of
from hermes_core.commands.text import scan
from hermes_core.errors import BadArguments, HermesError
from hermes_core.messages import Role

__all__ = ["Command", "command"]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


Handler = Callable[..., Awaitable[str | None] | str | None]


class Command(msgspec.Struct, frozen=True):
    """A command: its names, who may use it, one line of help, and the handler.

    The handler's parameters after the context are the arguments: `str`, `int`, `float`, `bool`, an
    enum, a `Literal`, each optional with a default; `*words: str` takes all words; a last parameter
    of type `Rest` takes the text as it stands. The result is the answer; None answers nothing, and so does
    an empty text, which the kit takes for a mistake: who typed it would look at silence. A `plain` handler
    is no coroutine function: it runs in a thread of its own and may wait as it likes.
    """

    name: str
    handler: Handler
    help: str
    role: Role = Role.USER
    aliases: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    form: str = ""
    plain: bool = False

    @property
    def usage(self) -> str:
        """What to type: `/after N TEXT`. `form` says it where the parameters do not."""
        return " ".join([f"/{self.name}", *([self.form] if self.form else map(form_of, self.parameters))])

    def bind(self, arguments: str) -> tuple[Any, ...]:
        """The arguments as the handler wants them; `BadArguments` says what to type instead."""
        if not self.parameters:
            if arguments.strip():
                raise BadArguments(f"/{self.name} takes no arguments.", f"Type {self.usage}")
            return ()
        values: list[Any] = []
        position = 0
        for parameter in self.parameters:
            if parameter.rest:
                text = arguments[position:].strip()
                if not text and parameter.required:
                    raise BadArguments(
                        f"/{self.name}: {parameter.name.upper()} is missing.", f"Type {self.usage}"
                    )
                values.append(text or (parameter.default if not parameter.required else ""))
                return tuple(values)
            if parameter.many:
                values.extend(
                    converted(parameter, word, self.name, self.usage) for word, _ in scan(arguments, position)
                )
                return tuple(values)
            found = next(scan(arguments, position), None)
            if found is None:
                if parameter.required:
                    raise BadArguments(
                        f"/{self.name}: {parameter.name.upper()} is missing.", f"Type {self.usage}"
                    )
                values.append(parameter.default)
                continue
            word, position = found
            values.append(converted(parameter, word, self.name, self.usage))
        if arguments[position:].strip():
            raise BadArguments(
                f"/{self.name} takes no more than {len(self.parameters)} arguments.", f"Type {self.usage}"
            )
        return tuple(values)


def command(
    name: str, *, help: str = "", role: Role = Role.USER, aliases: Iterable[str] = (), form: str = ""
) -> Callable[[Handler], Command]:
    """Make a `Command` of a handler `(context, …)`; `help` defaults to the first line of its docstring.

    `form` is what `/help` shows behind the name, for a handler that takes its text apart by itself.
    Raises `HermesError` at once for a name or a signature that cannot work.
    """

    def make(handler: Handler) -> Command:
        text = help or (inspect.getdoc(handler) or "").strip().partition("\n")[0]
        if not text:
            raise HermesError(
                f"The command /{name} has no help.",
                'Give the handler a docstring, or write it here: command(…, help="…")',
            )
        names = (name, *aliases)
        for one in names:
            if not _NAME.fullmatch(one):
                raise HermesError(
                    f"{one!r} cannot be the name of a command.",
                    "Use a lower-case letter, then at most 31 of a-z, 0-9 and _ (the platforms allow no more).",
                )
        called = getattr(handler, "__call__", None)  # noqa: B004 - of an object that can be called
        plain = not (inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called))
        parameters = tuple(parameters_of(name, handler))
        return Command(name, handler, text, role, tuple(aliases), parameters, form, plain)

    return make
