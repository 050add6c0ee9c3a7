"""ScriptedModel: a model that says what a test tells it to, and keeps what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import TypeAlias

from hermes_core.config import ModelSettings
from hermes_core.errors import ModelError
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Said, ToolCall
from hermes_core.models import Delta, ModelFactory, Request, Stop, Text

__all__ = ["Hold", "Script", "ScriptedModel", "echo"]


class Hold:
    """A place in a script at which the model is silent until the test lets it go on.

    `reached` is set when the model stands there; `release` lets it go on.
    """

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._go = asyncio.Event()

    def release(self) -> None:
        """Let the model go on."""
        self._go.set()

    async def wait(self) -> None:
        """Stand here until released."""
        self.reached.set()
        await self._go.wait()


Part: TypeAlias = "str | ToolCall | Hold | ModelError | Stop"
Script: TypeAlias = "str | Sequence[Part] | Callable[[Request], str | Sequence[Part]]"


def echo(request: Request) -> str:
    """Answers with the last text in the user role."""
    return "you said: " + next((one.text for one in reversed(request.items) if isinstance(one, Said)), "")


class ScriptedModel:
    """Each call takes the next script; when there is none left, `default` (an echo).

    A script is a text, or parts: texts, `ToolCall`, a `Hold`, a `ModelError` to raise, a `Stop` other
    than the usual one; or a function of the request that gives these. `requests` has every request,
    `cut` how many calls were cancelled in the middle.
    """

    def __init__(self, scripts: Iterable[Script] = (), default: Script = echo) -> None:
        self.scripts = list(scripts)
        self.default = default
        self.requests: list[Request] = []
        self.cut = 0
        self.closed = False

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Play the next script."""
        self.requests.append(request)
        script = self.scripts.pop(0) if self.scripts else self.default
        played = script(request) if callable(script) else script
        try:
            calls = False
            for part in [played] if isinstance(played, str) else played:
                if isinstance(part, Hold):
                    await part.wait()
                elif isinstance(part, ModelError):
                    raise part
                elif isinstance(part, Stop):
                    yield part
                    return
                else:
                    calls = calls or isinstance(part, ToolCall)
                    yield Text(part) if isinstance(part, str) else part
            yield Stop("tools" if calls else "end")
        except (asyncio.CancelledError, GeneratorExit):
            self.cut += 1
            raise

    async def aclose(self) -> None:
        """Nothing to let go."""
        self.closed = True

    def _open(self, settings: ModelSettings) -> ScriptedModel:
        return self

    @hookimpl
    def hermes_models(self) -> Iterable[ModelFactory]:
        """Offers itself as the provider "scripted"."""
        return [ModelFactory("scripted", self._open)]

    def texts(self, call: int = -1) -> list[str]:
        """The texts in the user role of one request."""
        return [one.text for one in self.requests[call].items if isinstance(one, Said)]
