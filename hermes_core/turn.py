"""Turn: the agent loop of one turn. Prompt, stream, tools, gap, answer; no platform and no queue.

Theory of operation. `Turn.run` goes from step to step: it calls the model, records the calls that it
asks for before the first of them starts (D4), runs them, appends the finished step, and asks its
owner through `Port` what came in meanwhile. A call that cannot begin at once (a person is asked first, or too
many run already) is recorded as not run, and recorded anew before it does begin: so a crash leaves no doubt
about it. With a final text it asks whether it may end (S2). It
never decides what becomes of an entry and never ends itself from outside: its owner cancels the task
that runs it, ends its tools (`Turn.scope`), and reads what is to be kept from `Turn.kept` (I6). A turn
whose owner has let it go does nothing more: `closed` is looked at after every wait (I1, case 14).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from hermes_core.config.secrets import Secrets
from hermes_core.errors import ModelError, ToolError
from hermes_core.messages import Item, Role, Said, Step, ToolCall, ToolResult, clean, encode
from hermes_core.models import Delta, Model, Opaque, Request, Stop, Text, ToolSpec, Usage
from hermes_core.tools import Scope, Tool, ToolContext
from hermes_core.veil import Veil

__all__ = ["Port", "Turn", "TurnPlan", "least"]

log = logging.getLogger("hermes.turn")

ATTEMPTS: Final = 3  # of one model call, while nothing of its answer was shown
PATIENCE: Final = 30.0  # seconds: a server that wants a longer pause is not waited for
PARALLEL: Final = 8  # tool calls of one step that run at the same time

RESTARTED: Final = (
    "Interrupted by a restart of the program; it may have taken effect. Check before you repeat it."
)
NOT_RUN: Final = (
    "Not run: the program was restarted before this call began. Call it again if it is still wanted."
)
SKIPPED: Final = "Skipped: the user redirected the work before this call was started."


class Port(Protocol):
    """What a turn asks of its owner. The calls that are not awaited return at once."""

    def drafted(self, part: int, delta: str) -> None:
        """More of the text number `part` of this turn."""

    def working(self, state: str, tool: str = "") -> None:
        """The turn is thinking, writing, or runs the tool of this name."""

    def gap(self) -> tuple[Sequence[Said], Sequence[str]]:
        """Items and their entries' ids that enter now (S1, T4)."""

    def answered(self) -> tuple[Sequence[Said], Sequence[str]] | None:
        """The turn has its final text: None lets it end; else it goes on with these (S2)."""

    def redirected(self) -> bool:
        """Whether calls that have not started are to be skipped, because a steer waits (S4)."""

    def permitted(self, tool: Tool, arguments: Mapping[str, Any]) -> Awaitable[str | None]:
        """Ask a person about a call: None when it may run, else what the model reads instead of a result."""

    def planned(self, step: Step) -> Awaitable[None]:
        """Make the calls of this step durable before they start, with the results that are certain so far (D4)."""

    def append(self, items: Sequence[Item], entries: Sequence[str]) -> Awaitable[None]:
        """Make finished items durable, with the entries that entered."""


class TurnPlan(msgspec.Struct, frozen=True):
    """What a turn starts from.

    `past` is the history before it, `prompt` its own first items; `planned` is the step that a former
    run had begun. `silent`: an empty final text is wanted as it is (J8).
    """

    number: int
    system: str
    past: tuple[Item, ...]
    prompt: tuple[Item, ...]
    max_steps: int = 50
    planned: Step | None = None
    silent: bool = False


class Turn:
    """One run of the agent loop. `run` once, in a task of its own."""

    def __init__(
        self,
        plan: TurnPlan,
        model: Model,
        tools: dict[str, Tool],
        scope: Scope,
        context: ToolContext,
        port: Port,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        secrets: Secrets | None = None,
    ) -> None:
        self.scope = scope
        self.closed = False
        self.usage = Usage()
        self.items: list[Item] = list(plan.prompt)
        self._plan = plan
        self._model = model
        self._tools = tools
        self._context = context
        self._port = port
        self._pause = pause
        self._secrets = secrets or Secrets()
        self._part = 0
        self._text = ""
        self._calls: tuple[ToolCall, ...] = ()
        self._opaque: dict[str, Any] | None = None
        self._results: dict[str, ToolResult] = {}
        self._started: set[str] = set()
        self._held: set[str] = set()  # ids of calls that are recorded as not run
        self._specs = tuple(
            ToolSpec(tool.name, tool.description, tool.schema)
            for tool in sorted(tools.values(), key=lambda one: one.name)
            if context.role >= tool.role
        )

    async def run(self) -> str:
        """The loop, see `_run`. Foreign code in it cannot end the program, nor cancel what is not its own."""
        try:
            return await self._run()
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and self.closed:
                raise
            raise RuntimeError(f"The turn was ended from inside by {type(error).__name__}.") from error

    async def _run(self) -> str:
        """Gives the final text when the owner has let the turn end.

        `ModelError` when the model cannot be had, or the limit of steps is reached. Cancelled, it leaves
        its tools to the owner: they are in `scope`.
        """
        if self._plan.planned is not None:
            await self._finish_planned(self._plan.planned)
        for _ in range(self._plan.max_steps):
            text, calls = await self._call_model()
            if calls:
                await self._run_step(text, calls)
                continue
            given = self._port.answered()
            if given is None:
                self.items.append(Step(text, opaque=self._opaque))
                return text
            self._forget()
            await self._append(Step(text), given)
        raise ModelError(
            f"I stopped after {self._plan.max_steps} steps without an answer.",
            "Write “go on” to continue, or set [conversation] max_steps higher.",
        )

    @property
    def number(self) -> int:
        """Which turn of its conversation this is."""
        return self._plan.number

    def kept(self) -> tuple[Item, ...]:
        """What history keeps when the turn is ended here: its prompt and the calls that finished (I5, I6)."""
        finished = tuple(call for call in self._calls if call.id in self._results)
        if not finished:
            return tuple(self.items)
        results = tuple(self._results[call.id] for call in finished)
        return (*self.items, Step(self._text, finished, results, self._opaque))

    def left(self) -> tuple[list[str], list[str]]:
        """Names of the tools of the open step that run, and of those that had not started (I4, I11)."""
        open_ = [call for call in self._calls if call.id not in self._results]
        return (
            [call.name for call in open_ if call.id in self._started],
            [call.name for call in open_ if call.id not in self._started],
        )

    def finished(self) -> list[str]:
        """Names of the tools that finished in this turn, in order."""
        return [call.name for item in self.kept() if isinstance(item, Step) for call in item.calls]

    # -- the model

    async def _call_model(self) -> tuple[str, tuple[ToolCall, ...]]:
        request = Request(
            self._plan.system, (*self._plan.past, *self.items), self._specs, self._context.files
        )
        self._port.working("thinking")
        for attempt in range(1, ATTEMPTS + 1):
            shown = self._part
            try:
                return await self._stream(request)
            except ModelError as error:
                pause = error.retry_after if error.retry_after is not None else 0.5 * 2**attempt
                if not error.retryable or self._part > shown or attempt == ATTEMPTS or pause > PATIENCE:
                    raise
                log.warning("model call failed, next try in %.1f s: %s", pause, error)
                await self._pause(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _stream(self, request: Request) -> tuple[str, tuple[ToolCall, ...]]:
        pieces: list[str] = []
        calls: list[ToolCall] = []
        stop: Stop | None = None
        part = self._part
        veil = self._secrets.veil()
        self._opaque = None
        async with contextlib.aclosing(self._model.stream(request)) as stream:
            async for delta in stream:
                if self.closed:
                    raise asyncio.CancelledError
                if isinstance(delta, Stop):
                    stop = delta
                else:
                    self._heard(delta, part, pieces, calls, veil)
        if stop is None:
            raise ModelError(
                "The model's answer was cut off.", "Write “go on”, or try again.", retryable=True
            )
        if rest := veil.rest():
            self._port.drafted(part, rest)
        text = self._secrets.hide("".join(pieces))
        if not calls:
            text = self._closing(text, stop)
            if text and not pieces:
                self._part += 1
        return text, self._unique(calls)

    def _heard(self, delta: Delta, part: int, pieces: list[str], calls: list[ToolCall], veil: Veil) -> None:
        """One element of the stream. What cannot be written down does not get as far as the store."""
        if isinstance(delta, Text):
            if text := clean(delta.text):
                if not pieces:
                    self._part += 1
                    self._port.working("writing")
                pieces.append(text)
                if shown := veil.feed(text):
                    self._port.drafted(part, shown)
        elif isinstance(delta, ToolCall):
            calls.append(ToolCall(clean(delta.id), clean(delta.name), clean(delta.arguments)))
        elif isinstance(delta, Usage):
            self.usage = _add(self.usage, delta)
        elif isinstance(delta, Opaque):
            encode(delta.data)
            self._opaque = {**(self._opaque or {}), **delta.data}
        else:
            raise TypeError(f"a model gives deltas, not {type(delta).__name__}")

    def _closing(self, text: str, stop: Stop) -> str:
        if stop.reason == "length":
            return f"{text}\n\n(The answer was cut at the model's length limit. Write “go on” for the rest.)".strip()
        if not text.strip() and not self._plan.silent:
            return (
                "(The model declined to answer.)"
                if stop.reason == "refused"
                else "(The model gave no answer.)"
            )
        return text

    def _unique(self, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
        """The calls under ids that no other call of this history has: some servers count from 0 in each answer."""
        taken = {
            call.id
            for item in (*self._plan.past, *self.items)
            if isinstance(item, Step)
            for call in item.calls
        }
        unique: list[ToolCall] = []
        for call in calls:
            id_ = call.id or "call"
            number = 0
            while id_ in taken:
                number += 1
                id_ = f"{call.id or 'call'}_{self._plan.number}_{number}"
            taken.add(id_)
            unique.append(ToolCall(id_, call.name, call.arguments))
        return tuple(unique)

    # -- a step

    async def _run_step(self, text: str, calls: tuple[ToolCall, ...]) -> None:
        self._held = {call.id for place, call in enumerate(calls) if self._waits(call, place)}
        await self._port.planned(self._plan_of(text, calls))
        self._text, self._calls = text, calls
        await self._run_calls(calls)
        await self._finish_step()

    def _waits(self, call: ToolCall, place: int) -> bool:
        """Whether this call does not begin at once. One that may be repeated needs no record of it."""
        tool = self._tools.get(call.name)
        if tool is None or self._context.role < tool.role:
            return True
        return not tool.idempotent and (tool.approval is not None or place >= PARALLEL)

    def _plan_of(self, text: str, calls: tuple[ToolCall, ...]) -> Step:
        """The step as a crash would leave it: a call without a result has begun."""
        certain = {one: ToolResult(one, NOT_RUN, error=True) for one in self._held} | self._results
        results = tuple(certain[call.id] for call in calls if call.id in certain)
        return Step(text, calls, results, self._opaque)

    async def _begins(self, call: ToolCall) -> None:
        """Record that this call, which was held, begins (D4)."""
        self._held.discard(call.id)
        await self._port.planned(self._plan_of(self._text, self._calls))
        if self.closed:
            raise asyncio.CancelledError

    async def _finish_step(self) -> None:
        results = tuple(self._results[call.id] for call in self._calls)
        step = Step(self._text, self._calls, results, self._opaque)
        self._forget()
        await self._append(step, self._port.gap())

    async def _append(self, step: Step, given: tuple[Sequence[Said], Sequence[str]]) -> None:
        said, entries = given
        self.items.extend((step, *said))
        await self._port.append((step, *said), entries)

    def _forget(self) -> None:
        self._text, self._calls = "", ()
        self._results.clear()
        self._started.clear()
        self._held.clear()

    async def _run_calls(self, calls: Iterable[ToolCall]) -> None:
        free = asyncio.Semaphore(PARALLEL)

        async def one(call: ToolCall) -> None:
            async with free:
                result = await self._run_call(call)
            if self.closed:
                raise asyncio.CancelledError
            self._results[call.id] = result

        await asyncio.gather(*(one(call) for call in calls))

    async def _run_call(self, call: ToolCall) -> ToolResult:
        if self._port.redirected():
            return ToolResult(call.id, SKIPPED, error=True)
        tool = self._tools.get(call.name)
        if tool is None or self._context.role < tool.role:
            offered = ", ".join(spec.name for spec in self._specs) or "none"
            return ToolResult(call.id, f"There is no tool {call.name!r} here. Tools: {offered}.", error=True)
        if tool.approval is not None and (refused := await self._unpermitted(tool, call)):
            return ToolResult(call.id, refused, error=True)
        if call.id in self._held:
            await self._begins(call)
        self._started.add(call.id)
        self._port.working("tool", call.name)
        outcome = await self.scope.call(tool, call.arguments, self._context)
        return ToolResult(call.id, outcome.text, outcome.error)

    async def _unpermitted(self, tool: Tool, call: ToolCall) -> str | None:
        """Why a call that needs a permission does not run; None where it does."""
        try:
            arguments = tool.check(call.arguments)
        except ToolError:
            return None  # the scope tells the model what does not fit, and runs nothing
        self._port.working("asking", call.name)
        refused = await self._port.permitted(tool, arguments)
        if self.closed:
            raise asyncio.CancelledError
        return refused or (SKIPPED if self._port.redirected() else None)

    async def _finish_planned(self, step: Step) -> None:
        """Go on after a crash: what may be repeated runs again, what else had begun is reported as interrupted (D4)."""
        self._text, self._calls, self._opaque = step.text, step.calls, step.opaque
        certain = {result.call_id: result for result in step.results}
        again: list[ToolCall] = []
        for call in step.calls:
            tool = self._tools.get(call.name)
            if call.id in certain:
                self._results[call.id] = certain[call.id]
            elif tool is not None and tool.idempotent:
                again.append(call)
            else:
                self._results[call.id] = ToolResult(call.id, RESTARTED, error=True)
        await self._run_calls(again)
        await self._finish_step()


def least(roles: Iterable[Role]) -> Role:
    """What all people of a turn may do: the least of their roles (X1)."""
    return min(roles, default=Role.USER)


def _add(a: Usage, b: Usage) -> Usage:
    return Usage(a.input + b.input, a.output + b.output, a.cached + b.cached)
