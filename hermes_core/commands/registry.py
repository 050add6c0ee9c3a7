"""Registry: every command by each of its names, and who typed one."""

from __future__ import annotations

import difflib
from typing import Any, Final

import msgspec

from hermes_core.commands.declare import Command
from hermes_core.commands.view import ConversationView
from hermes_core.errors import HermesError, NotAllowed
from hermes_core.job import ConversationJobs, NoJobs
from hermes_core.messages import Address, Author, Entry, Role
from hermes_core.operate import NoPlugins, PluginsView

__all__ = ["Context", "Registry"]


_NOBODYS: Final[tuple[str, None]] = ("?", None)


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


class Registry:
    """All commands by every name they have. Made at the start; changed only where a plugin is loaded anew."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[str, Command]] = {}
        self.version = 0  # another number whenever it was changed

    def add(self, owner: str, new: Command) -> None:
        """Take a command in; `HermesError` names both plugins where one of its names is taken (P2)."""
        for name in (new.name, *new.aliases):
            if name in self._by_name:
                raise HermesError(
                    f"/{name} of plugin {owner!r} is taken by plugin {self._by_name[name][0]!r}."
                )
        for name in (new.name, *new.aliases):
            self._by_name[name] = (owner, new)
        self.version += 1

    def without(self, owner: str) -> Registry:
        """A copy that has nothing of this plugin."""
        rest = Registry()
        rest._by_name = {name: one for name, one in self._by_name.items() if one[0] != owner}
        return rest

    def become(self, other: Registry) -> None:
        """Have what `other` has, from one instant to the next."""
        self._by_name = other._by_name
        self.version += 1

    def get(self, name: str) -> Command | None:
        """The command with this name or alias, in any case."""
        found = self._by_name.get(name.lower())
        return found[1] if found else None

    def find(self, name: str) -> tuple[str, Command | None]:
        """The plugin and the command with this name, which is in lower case; "?" and None where there is none."""
        return self._by_name.get(name, _NOBODYS)

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
