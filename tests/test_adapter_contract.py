"""The suite for adapters passes what is right, and finds each thing that is declared and not so, or the reverse."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_core.adapter import Features, Gateway
from hermes_core.errors import ConfigError
from hermes_core.testing.adapter_contract import NASTY, AdapterContract
from hermes_core.testing.driver import Driver
from hermes_core.testing.virtual import run

from .chat_program import ChatDriver, Line, Reading

ALL = Features(
    4000,
    **{
        name: True
        for name in Features.__struct_fields__
        if name not in ("max_text", "max_file", "local", "unattended")
    },
    max_file=10**6,
)
NONE = Features()


class TestAPlatformThatCanDoEverything(AdapterContract):
    @pytest.fixture
    def driver(self) -> Driver:
        return ChatDriver(ALL, ALL)


class TestAPlatformThatCanDoNothing(AdapterContract):
    @pytest.fixture
    def driver(self) -> Driver:
        return ChatDriver(NONE, NONE)


class TestAPlatformThatCannotBeAsked(AdapterContract):
    """Like Telegram."""

    @pytest.fixture
    def driver(self) -> Driver:
        features = msgspec.structs.replace(ALL, once=False, lookup=False, deletes=False)
        return ChatDriver(features, features)


def _changed(features: Features, name: str) -> Features:
    value = getattr(features, name)
    other: Any = not value
    if name == "max_text":
        other = 300 if value is None else value + 500
    if name == "max_file":
        other = 0 if value else 10**6
    return msgspec.structs.replace(features, **{name: other})


def _tests() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, _ in inspect.getmembers(AdapterContract, inspect.iscoroutinefunction):
        if name.startswith("test_"):
            arguments = inspect.signature(getattr(AdapterContract, name)).parameters
            if "kind" in arguments:
                yield from ((name, {"kind": kind}) for kind in NASTY)
            else:
                yield name, {"text": "hello"} if "text" in arguments else {}


def _failing(able: Features, declared: Features, folder: Path, line: type[Line] = Reading) -> list[str]:
    """The names of the tests that an adapter with these features does not pass."""
    failed = []
    for number, (name, more) in enumerate(_tests()):
        place = folder / str(number)
        place.mkdir()
        try:
            run(getattr(AdapterContract(), name)(ChatDriver(able, declared, line=line), place, **more))
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            failed.append(name)
    return failed


PROVEN = sorted(
    set(Features.__struct_fields__) - {"local", "unattended"}
)  # of the place, nothing that is shown
# what is able to do more than it declares is never found to be wrong by those who ask it for less
UNSEEN = {"once", "max_file", "buttons"}


@pytest.mark.parametrize("name", PROVEN)
def test_what_is_declared_and_not_so_is_found(tmp_path: Path, name: str) -> None:
    assert _failing(_changed(ALL, name), ALL, tmp_path)


@pytest.mark.parametrize("name", sorted(set(PROVEN) - UNSEEN))
def test_what_is_so_and_not_declared_is_found(tmp_path: Path, name: str) -> None:
    assert _failing(ALL, _changed(ALL, name), tmp_path)


def test_a_right_one_passes_them_all_one_by_one_too(tmp_path: Path) -> None:
    assert _failing(ALL, ALL, tmp_path) == []


class Hasty(Reading):
    """It says that it is ready when it begins to connect."""

    async def run(self, gateway: Gateway) -> None:
        gateway.ready()
        await super().run(gateway)


class Stubborn(Reading):
    """It tries a refused token again and again."""

    async def run(self, gateway: Gateway) -> None:
        while True:
            try:
                await super().run(gateway)
            except* ConfigError:
                await asyncio.sleep(1)


class Forgetful(Reading):
    """It keeps nothing of what a former run has shown."""

    def take_up(self) -> None:
        self._left.clear()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            Hasty,
            [
                "test_a_refused_token_is_a_fault_of_the_config_and_not_tried_again",
                "test_it_is_ready_when_it_is_connected_and_not_before",
            ],
        ),
        (Stubborn, ["test_a_refused_token_is_a_fault_of_the_config_and_not_tried_again"]),
        (Forgetful, ["test_a_draft_of_a_run_that_ended_gets_its_mark_from_the_next_one"]),
    ],
    ids=["hasty", "stubborn", "forgetful"],
)
def test_p5_what_an_adapter_does_wrong_when_it_begins_is_found(
    tmp_path: Path, line: type[Line], found: list[str]
) -> None:
    assert _failing(ALL, ALL, tmp_path, line) == found
