"""People: who was let in or put out besides what the config says, kept in `people.toml` beside the store (X1).

Theory of operation. A stranger who writes gets a code, which only he and this file know, and the file only as
a hash. Whoever runs the agent types it (`hermes pair approve CODE`, `/pair approve CODE`), and the person is
served from his next message on, also by a program that runs already: it looks at each message whether the
file was replaced. Codes that nobody gave are counted over all who type them; after too many no code is
looked at for an hour, be it right or wrong. A person is a platform and the id there, never a name.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from hermes_core.errors import HermesError, StateError
from hermes_core.messages import Role
from hermes_core.state import Signature, StateFile

__all__ = ["ASKED", "PENDING", "Asker", "People", "Person", "WrongCode", "is_person"]

log = logging.getLogger("hermes.access")

ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without I, O, 0 and 1
LENGTH: Final = 8
VALID: Final = 3600.0  # seconds
PENDING: Final = 3  # askers of one platform at a time
WRONG: Final = 5  # codes within LOCKED seconds; then none is looked at for as long
LOCKED: Final = 3600.0
ASKED: Final = "asked"
"""What `People.ask` gives for somebody who has a code that still holds."""

_HEAD: Final = "Who was let in or put out, and who waits for it. See: hermes pair list"
_ROLES: Final = {role.name.lower(): role for role in (Role.USER, Role.ADMIN, Role.OWNER)}


class WrongCode(HermesError):
    """The code is nobody's, or no code is looked at for now."""


class Person(msgspec.Struct, frozen=True):
    """Somebody whom the file lets in, or with the role NOBODY puts out; `since` in seconds since 1970.

    `name` was what the platform showed when the code was asked for; it decides nothing.
    """

    id: str
    role: Role
    since: float
    name: str = ""


class Asker(msgspec.Struct, frozen=True):
    """Somebody who was given a code that holds until `expires`."""

    id: str
    expires: float
    name: str = ""


class People:
    """The file in `folder`, as several processes share it. `wall` gives seconds since 1970."""

    def __init__(self, folder: Path, wall: Callable[[], float] = time.time) -> None:
        self._file = StateFile(folder / "people.toml", _HEAD)
        self._wall = wall
        self._seen: Signature | None = None
        self._roles: dict[str, Role] = {}

    def load(self) -> None:
        """Know what the file says before anybody is served; `StateError` where it cannot be read.

        For a start: who was put out would be served by a program that has never been able to read the file.
        """
        signature = self._file.signature()
        self._roles = {one.id: one.role for one in _people(self._file.read())}
        self._seen = signature

    def role(self, person: str) -> Role | None:
        """What the file says of this person: a role, NOBODY for who was put out, None for nothing.

        A file that cannot be read changes nothing of what is known, and that is logged once.
        """
        signature = self._file.signature()
        if signature != self._seen:
            self._seen = signature
            try:
                self._roles = {one.id: one.role for one in _people(self._file.read())}
            except StateError as error:
                log.error("who was let in stays as it was: %s", error)
        return self._roles.get(person)

    def known(self, person: str) -> Role | None:
        """The same, as it was when the file was looked at last."""
        return self._roles.get(person)

    def listing(self) -> tuple[list[Person], list[Asker], float]:
        """Who is in or out, who waits, and until when no code is looked at (0: they are)."""
        table = self._file.read()
        askers = [
            Asker(one, _seconds(facts, "expires"), str(facts.get("name", "")))
            for one, facts in _entries(table, "pending").items()
        ]
        now = self._wall()
        locked = _seconds(table.get("wrong", {}), "locked")
        return (
            _people(table),
            sorted((one for one in askers if one.expires > now), key=lambda one: one.expires),
            locked if locked > now else 0.0,
        )

    def ask(self, person: str, name: str = "") -> str | None:
        """A new code for somebody who is not served; None where as many as may wait do so already.

        `ASKED` while his last one holds: he has it, and nobody else can be told it again. Blocks for about
        10 ms; `StateError`: none was given.
        """
        now = self._wall()
        with self._file.editing() as table:
            pending = table.setdefault("pending", {})
            for one in [one for one, facts in pending.items() if _seconds(facts, "expires") <= now]:
                del pending[one]
            if person in pending:
                return ASKED
            platform = person.partition(":")[0]
            if sum(one.partition(":")[0] == platform for one in pending) >= PENDING:
                return None
            code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
            salt = secrets.token_hex(8)
            pending[person] = {
                "name": _line(name),
                "code": _digest(code, salt),
                "salt": salt,
                "expires": int(now + VALID),
            }
        return code

    def approve(self, code: str, role: Role = Role.USER) -> Person:
        """Let in whoever was given this code; `WrongCode` where nobody was. Blocks for some 10 ms per asker."""
        now = self._wall()
        typed = code.strip().replace("-", "").upper()
        with self._file.editing() as table:
            wrong = table.setdefault("wrong", {})
            if _seconds(wrong, "locked") > now:  # before the code is looked at: a right one is no news either
                raise WrongCode(
                    "Too many wrong codes: none is looked at for now.",
                    f"Try again in {_minutes(_seconds(wrong, 'locked') - now)}.",
                )
            found = next(
                (
                    person
                    for person, facts in _entries(table, "pending").items()
                    if _seconds(facts, "expires") > now
                    and hmac.compare_digest(_digest(typed, str(facts.get("salt"))), str(facts.get("code")))
                ),
                None,
            )
            if found is not None:
                asked = table["pending"].pop(found)
                table["wrong"] = {}
                return _let_in(table, found, role, now, str(asked.get("name", "")))
            if now - _seconds(wrong, "since") > LOCKED:
                wrong.update(since=int(now), count=0)
            wrong["count"] = int(wrong.get("count", 0)) + 1
            if wrong["count"] >= WRONG:
                table["wrong"] = {"locked": int(now + LOCKED)}
                log.warning("%d wrong codes: none is looked at for an hour", WRONG)
        raise WrongCode(
            "Nobody was given this code, or it is older than an hour.",
            "See who waits with: hermes pair list",
        )

    def let_in(self, person: str, role: Role = Role.USER) -> Person:
        """Let in somebody by platform and id, without a code."""
        with self._file.editing() as table:
            asked = table.setdefault("pending", {}).pop(person, {})
            known = _entries(table, "people").get(person, {})
            name = str(asked.get("name", "") or known.get("name", ""))
            return _let_in(table, person, role, self._wall(), name)

    def like(self, text: str) -> str | None:
        """Whom an address may mean that stands where a person should: the one whose chat it is, if known here."""
        table = self._file.read()
        known = _entries(table, "people").keys() | _entries(table, "pending").keys()
        parts = text.split(":")
        meant = f"{parts[0]}:{parts[2]}" if len(parts) in (3, 4) else text
        return meant if text not in known and meant in known else None

    def revoke(self, person: str) -> Role | None:
        """Put this person out from now on, whatever `[access] allow` says; gives what the file said before."""
        with self._file.editing() as table:
            table.setdefault("pending", {}).pop(person, None)
            people = table.setdefault("people", {})
            before = next((one.role for one in _people(table) if one.id == person), None)
            name = people.get(person, {}).get("name", "")
            people[person] = {"role": "nobody", "name": name, "since": int(self._wall())}
        return before


def is_person(text: str) -> bool:
    """Whether `text` has the form of a person, "platform:user id", and is no pattern."""
    platform, colon, id_ = text.partition(":")
    return bool(platform and colon and id_) and "*" not in text and text.isprintable() and " " not in text


def _let_in(table: dict[str, Any], person: str, role: Role, now: float, name: str) -> Person:
    table.setdefault("people", {})[person] = {"role": role.name.lower(), "name": name, "since": int(now)}
    return Person(person, role, now, name)


def _people(table: dict[str, Any]) -> list[Person]:
    """A role that there is not lets nobody in."""
    return [
        Person(
            one,
            _ROLES.get(str(facts.get("role")), Role.NOBODY),
            _seconds(facts, "since"),
            str(facts.get("name", "")),
        )
        for one, facts in _entries(table, "people").items()
    ]


def _entries(table: dict[str, Any], name: str) -> dict[str, dict[str, Any]]:
    entries = table.get(name, {})
    if not isinstance(entries, dict) or not all(isinstance(one, dict) for one in entries.values()):
        raise StateError(f"The table [{name}] in people.toml is none.", "Correct it, or move the file away.")
    return entries


def _seconds(facts: dict[str, Any], key: str) -> float:
    value = facts.get(key, 0)
    return float(value) if isinstance(value, int | float) else 0.0


def _digest(code: str, salt: str) -> str:
    # Eight characters can be tried out by who has the file; at 10 ms a try not within the hour that they hold.
    return hashlib.scrypt(code.encode(), salt=salt.encode(), n=2**12, r=8, p=1, dklen=32).hex()


def _line(name: str) -> str:
    return " ".join("".join(one if one.isprintable() else " " for one in name).split())[:60]


def _minutes(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return f"{minutes} minute{'' if minutes == 1 else 's'}"
