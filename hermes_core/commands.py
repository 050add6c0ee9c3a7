"""Commands: what people type with a slash, from text to a checked call of a handler.

A registry is a dict; finding a command is one lookup and reading its
arguments is linear in their length. `/echofoo` is not `/echo`; `/ECHO@bot a` is `/echo a`.
"""

from __future__ import annotations

import difflib
import enum
import inspect
import re
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NewType, Protocol

import msgspec

from hermes_core.errors import BadArguments, HermesError, NotAllowed
from hermes_core.job import ConversationJobs, NoJobs
from hermes_core.messages import Address, Author, Entry, Role, When
from hermes_core.operate import NoPlugins, PluginsView
from hermes_core.permission import Permission

__all__ = [
    "Command",
    "Context",
    "ConversationView",
    "Entered",
    "Registry",
    "Rest",
    "Snapshot",
    "command",
    "parse",
    "words",
]

Rest = NewType("Rest", str)
"""The annotation of a last parameter that takes the rest of the text as it stands, newlines included."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_INVOCATION: Final = re.compile(r"/([A-Za-z][A-Za-z0-9_]{0,31})(?:@([^\s/]+))?(?=\s|\Z)")


class Snapshot(msgspec.Struct, frozen=True):
    """A conversation as it stands: for `/status` and the lists.

    The first `riding` of `notes` ride with the running turn. `waiting` is a live view, so that a long
    queue costs nothing to look at: count before you cancel. `troubled` names the plugins that had a problem.
    `failure` is what people were told of the last turn that failed since the start, `failed_at` when (seconds since
    1970).
    """

    address: Address
    state: str
    turn: int | None
    tool: str
    waiting: Sequence[Entry]
    notes: tuple[Entry, ...]
    replies: int
    busy: When
    model: str
    history: int
    riding: int = 0
    troubled: tuple[str, ...] = ()
    failure: str = ""
    failed_at: float = 0.0


class Entered(msgspec.Struct, frozen=True):
    """What became of a text: `kind` is started, queued (at `position`), steering, interrupting, answered or known.

    "answered": a plugin did, in place of a turn. "known": the same command entered it before, in a run
    that was cut off.
    """

    kind: str
    position: int = 0


class ConversationView(Protocol):
    """What a command may do with the conversation in which it was typed."""

    def snapshot(self) -> Snapshot:
        """The state at this instant."""

    def find(self, short: str) -> Entry | None:
        """The message that waits under this short id, if any."""

    async def cancel(self, ids: Iterable[str]) -> list[Entry]:
        """Cancel waiting entries by id; gives those that still waited and that this person may cancel.

        A person cancels the own ones, an admin any (D2).
        """

    async def enter(self, text: str, when: When, quote: str | None = None) -> Entered:
        """Put `text` in as the entry of the person who typed the command; gives what became of it.

        `quote` is a text of the agent that stands in front of it (T3).
        """

    async def note(self, text: str, replies: int) -> Entry:
        """Keep `text` for the first turn that starts after `replies` more replies (A1); gives it as it is kept.

        Its id is that of the command, "+" and a number. Where a run that was cut off kept it already, it
        stays as it was: its place does not move (A4).
        """

    # The three that end a turn raise `NotAllowed` where somebody else's runs, unless for an admin (T2).

    async def stop(self) -> tuple[bool, list[Entry]]:
        """End the running turn, cancel what waits, start nothing (I10); whether a turn ran, and what was cancelled."""

    async def interrupt(self) -> bool:
        """End the running turn and let what waits begin (I10); whether a turn ran."""

    async def reset(self) -> tuple[bool, list[Entry]]:
        """Start an empty history (T7); whether a turn was stopped, and what was cancelled."""

    def tools(self) -> dict[str, Role]:
        """The names of the tools that there are here, and who may use each."""

    def permissions(self) -> list[Permission]:
        """The tool calls that wait here for a yes, the oldest first."""

    def permit(self, id: str, allow: bool, always: bool = False) -> Permission:
        """Say yes or no to one, for the person who typed the command; gives what it was about.

        `always`: nobody is asked again about this very call, until `/new` or a restart. `CommandError` where
        it waits no more, `NotAllowed` where this person may not answer it.
        """

    async def set_busy(self, mode: When | None) -> When:
        """Set the busy mode of this conversation, or None for the configured one; gives what holds now."""

    async def quote(self, latest: int) -> tuple[int, str] | None:
        """Number and text of the `latest`-th latest reply (1 = the last one), or None."""

    async def quoted(self, platform_id: str) -> str | None:
        """The agent's text that stands on the platform under this message id, or None."""


class Context(msgspec.Struct, frozen=True):
    """Who typed a command, where, and what it can reach."""

    address: Address
    author: Author
    role: Role
    entry: Entry
    conversation: ConversationView
    registry: Registry
    jobs: ConversationJobs = msgspec.field(default_factory=NoJobs)
    plugins: PluginsView = msgspec.field(default_factory=NoPlugins)


Handler = Callable[..., Awaitable[str | None] | str | None]


class _Parameter(msgspec.Struct, frozen=True):
    name: str
    kind: Any
    required: bool
    default: Any
    rest: bool
    many: bool


class Command(msgspec.Struct, frozen=True):
    """A command: its names, who may use it, one line of help, and the handler.

    The handler's parameters after the context are the arguments: `str`, `int`, `float`, `bool`, an
    enum, a `Literal`, each optional with a default; `*words: str` takes all words; a last parameter
    of type `Rest` takes the text as it stands. The result is the answer; None answers nothing. A `plain`
    handler is no coroutine function: it runs in a thread of its own and may wait as it likes.
    """

    name: str
    handler: Handler
    help: str
    role: Role = Role.USER
    aliases: tuple[str, ...] = ()
    parameters: tuple[_Parameter, ...] = ()
    form: str = ""
    plain: bool = False

    @property
    def usage(self) -> str:
        """What to type: `/after N TEXT`. `form` says it where the parameters do not."""
        return " ".join([f"/{self.name}", *([self.form] if self.form else map(_form, self.parameters))])

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
                values.extend(_convert(self, parameter, word) for word, _ in _scan(arguments, position))
                return tuple(values)
            found = next(_scan(arguments, position), None)
            if found is None:
                if parameter.required:
                    raise BadArguments(
                        f"/{self.name}: {parameter.name.upper()} is missing.", f"Type {self.usage}"
                    )
                values.append(parameter.default)
                continue
            word, position = found
            values.append(_convert(self, parameter, word))
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
                f"The command /{name} has no help.", "Give the handler a docstring, or pass help=…."
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
        parameters = tuple(_parameters(name, handler))
        return Command(name, handler, text, role, tuple(aliases), parameters, form, plain)

    return make


class Registry:
    """All commands by every name they have. Made at the start; changed only where a plugin is loaded anew."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[str, Command]] = {}

    def add(self, owner: str, new: Command) -> None:
        """Take a command in; `HermesError` names both plugins where one of its names is taken (P2)."""
        for name in (new.name, *new.aliases):
            if name in self._by_name:
                raise HermesError(
                    f"/{name} of plugin {owner!r} is taken by plugin {self._by_name[name][0]!r}."
                )
        for name in (new.name, *new.aliases):
            self._by_name[name] = (owner, new)

    def without(self, owner: str) -> Registry:
        """A copy that has nothing of this plugin."""
        rest = Registry()
        rest._by_name = {name: one for name, one in self._by_name.items() if one[0] != owner}
        return rest

    def become(self, other: Registry) -> None:
        """Have what `other` has, from one instant to the next."""
        self._by_name = other._by_name

    def get(self, name: str) -> Command | None:
        """The command with this name or alias, in any case."""
        found = self._by_name.get(name.lower())
        return found[1] if found else None

    def owner(self, name: str) -> str | None:
        """The plugin that brought the command with this name."""
        found = self._by_name.get(name.lower())
        return found[0] if found else None

    def nearest(self, name: str, role: Role = Role.OWNER) -> str | None:
        """The name that was probably meant, of those that this role may use."""
        names = [key for key, (_, one) in self._by_name.items() if one.role <= role]
        return next(iter(difflib.get_close_matches(name.lower(), names, 1)), None)

    def all(self, role: Role = Role.OWNER) -> list[Command]:
        """Every command that this role may use, by name."""
        return sorted(
            {id(one): one for _, one in self._by_name.values() if one.role <= role}.values(),
            key=lambda one: one.name,
        )

    def bound(self, found: Command, role: Role, arguments: str) -> tuple[Any, ...]:
        """The arguments for the handler, once the role is checked; `NotAllowed`, `BadArguments` are for the sender."""
        if role < found.role:
            raise NotAllowed(f"/{found.name} is for {found.role.name.lower()}s.")
        return found.bind(arguments)


def parse(text: str, account: str = "") -> tuple[str, str] | None:
    """Name and arguments where `text` has the form of a command, else None.

    The name ends at white space or the end of the text. `/name@bot` is a command only for the
    account named `bot` (in any case); where `account` is empty every suffix is taken.
    """
    if not text.startswith("/"):
        return None
    match = _INVOCATION.match(text)
    if match is None:
        return None
    suffix = match[2]
    if suffix and account and suffix.lower() != account.lower():
        return None
    return match[1].lower(), text[match.end() :].lstrip(" \t") if match.end() < len(text) else ""


def words(text: str) -> list[str]:
    """The words of `text`; quotes keep white space, a backslash inside double quotes escapes."""
    return [word for word, _ in _scan(text, 0)]


_OPENING: Final = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»"}
_QUOTED: Final = {
    '"': re.compile(r'"((?:[^"\\]|\\.)*)"(?=\s|\Z)', re.DOTALL),
    "'": re.compile(r"'([^']*)'(?=\s|\Z)"),
    "“": re.compile(r"“([^”]*)”(?=\s|\Z)"),
    "„": re.compile(r"„([^“]*)“(?=\s|\Z)"),
    "«": re.compile(r"«([^»]*)»(?=\s|\Z)"),
}
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_WORD: Final = re.compile(r"\S+")
_SPACE: Final = re.compile(r"\s*")


def _scan(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Words with the position after each. A quote that is never closed is an ordinary character."""
    unclosed: set[str] = set()  # a quote whose closing mark was looked for in vain is not looked for again
    position = start
    while True:
        space = _SPACE.match(text, position)
        position = space.end() if space else position
        if position >= len(text):
            return
        mark = text[position]
        if mark in _OPENING and mark not in unclosed:
            quoted = _QUOTED[mark].match(text, position)
            if quoted is not None:
                position = quoted.end()
                yield (_ESCAPED.sub(r"\1", quoted[1]) if mark == '"' else quoted[1]), position
                continue
            if text.find(_OPENING[mark], position + 1) < 0:
                unclosed.add(mark)
        plain = _WORD.match(text, position)
        if plain is None:  # pragma: no cover - what is no white space is a word
            return
        position = plain.end()
        yield plain[0], position


_TRUE: Final = frozenset({"yes", "true", "on", "1"})
_FALSE: Final = frozenset({"no", "false", "off", "0"})


def _convert(owner: Command, parameter: _Parameter, word: str) -> Any:
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
            f"/{owner.name}: {parameter.name.upper()} must be {_wanted(kind)}, not {word[:40]!r}.",
            f"Type {owner.usage}",
        ) from None


def _wanted(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "one of " + ", ".join(str(one.value) for one in kind)
    return {int: "a whole number", float: "a number", bool: "yes or no"}.get(kind, "text")


def _form(parameter: _Parameter) -> str:
    kind = parameter.kind
    name = parameter.name.upper()
    if typing.get_origin(kind) is Literal:
        name = "|".join(map(str, typing.get_args(kind)))
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        name = "|".join(str(one.value) for one in kind)
    if parameter.many:
        return f"[{name} …]"
    return name if parameter.required else f"[{name}]"


def _parameters(name: str, handler: Handler) -> Iterator[_Parameter]:
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
        yield _Parameter(
            parameter.name,
            str if rest else kind,
            required,
            None if required else parameter.default,
            rest,
            many,
        )
