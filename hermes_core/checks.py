"""Checks: what a plugin can find out about its surroundings, and what it has to be told when it is set up.

`hermes doctor` runs the checks of every plugin that is loaded, and `hermes init` those of what was just
set up. `hermes init` also asks the questions of `Setup`. Both are values: a plugin gives them, the
command line runs and asks them.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import msgspec

from hermes_core.adapter import Form, KnownCommand

__all__ = ["Check", "Finding", "Level", "Question", "Setup"]


class Level(enum.StrEnum):
    """How a finding is meant: all is well, something to think about, or it does not work like this."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


class Finding(msgspec.Struct, frozen=True):
    """What a check found, in words for who runs the program, and what to do about it."""

    text: str
    advice: str = ""
    level: Level = Level.OK


class Check(msgspec.Struct, frozen=True):
    """One thing to look at; `name` is one or two words.

    `run` changes nothing, and asks a platform only for what costs nothing. A `HermesError` that it raises
    is a broken finding with its text and advice. After `limit` seconds it is cancelled, and broken.
    """

    name: str
    run: Callable[[], Awaitable[Finding]]
    limit: float = 15.0


class Question(msgspec.Struct, frozen=True):
    """One key of a plugin's section, as `hermes init` asks for it.

    Where `variable` is set, the answer is a secret: the config gets the name of that variable under `key`,
    which ends in `_env`, and the answer goes where secrets go. `choices` are all that can be answered. A
    question with a `default` may be left empty; so may one that is `optional`, and then its key is not written.
    An answer has the `form`, where there is one. `only`, a key and its value, asks the question where an earlier
    one was answered so, and takes the key of a secret that is not asked for out. `section` is where the key stands
    if not in the plugin's own: "http", say.
    """

    key: str
    text: str
    default: str = ""
    choices: tuple[str, ...] = ()
    variable: str = ""
    optional: bool = False
    form: Form | None = None
    only: tuple[str, str] | None = None
    section: str = ""

    def asked(self, answers: Mapping[str, Any]) -> bool:
        """Whether it is asked after these answers."""
        return self.only is None or answers.get(self.only[0]) == self.only[1]


def _no_guide(answers: Mapping[str, str], commands: tuple[KnownCommand, ...]) -> str:
    return ""


class Setup(msgspec.Struct, frozen=True):
    """How an adapter or a model is set up: `name` in `[adapters.NAME]`, or of the provider in `[model]`.

    `questions` that are no secret are asked first. Then `guide` may say, of the answers so far and of the
    commands that there are, what to do at the platform to get the secrets that are asked for next. An answer of
    another section stands there as "section.key".
    `person` says how one finds one's own user id there.
    """

    name: str
    title: str
    questions: tuple[Question, ...] = ()
    table: Literal["adapters", "model"] = "adapters"
    guide: Callable[[Mapping[str, str], tuple[KnownCommand, ...]], str] = _no_guide
    person: str = ""
