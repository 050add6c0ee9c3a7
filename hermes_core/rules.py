"""Rules: what owners changed about commands and tools, everywhere or in one conversation; kept in `rules.toml`.

Theory of operation. A rule belongs to a command or tool by the name that its plugin gave it, and to a place: one
conversation, or everywhere. It can switch the thing off or on, give it another name and another role; what a
conversation says goes before what holds everywhere, key by key. The tables of the plugins stay as they are:
a conversation with rules gets a changed copy when a command is typed or a turn begins, one without gets
the tables themselves. Whoever holds the file looks whether it has been replaced since, twenty times a second at
most: a look costs as much as some commands.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from hermes_core.commands import Registry
from hermes_core.errors import HermesError, StateError
from hermes_core.messages import Address, Role
from hermes_core.state import Signature, StateFile
from hermes_core.tools import Tool

__all__ = ["EVERYWHERE", "FIXED", "Rule", "Rules"]

log = logging.getLogger("hermes.access")

EVERYWHERE: Final = "*"
"""The place of what holds in all conversations."""

FIXED: Final = "control"
"""The command by which rules are made: it cannot be taken away by one."""

SEEN: Final = 0.05  # seconds for which a look at the file holds
_HEAD: Final = "What owners changed about commands and tools. See: hermes control list"
_COMMAND: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_TOOL: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_KINDS: Final = ("commands", "tools")


class Rule(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is changed about one command or tool; None and "" leave it as it is."""

    enabled: bool | None = None
    name: str = ""
    role: str = ""

    def over(self, other: Rule) -> Rule:
        """This one, and where it says nothing the other."""
        return Rule(
            other.enabled if self.enabled is None else self.enabled,
            self.name or other.name,
            self.role or other.role,
        )

    def __str__(self) -> str:
        parts = [] if self.enabled is None else ["on" if self.enabled else "off"]
        parts += [f"named {self.name}"] if self.name else []
        parts += [f"for {self.role}s"] if self.role else []
        return ", ".join(parts)


_Table = dict[str, dict[str, dict[str, Rule]]]  # place, kind, name


class Rules:
    """The file in `folder`, as several processes share it."""

    def __init__(self, folder: Path) -> None:
        self._file = StateFile(folder / "rules.toml", _HEAD)
        self._seen: Signature | None = None
        self._table: _Table = {}
        self._made: dict[str, tuple[Registry, int, Registry]] = {}  # by place: of what, in which version
        self._look_at = 0.0

    def load(self) -> None:
        """Know what the file says before it is asked for; `StateError` where it cannot be read.

        For a start: what is off would be on in a program that has never been able to read the file.
        """
        signature = self._file.signature()
        self._table = _parsed(self._file.read())
        self._seen = signature

    def look_again(self) -> None:
        """A rule may have been made just now: look at the next use."""
        self._look_at = 0.0

    def commands(self, address: Address | None, registry: Registry) -> Registry:
        """The commands as they are in this conversation, or everywhere; the registry itself if nothing was changed."""
        rules = self._here(address, "commands")
        if not rules:
            return registry
        place = str(address)
        place = place if place in self._table else EVERYWHERE
        of, version, made = self._made.get(place, (None, 0, registry))
        if of is not registry or version != registry.version:
            made = _changed(registry, rules, place)
            self._made[place] = (registry, registry.version, made)
        return made

    def tools(self, address: Address, tools: dict[str, Tool]) -> dict[str, Tool]:
        """The tools as they are in this conversation."""
        rules = self._here(address, "tools")
        if not rules:
            return tools
        changed: dict[str, Tool] = {}
        for name, tool in tools.items():
            rule = rules.get(name, Rule())
            if rule.enabled is not False:
                free = rule.name not in tools and rule.name not in changed
                new = rule.name if rule.name and free else name
                changed[new] = dataclasses.replace(tool, name=new, role=_role(rule, tool.role))
        return changed

    def listing(self, address: Address | None = None) -> list[tuple[str, str, str, Rule]]:
        """Place, kind, name and rule of all that there are, or of those that hold for one conversation."""
        places = None if address is None else (EVERYWHERE, str(address))
        return [
            (place, kind, name, rule)
            for place, kinds in sorted(_parsed(self._file.read()).items())
            if places is None or place in places
            for kind, rules in sorted(kinds.items())
            for name, rule in sorted(rules.items())
        ]

    def names_some(self, kind: str, name: str) -> bool:
        """Whether something is called so, in whichever conversation."""
        self._look_in_time()
        return any(
            rule.name == name for kinds in self._table.values() for rule in kinds.get(kind, {}).values()
        )

    def origin(self, address: Address | None, kind: str, shown: str) -> str:
        """The name that the plugin gave to what is called `shown` in this conversation, or everywhere."""
        rules = self._here(address, kind)
        return next((name for name, rule in rules.items() if rule.name == shown), shown)

    def change(self, place: str, kind: str, name: str, /, **keys: Any) -> Rule:
        """Set keys of the rule for this name; gives what the rule says now. `HermesError` for what cannot be."""
        if kind == "commands" and name == FIXED:
            raise HermesError(f"/{FIXED} stays as it is:", "nobody could change it back.")
        new = keys.get("name")
        if new and not (_COMMAND if kind == "commands" else _TOOL).fullmatch(new):
            letters = (
                "a small letter, then small letters, digits and _"
                if kind == "commands"
                else "letters and digits"
            )
            raise HermesError(f"{new[:40]!r} cannot be its name.", f"Use {letters}.")
        self.look_again()
        with self._file.editing() as table:
            _parsed(table)  # what is broken is not written over
            entry = table.setdefault(place, {}).setdefault(kind, {}).setdefault(name, {})
            entry.update({key: value for key, value in keys.items() if value is not None})
            return msgspec.convert(entry, Rule)

    def reset(self, place: str, kind: str, name: str) -> bool:
        """Take the rule for this name away; False where there is none."""
        self.look_again()
        with self._file.editing() as table:
            rules = table.get(place, {}).get(kind, {})
            if name not in rules:
                return False
            del rules[name]
            if not rules:
                del table[place][kind]
            if not table[place]:
                del table[place]
        return True

    def _look(self) -> None:
        signature = self._file.signature()
        if signature != self._seen:
            self._seen = signature
            try:
                self._table = _parsed(self._file.read())
                self._made.clear()
            except StateError as error:
                log.error("the rules for commands and tools stay as they were: %s", error)

    def _look_in_time(self) -> None:
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + SEEN
            self._look()

    def _here(self, address: Address | None, kind: str) -> Mapping[str, Rule]:
        self._look_in_time()
        if not self._table:
            return {}
        everywhere = self._table.get(EVERYWHERE, {}).get(kind, {})
        own = self._table.get(str(address), {}).get(kind, {}) if address is not None else {}
        if not own or not everywhere:
            return own or everywhere
        merged = dict(everywhere)
        for name, rule in own.items():
            merged[name] = rule.over(everywhere.get(name, Rule()))
        return merged


def _changed(registry: Registry, rules: Mapping[str, Rule], place: str) -> Registry:
    """The commands as `rules` have them."""
    kept: set[str] = set()  # renamed ones whose new name turned out to be somebody's
    while True:
        changed = Registry()
        # Who keeps his name goes first: a new name takes nobody else's away.
        renamed = {one for one, rule in rules.items() if rule.name and one not in kept}
        for command in sorted(registry.all(), key=lambda one: one.name in renamed):
            rule = rules.get(command.name, Rule())
            if rule.enabled is False:
                continue
            name = rule.name if command.name in renamed else command.name
            role = _role(rule, command.role)
            try:
                changed.add(
                    registry.owner(command.name) or "?",
                    msgspec.structs.replace(command, name=name, role=role),
                )
            except HermesError as error:  # a plugin that came later has the name as well
                log.warning("/%s keeps its name in %s: %s", command.name, place, error)
                kept.add(command.name)
                break  # from the beginning: another one may have been given the name that it keeps
        else:
            return changed


def _role(rule: Rule, declared: Role) -> Role:
    return Role[rule.role.upper()] if rule.role else declared


def _parsed(table: dict[str, Any]) -> _Table:
    try:
        parsed = msgspec.convert(table, _Table)
        for kinds in parsed.values():
            for kind, rules in kinds.items():
                if kind not in _KINDS:
                    raise ValueError(f"there is no kind {kind!r}")
                for rule in rules.values():
                    if rule.role and rule.role not in ("user", "admin", "owner"):
                        raise ValueError(f"there is no role {rule.role!r}")
    except ValueError as error:  # msgspec's own errors are such
        raise StateError(
            f"The file rules.toml in the data folder is wrong: {error}.", "Correct it, or move it away."
        ) from error
    return parsed
