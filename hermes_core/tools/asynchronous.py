"""Asynchronous: from a function to an `AsyncTool`, and to the tool `start_NAME` that a model calls (J1)."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Protocol, overload

import msgspec

from hermes_core.config import duration
from hermes_core.errors import HermesError, ToolError
from hermes_core.job import Job
from hermes_core.messages import Role
from hermes_core.permission import Approval
from hermes_core.processes import Exit, Program
from hermes_core.tools.declare import (
    Kind,
    Tool,
    ToolContext,
    approval_of,
    check_name,
    hints_of,
    parameters_of,
    seconds_of,
    texts_of,
)
from hermes_core.tools.schema import arguments_type, schema_of

__all__ = ["AsyncTool", "JobContext", "async_tool"]

_START_DEADLINE: Final = 120.0  # seconds in which the start itself must be durable
_HOW: Final = (
    "This starts a job and returns at once with nothing but its job_id and status. Do not wait for it and\n"
    "do not poll: go on with other work, or end your turn. The result arrives by itself, as an [event]\n"
    "message, when the job ends."
)
_KEY: Final = (
    "A text of your own that names this start. Repeating a call with the same key and arguments gives the same "
    "job; use a new key to run it again."
)
_DEADLINE: Final = 'Time after which the job is stopped, such as "90s" or "2h"; left out: the usual one.'
_DEPENDS: Final = (
    "Ids of jobs that must be done before this one begins; if one of them fails, so does this one."
)
_OWN: Final = ("idempotency_key", "deadline", "depends_on")


class JobContext(Protocol):
    """What a function that runs as a job gets, in a parameter annotated so; the model does not see it."""

    job: Job

    def progress(self, now: float | str, text: str = "") -> None:
        """How far it is: a fraction from 0 to 1, one line of text, or both. May be called often (J2)."""

    def output(self, text: str) -> None:
        """Partial output, readable at once (J10). No newline is added."""

    async def run(self, program: Program) -> Exit:
        """Run a program that ends with this job; `ToolError` where it cannot be started."""


@dataclasses.dataclass(frozen=True, slots=True)
class AsyncTool:
    """Something that a model can start as a job.

    `process`: the function gives back a `Program`, which outlives a restart of the runtime. `deadline` in
    seconds, None for the configured one. `idempotent`: may run again when the worker died (J12).
    `done_codes` are the exit codes of a process that count as done. `summary` makes the one line about a
    process that ended, of its exit code (None: a signal) and the end of its output. `remote`: the function
    only watches work that goes on elsewhere, so after a restart it is called again in any case, and be it
    to hand a stop on; its cancellation says in its argument why: "stop", "deadline" or "close" (the
    program ends).
    """

    name: str
    description: str
    schema: dict[str, Any]
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    process: bool
    deadline: float | None
    idempotent: bool
    role: Role
    context: str | None
    done_codes: frozenset[int]
    summary: Callable[[int | None, str], str] | None
    starter: Tool
    remote: bool = False

    def check(self, arguments: str) -> dict[str, Any]:
        """The arguments of a job as the function takes them; `ToolError` where they no longer fit."""
        try:
            given = msgspec.json.decode(arguments, type=self.arguments)
        except msgspec.MsgspecError as error:
            raise ToolError(f"The arguments of {self.name} do not fit: {error}.") from error
        return {name: getattr(given, name) for name in self.arguments.__struct_fields__}


Summary = Callable[[int | None, str], str]


@overload
def async_tool(function: Callable[..., Any], /) -> AsyncTool: ...
@overload
def async_tool(
    name: str | None = None,
    /,
    *,
    deadline: str | float | None = None,
    idempotent: bool = False,
    role: Role = Role.USER,
    done_codes: Iterable[int] = (0,),
    summary: Summary | None = None,
    approval: bool | Approval = False,
) -> Callable[[Callable[..., Any]], AsyncTool]: ...
def async_tool(
    name: str | Callable[..., Any] | None = None,
    /,
    *,
    deadline: str | float | None = None,
    idempotent: bool = False,
    role: Role = Role.USER,
    done_codes: Iterable[int] = (0,),
    summary: Summary | None = None,
    approval: bool | Approval = False,
) -> AsyncTool | Callable[[Callable[..., Any]], AsyncTool]:
    """Make an `AsyncTool` of a typed function; its docstring is what the model reads.

    The function gives back a `Program` (and says so in its annotation), or is a coroutine function: then
    it runs in the event loop, may take a `JobContext`, and what it gives back is the job's result. The
    first line of that result is the summary. `approval`: as for `tool`; a person is asked before the model
    starts one. `HermesError` names the function and the fix.
    """

    def make(function: Callable[..., Any]) -> AsyncTool:
        chosen = name if isinstance(name, str) else getattr(function, "__name__", "tool")
        made = _make(chosen, function, deadline, idempotent, role, frozenset(done_codes), summary)
        asked = approval_of(approval)
        if asked is None:
            return made
        starter = dataclasses.replace(made.starter, approval=lambda given: asked(_without_own(given)))
        return dataclasses.replace(made, starter=starter)

    return make(name) if callable(name) else make


def _make(
    name: str,
    function: Callable[..., Any],
    deadline: str | float | None,
    idempotent: bool,
    role: Role,
    done_codes: frozenset[int],
    summary: Summary | None,
) -> AsyncTool:
    check_name(f"start_{name}")
    description, texts = texts_of(name, function)
    hints = hints_of(name, function)
    context, parameters = parameters_of(name, function, hints, JobContext, texts)
    for key, _, _ in parameters:
        if key in _OWN:
            raise HermesError(
                f"Async tool {name!r}: the parameter {key!r} is one that every start has.",
                "Give it another name.",
            )
    process = hints.get("return") is Program
    if not process and not inspect.iscoroutinefunction(function):
        raise HermesError(
            f"Async tool {name!r} would block.",
            "Make it a coroutine function, or let it give back a Program (-> Program).",
        )
    if process and context is not None:
        raise HermesError(f"Async tool {name!r}: the process runs without its JobContext.", "Leave it out.")
    arguments = arguments_type(name, parameters, texts)
    return AsyncTool(
        name=name,
        description=description,
        schema=schema_of(arguments),
        function=function,
        arguments=arguments,
        process=process,
        deadline=None if deadline is None else seconds_of(name, deadline),
        idempotent=idempotent,
        role=role,
        context=context,
        done_codes=done_codes,
        summary=summary,
        starter=_starter(name, description, parameters, texts, role),
    )


def _starter(
    name: str, description: str, parameters: list[tuple[str, Any, Any]], texts: dict[str, str], role: Role
) -> Tool:
    """The tool `start_NAME`."""

    async def start(
        context: ToolContext,
        idempotency_key: str,
        deadline: float | str,
        depends_on: tuple[str, ...],
        **arguments: Any,
    ) -> dict[str, str]:
        job = await context.jobs.start(
            name, msgspec.to_builtins(arguments), idempotency_key, _seconds(deadline), depends_on
        )
        return {"job_id": job.id, "status": job.state.value}

    key = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    own: list[tuple[str, Any, Any]] = [
        ("idempotency_key", key, inspect.Parameter.empty),
        ("deadline", float | str, ""),
        ("depends_on", tuple[str, ...], ()),
    ]
    told = {**texts, "idempotency_key": _KEY, "deadline": _DEADLINE, "depends_on": _DEPENDS}
    taken = arguments_type(f"start_{name}", [*parameters, *own], told)
    return Tool(
        name=f"start_{name}",
        description=f"{description}\n\n{_HOW}",
        schema=schema_of(taken),
        kind=Kind.ASYNC,
        function=start,
        arguments=taken,
        deadline=_START_DEADLINE,
        idempotent=True,  # the key sees to that (J3)
        role=role,
        context="context",
    )


def _without_own(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in _OWN}


def _seconds(deadline: float | str) -> float | None:
    if deadline == "":
        return None
    try:
        seconds = duration(deadline)
    except ValueError as error:
        raise ToolError(f"The deadline {deadline!r} is no duration: {error}.") from error
    if seconds <= 0:
        raise ToolError("The deadline must be longer than nothing.")
    return seconds
