"""Tools: a typed function becomes something that a model can call, with a deadline and an end.

`tool` makes a `Tool` from a function; a `Scope` runs the tools of one turn and ends them all at once.
There are three kinds. A coroutine function runs in the event loop. A plain function runs in a thread
of its own, which nothing can stop: when it must end it is abandoned, its late result discarded. A
function that gives back a `Program` has it run as a process that is ended with all that came from it.

`async_tool` makes an `AsyncTool`: the model starts it as a job, goes on, and is told of its end (J1).
"""

from __future__ import annotations

from hermes_core.permission import Approval
from hermes_core.processes import Exit, Program
from hermes_core.tools.asynchronous import AsyncTool, JobContext, async_tool
from hermes_core.tools.declare import Kind, Tool, ToolContext, tool
from hermes_core.tools.scope import Ended, Outcome, Scope

__all__ = [
    "Approval",
    "AsyncTool",
    "Ended",
    "Exit",
    "JobContext",
    "Kind",
    "Outcome",
    "Program",
    "Scope",
    "Tool",
    "ToolContext",
    "async_tool",
    "tool",
]
