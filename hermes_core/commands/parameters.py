"""Parameters: what a handler takes, read from its signature, and a word as it wants it."""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NewType

import msgspec

from hermes_core.errors import BadArguments, HermesError

__all__ = ["Parameter", "Rest", "converted", "form_of", "parameters_of"]

Rest = NewType("Rest", str)
"""The annotation of a last parameter that takes the rest of the text as it stands, newlines included."""


class Parameter(msgspec.Struct, frozen=True):
    """One argument of a command: `rest` takes the text as it stands, `many` all words."""

    name: str
    kind: Any
    required: bool
    default: Any
    rest: bool
    many: bool


_TRUE: Final = frozenset({"yes", "true", "on", "1"})


_FALSE: Final = frozenset({"no", "false", "off", "0"})


def converted(parameter: Parameter, word: str, command: str, usage: str) -> Any:
    """The word as this parameter wants it; `BadArguments` says what to type instead."""
    kind = parameter.kind
    try:
        if kind is str:
            return word
        if kind is bool:
            lowered = word.lower()
            if lowered in _TRUE or lowered in _FALSE:
                return lowered in _TRUE
            raise ValueError(word)
        if typing.get_origin(kind) is Literal:
            for choice in typing.get_args(kind):
                if str(choice).lower() == word.lower():
                    return choice
            raise ValueError(word)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return kind(word.lower())
        return kind(word)
    except ValueError:
        raise BadArguments(
            f"/{command}: {parameter.name.upper()} must be {_wanted(kind)}, not {word[:40]!r}.",
            f"Type {usage}",
        ) from None


def _wanted(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "one of " + ", ".join(str(one.value) for one in kind)
    return {int: "a whole number", float: "a number", bool: "yes or no"}.get(kind, "text")


def form_of(parameter: Parameter) -> str:
    """How it is shown in a usage line."""
    kind = parameter.kind
    name = parameter.name.upper()
    if typing.get_origin(kind) is Literal:
        name = "|".join(map(str, typing.get_args(kind)))
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        name = "|".join(str(one.value) for one in kind)
    if parameter.many:
        return f"[{name} …]"
    return name if parameter.required else f"[{name}]"


def parameters_of(name: str, handler: Callable[..., Any]) -> Iterator[Parameter]:
    """What a handler takes after its context; `HermesError` for a signature that cannot work."""
    hints = typing.get_type_hints(handler)
    declared = list(inspect.signature(handler).parameters.values())
    if not declared:
        raise HermesError(f"The handler of /{name} takes no context.", "Its first parameter is the Context.")
    for index, parameter in enumerate(declared[1:], 1):
        kind = hints.get(parameter.name, str)
        if typing.get_origin(kind) in (typing.Union, types.UnionType):
            kind = next(one for one in typing.get_args(kind) if one is not type(None))
        rest = kind is Rest
        if rest and index != len(declared) - 1:
            raise HermesError(f"The handler of /{name}: only the last parameter can be Rest.")
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            raise HermesError(f"The handler of /{name}: people cannot give {parameter.name!r} by keyword.")
        many = parameter.kind is parameter.VAR_POSITIONAL
        required = parameter.default is parameter.empty and not many
        yield Parameter(
            parameter.name,
            str if rest else kind,
            required,
            None if required else parameter.default,
            rest,
            many,
        )
