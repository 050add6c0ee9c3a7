"""Declare: from a function to a `Tool`. What is wrong with the function is said here, not when it runs."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, overload

import msgspec

from hermes_core.config import duration
from hermes_core.errors import HermesError, ToolError
from hermes_core.file import ConversationFiles, NoFiles
from hermes_core.job import ConversationJobs, NoJobs
from hermes_core.messages import Address, Author, Role
from hermes_core.permission import Approval, shown
from hermes_core.processes import Program
from hermes_core.tools.schema import arguments_type, read_docstring, schema_of

if TYPE_CHECKING:
    from hermes_core.tools.scope import Scope

__all__ = [
    "Kind",
    "Tool",
    "ToolContext",
    "approval_of",
    "check_name",
    "hints_of",
    "parameters_of",
    "seconds_of",
    "texts_of",
    "tool",
]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_DEADLINE: Final = "2m"


class Kind(enum.StrEnum):
    """Where a tool runs, and so what ends it."""

    ASYNC = "async"  # in the event loop; cancelled
    THREAD = "thread"  # in a thread of its own; abandoned
    PROCESS = "process"  # in a process tree; killed


@dataclasses.dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom and where a call runs. A tool gets it in a parameter annotated so; the model does not see it.

    `scope` runs further programs that end with the turn: `await context.scope.run(Program(...))`.
    `jobs` and `files` are those of the conversation.
    """

    address: Address
    author: Author
    role: Role
    scope: Scope
    jobs: ConversationJobs = dataclasses.field(default_factory=NoJobs)
    files: ConversationFiles = dataclasses.field(default_factory=NoFiles)


@dataclasses.dataclass(frozen=True, slots=True)
class Tool:
    """Something that a model can call.

    `schema` is a JSON Schema object that holds everything (no references) and allows no other
    argument. `deadline` in seconds. `idempotent`: may run again when nobody knows whether it took
    effect (D4). `role` is the least that the people of a turn need. `context` names the parameter
    that takes the `ToolContext`. `approval`: a person is asked before it runs, about what it gives.
    """

    name: str
    description: str
    schema: dict[str, Any]
    kind: Kind
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    deadline: float
    idempotent: bool = False
    role: Role = Role.USER
    context: str | None = None
    approval: Approval | None = None

    def check(self, arguments_json: str) -> dict[str, Any]:
        """The arguments as the function takes them; `ToolError` tells the model what does not fit.

        No text at all is no arguments. A number or a truth value in quotes is taken for what it says
        where nothing else fits.
        """
        text = arguments_json if arguments_json.strip() else "{}"
        try:
            given = msgspec.json.decode(text, type=self.arguments)
        except msgspec.ValidationError as error:
            try:
                given = msgspec.json.decode(text, type=self.arguments, strict=False)
            except msgspec.ValidationError:
                raise ToolError(
                    f"The arguments of {self.name} do not fit: {error}.", self._wanted()
                ) from error
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ToolError(
                f"The arguments of {self.name} are not valid JSON: {error}.", self._wanted()
            ) from error
        return {name: getattr(given, name) for name in self.arguments.__struct_fields__}

    def _wanted(self) -> str:
        required = self.schema["required"]
        names = [name if name in required else f"{name} (optional)" for name in self.schema["properties"]]
        return (
            "It takes a JSON object with: " + ", ".join(names) + "."
            if names
            else "It takes an empty JSON object."
        )


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    name: str | None = None,
    /,
    *,
    deadline: str | float = _DEADLINE,
    idempotent: bool = False,
    role: Role = Role.USER,
    approval: bool | Approval = False,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    name: str | Callable[..., Any] | None = None,
    /,
    *,
    deadline: str | float = _DEADLINE,
    idempotent: bool = False,
    role: Role = Role.USER,
    approval: bool | Approval = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a typed function; its docstring is what the model reads.

    The section `Args:` of the docstring describes the parameters. What the function gives back is
    shown to the model: text as it is, a `Program` by running it, everything else as JSON. A function that
    gives back a `Program` must say so in its annotation, and must not block.
    `deadline` is a duration ("90s", "2m") or seconds; it does not run while a person is asked. `approval`: a
    person is asked before each call, and shown the arguments, or what the function that is given here makes of
    them (None: this call needs no question). `HermesError` names the function and the fix.
    """

    def make(function: Callable[..., Any]) -> Tool:
        chosen = name if isinstance(name, str) else getattr(function, "__name__", "tool")
        return _make(chosen, function, deadline, idempotent, role, approval_of(approval))

    return make(name) if callable(name) else make


def _make(
    name: str,
    function: Callable[..., Any],
    deadline: str | float,
    idempotent: bool,
    role: Role,
    approval: Approval | None,
) -> Tool:
    check_name(name)
    seconds = seconds_of(name, deadline)
    description, texts = texts_of(name, function)
    hints = hints_of(name, function)
    context, parameters = parameters_of(name, function, hints, ToolContext, texts)
    arguments = arguments_type(name, parameters, texts)
    return Tool(
        name=name,
        description=description,
        schema=schema_of(arguments),
        kind=_kind(name, function, hints.get("return")),
        function=function,
        arguments=arguments,
        deadline=seconds,
        idempotent=idempotent,
        role=role,
        context=context,
        approval=approval,
    )


def approval_of(given: bool | Approval) -> Approval | None:
    """What shows people a call: the function that is given, or for True one that shows all arguments."""
    if given is True:
        return shown
    return given or None


def check_name(name: str) -> None:
    """`HermesError` for what no provider takes as the name of a tool."""
    if not _NAME.fullmatch(name):
        raise HermesError(
            f"{name!r} cannot be the name of a tool.", "Letters, digits, _ and -, a letter first, at most 64."
        )


def seconds_of(name: str, deadline: str | float) -> float:
    """A deadline in seconds."""
    try:
        seconds = duration(deadline)
    except (ValueError, HermesError) as error:
        raise HermesError(
            f"Tool {name!r}: the deadline {deadline!r} is no duration.", 'Write "90s" or "2m".'
        ) from error
    if seconds <= 0:
        raise HermesError(f"Tool {name!r}: the deadline must be longer than nothing.")
    return seconds


def texts_of(name: str, function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description, and the text of each parameter that has one."""
    description, texts = read_docstring(inspect.getdoc(function) or "")
    if not description:
        raise HermesError(
            f"Tool {name!r} has no docstring.", "Say in it what the tool does: the model reads it."
        )
    return description, texts


def hints_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Its annotations, evaluated."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise HermesError(
            f"Tool {name!r}: an annotation cannot be read: {error}.",
            "Types in annotations must be defined or imported at the top of the module, not under TYPE_CHECKING.",
        ) from error


def parameters_of(
    name: str,
    function: Callable[..., Any],
    hints: dict[str, Any],
    context_type: type,
    texts: dict[str, str],
) -> tuple[str | None, list[tuple[str, Any, Any]]]:
    """The name of the parameter for the context, and the others with annotation and default."""
    context: str | None = None
    found: list[tuple[str, Any, Any]] = []
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise HermesError(
                f"Tool {name!r}: {parameter} cannot be given by name.",
                "Give each argument a parameter of its own.",
            )
        if key not in hints:
            raise HermesError(
                f"Tool {name!r}: the parameter {key!r} has no annotation.", f"Write {key}: str, say."
            )
        if hints[key] is context_type:
            context = key
        else:
            found.append((key, hints[key], parameter.default))
    known = {key for key, _, _ in found} | {context}
    for key in texts:
        if key not in known:
            raise HermesError(f"Tool {name!r}: its docstring describes {key!r}, which is no parameter of it.")
    return context, found


def _kind(name: str, function: Callable[..., Any], result: Any) -> Kind:
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise HermesError(f"Tool {name!r} is a generator.", "Give the whole result back with return.")
    if result is Program:
        return Kind.PROCESS
    return Kind.ASYNC if inspect.iscoroutinefunction(function) else Kind.THREAD
