"""Every hook of Hermes. This file is the reference; `docs/reference/hooks.md` is made from it.

A plugin is an object with methods (or a module with functions) marked `@hookimpl` that bear these
names; it takes the arguments it wants, by name. Hooks are called by one of three verbs, only in
`hermes_core.plugins`:

- **each**: all plugins are asked, in order; the results are a list. One that fails is left out.
- **first**: plugins are asked in order until one gives something other than None.
- **fold**: a value is handed through all plugins; each gives the next one. One that fails is skipped.

An implementation may be a plain function or a coroutine function where the hook says "may be async".
`tryfirst` and `trylast` work as in pluggy; `hookwrapper`, `wrapper` and `firstresult` are refused,
because a coroutine would outlive them. Each call is isolated (P2): an exception or a call over its
time limit is reported under the plugin's name and the others are asked as if it were not there;
after three over their limit in a row it is not asked for a minute.
Hooks fire on every path by which something can come in (P3).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

import msgspec
import pluggy

from hermes_core.adapter import AdapterFactory
from hermes_core.checks import Check, Setup
from hermes_core.commands import Command, ConversationView
from hermes_core.config import Config
from hermes_core.job import Job
from hermes_core.messages import Address, Entry, Said, TurnEnd
from hermes_core.models import ModelFactory
from hermes_core.route import Route, Site
from hermes_core.tools import AsyncTool, Tool

__all__ = ["Answer", "Injection", "Interruption", "hookimpl", "hookspec", "verbs"]

hookspec = pluggy.HookspecMarker("hermes")
hookimpl = pluggy.HookimplMarker("hermes")


class Answer(msgspec.Struct, frozen=True):
    """A plugin's own answer to a message, in place of a turn; an empty text answers nothing."""

    text: str


class Injection(msgspec.Struct, frozen=True):
    """Text that a plugin puts into a turn, under a `label` that the model sees; small `order` comes first."""

    label: str
    text: str
    order: int = 0


class Interruption(msgspec.Struct, frozen=True):
    """What an interrupt did (I11): names of the tools it killed, skipped and let finish before.

    `abandoned` names tools that did not let themselves be cancelled, `unreachable` the process ids
    that could not be ended.
    """

    address: Address
    turn: int
    killed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    unreachable: tuple[int, ...] = ()


# ---- what a plugin brings: asked once, when it is loaded; plain functions


@hookspec
def hermes_configured(config: Config) -> None:
    """The config of this start, before anything else is asked. Verb: each.

    For what a plugin wants of sections that are not its own; its own come to its constructor.
    """
    raise AssertionError("a specification is never called")


@hookspec
def hermes_commands() -> Iterable[Command]:
    """Commands that people can type. Verb: each.

    A name or alias that another plugin has already is refused, naming both plugins.
    """
    raise AssertionError("a specification is never called")


@hookspec
def hermes_tools() -> Iterable[Tool]:
    """Tools that the model can call. Verb: each. Names are unique, as for commands."""
    raise AssertionError("a specification is never called")


@hookspec
def hermes_async_tools() -> Iterable[AsyncTool]:
    """Tools that the model starts as jobs (J1). Verb: each. Each one becomes the tool `start_NAME`.

    Names are unique, as for commands.
    """
    raise AssertionError("a specification is never called")


@hookspec
def hermes_models() -> Iterable[ModelFactory]:
    """Models that `[model] provider` can name. Verb: each."""
    raise AssertionError("a specification is never called")


@hookspec
def hermes_adapters() -> Iterable[AdapterFactory]:
    """Chat platforms. Verb: each. `[adapters.PLATFORM]` configures the one with that name."""
    raise AssertionError("a specification is never called")


# ---- for who runs the program


@hookspec
def hermes_checks() -> Iterable[Check]:
    """What `hermes doctor` can find out about the plugin's surroundings: a token, a server, a program. Verb: each.

    Asked by `hermes doctor`, and by `hermes init` for what it has set up, never by a run. The plugin is made
    with its section as it will be; a `ConfigError` of a check is a finding.
    """
    raise AssertionError("a specification is never called")


@hookspec
def hermes_setup() -> Iterable[Setup]:
    """What `hermes init` asks to set the plugin up. Verb: each.

    The plugin is made without any section of its own then.
    """
    raise AssertionError("a specification is never called")


# ---- what comes in


@hookspec
def hermes_message(
    entry: Entry, conversation: ConversationView
) -> Answer | Entry | Awaitable[Answer | Entry | None] | None:
    """A message that is no command was committed: answer it in place of a turn, change it, or let it pass.

    Verb: first. An `Answer` ends it; an `Entry` with the same id takes its place, with another `when`,
    `quote` or text; None lets it pass. Called after the commit and before the busy mode decides anything,
    so in every state of the conversation; an interrupting message waits for it. May be async; limit 1 s.
    A plugin that fails lets it pass.
    """
    raise AssertionError("a specification is never called")


# ---- a turn


@hookspec
def hermes_system_prompt(prompt: str, address: Address) -> str | Awaitable[str]:
    """Give the system prompt of the next turn, made from `prompt`. Verb: fold.

    The text must be the same for every turn unless something really changed: the provider's prompt
    cache lives from it. May be async; limit 5 s.
    """
    raise AssertionError("a specification is never called")


@hookspec
def hermes_injections(
    address: Address, entries: tuple[Entry, ...], past: tuple[Said, ...]
) -> Iterable[Injection] | Awaitable[Iterable[Injection]]:
    """Text to put into the turn that starts with `entries`. Verb: each.

    It stands before the notes and messages of the turn and is recorded with it, so it stays in the
    context of later turns; `past` has the injections that stand there already, for a plugin that has
    something to say only once, or when it changed. Together sorted by `order`, then by plugin. A text over
    8,000 characters is cut, with a mark. May be async; limit 5 s.
    """
    raise AssertionError("a specification is never called")


@hookspec
def hermes_turn_started(address: Address, turn: int, entries: tuple[Entry, ...]) -> Awaitable[None] | None:
    """A turn starts with these entries, or goes on with them after a restart. Verb: each.

    Called beside the turn, which does not wait for it. May be async; limit 5 s.
    """
    raise AssertionError("a specification is never called")


@hookspec
def hermes_turn_ended(address: Address, turn: int, end: TurnEnd, reply: int | None) -> Awaitable[None] | None:
    """A turn ended and is committed; `reply` is the number of its reply if it completed. Verb: each.

    Called beside what comes next, which does not wait for it. May be async; limit 5 s.
    """
    raise AssertionError("a specification is never called")


@hookspec
def hermes_interrupt(address: Address, turn: int) -> None:
    """A turn is about to be stopped (I11). It may neither veto nor delay. Verb: each.

    Called beside the stop, which does not wait for it. May be async; limit 1 s.
    """
    raise AssertionError("a specification is never called")


@hookspec
def hermes_interrupted(interruption: Interruption) -> Awaitable[None] | None:
    """A turn was stopped; `interruption` says what was killed, skipped and kept (I11). Verb: each.

    Called beside what comes next, which does not wait for it. May be async; limit 5 s.
    """
    raise AssertionError("a specification is never called")


# ---- jobs


@hookspec
def hermes_job_event(job: Job) -> Awaitable[None] | None:
    """The state of a job changed: it was queued, began to run (again, if `job.runs` is above 1) or ended (J2).

    Verb: each. Called beside the job and after the change is committed; progress is no change of state.
    May be async; limit 5 s.
    """
    raise AssertionError("a specification is never called")


# ---- a run


@hookspec
def hermes_started(site: Site) -> Awaitable[None] | None:
    """The program runs and has taken up what a former run left. Verb: each. Called once in each run.

    `site` has what a plugin works with that does something of its own accord; what it spawns is cancelled
    when the program ends. Nobody waits for it. May be async; limit 5 s.
    """
    raise AssertionError("a specification is never called")


# ---- HTTP


@hookspec
def hermes_routes(site: Site) -> Iterable[Route] | Awaitable[Iterable[Route]]:
    """What the plugin serves over HTTP. Verb: each. Called once, when the server starts; never without one.

    `site` has what routes work with. A method and path that another plugin serves already is refused.
    May be async; limit 5 s.
    """
    raise AssertionError("a specification is never called")


class Verb(msgspec.Struct, frozen=True):
    """How a hook is called: each, first or fold, and the seconds that one implementation may take."""

    name: str
    limit: float


verbs: dict[str, Verb] = {
    "hermes_adapters": Verb("each", 5.0),
    "hermes_async_tools": Verb("each", 5.0),
    "hermes_checks": Verb("each", 5.0),
    "hermes_commands": Verb("each", 5.0),
    "hermes_configured": Verb("each", 5.0),
    "hermes_injections": Verb("each", 5.0),
    "hermes_interrupt": Verb("each", 1.0),
    "hermes_interrupted": Verb("each", 5.0),
    "hermes_job_event": Verb("each", 5.0),
    "hermes_message": Verb("first", 1.0),
    "hermes_models": Verb("each", 5.0),
    "hermes_routes": Verb("each", 5.0),
    "hermes_setup": Verb("each", 5.0),
    "hermes_started": Verb("each", 5.0),
    "hermes_system_prompt": Verb("fold", 5.0),
    "hermes_tools": Verb("each", 5.0),
    "hermes_turn_ended": Verb("each", 5.0),
    "hermes_turn_started": Verb("each", 5.0),
}
