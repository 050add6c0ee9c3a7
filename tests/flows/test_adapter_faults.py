"""An adapter fails: the log says why in one line, and what cannot be helped by another try is not tried again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_core.adapter import Gateway, Sent, Shown
from hermes_core.errors import ConfigError, HermesError, Incomplete, SendError, leaves, reason
from hermes_core.messages import Outgoing
from hermes_core.testing.bed import Bed
from hermes_core.testing.platform import FakePlatform
from hermes_core.testing.virtual import run

TOKEN = "xoxb-1234567890-abcdefghij"
PEM = "-----BEGIN PRIVATE KEY-----\nabcdef\n-----END PRIVATE KEY-----"


class Failing(FakePlatform):
    """Its first `run`s fail with these."""

    def __init__(self, *faults: Exception) -> None:
        super().__init__()
        self.faults = list(faults)

    async def run(self, gateway: Gateway) -> None:
        if self.faults:
            raise self.faults.pop(0)
        await super().run(gateway)


class InTasks(FakePlatform):
    """Two tasks of its own, as adapters have them; one of them fails, deep inside."""

    def __init__(self, fault: Callable[[], Exception]) -> None:
        super().__init__()
        self.fault = fault
        self.starts = 0

    async def run(self, gateway: Gateway) -> None:
        self.starts += 1
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fail())
            await super().run(gateway)

    async def _fail(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(1e6))
            raise self.fault()


def _group(*errors: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("unhandled errors in a TaskGroup", errors)


def _from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            _from(SendError("No nest."), OSError(f"no {TOKEN}\nat all")),
            "SendError: No nest. (OSError: no ***)",
        ),
        (OSError("no route\nto this host"), "OSError: no route"),
        (HermesError("The nest is empty.", "Fill it."), "HermesError: The nest is empty. Fill it."),
        (ValueError(), "ValueError"),
        (_group(_group(KeyError("egg"))), "KeyError: 'egg'"),
        (_group(OSError("first"), _group(ValueError("second"))), "OSError: first; ValueError: second"),
        (_group(*(OSError(f"{n}") for n in range(5))), "OSError: 0; OSError: 1; OSError: 2 (and 2 more)"),
        (OSError(f"refused {TOKEN} here"), "OSError: refused *** here"),
        (OSError(PEM), "OSError: ***"),
    ],
    ids=["with its cause", "lines", "ours", "without words", "group", "several", "many", "token", "key"],
)
def test_p2_the_line_about_an_adapter_that_fails_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Exception, said: str
) -> None:
    async def story() -> None:
        async with Bed(tmp_path, platform=Failing(fault)) as bed:
            assert await bed.say("hello") == "you said: hello"

    run(story())
    lines = [one.getMessage() for one in caplog.records if "failed" in one.getMessage()]
    assert lines == [f"adapter fake failed; next start in 1 s: {said}"]


class Clumsy(FakePlatform):
    clumsy = False

    async def send(self, outgoing: Outgoing) -> Sent:
        if not self.clumsy:
            self.clumsy = True
            raise _group(ValueError(f"no {TOKEN}"))
        return await super().send(outgoing)

    def show(self, address: object, shown: Shown) -> None:
        raise LookupError("no such nest")


def test_p2_the_lines_about_a_send_and_about_what_is_shown_say_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Bed(tmp_path, platform=Clumsy()) as bed:
            await bed.say("hello")
            for _ in range(100):
                await asyncio.sleep(0.1)
            assert bed.platform.texts() == ["you said: hello"]

    run(story())
    said = {one.getMessage() for one in caplog.records if one.levelno == logging.ERROR}
    assert any(
        one.startswith("adapter fake failed on ") and one.endswith("ValueError: no ***") for one in said
    )
    assert any(
        one.startswith("adapter fake failed to show Working: LookupError: no such nest") for one in said
    )


@pytest.mark.parametrize("kind", [ConfigError, Incomplete])
def test_what_another_try_cannot_help_ends_the_run_also_from_inside_of_groups(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: type[HermesError]
) -> None:
    cause = OSError("the cause")

    def fault() -> Exception:
        error = kind("The nest refuses the token.", "Get another.")
        error.__cause__ = cause
        return error

    platform = InTasks(fault)

    async def story() -> None:
        async with Bed(tmp_path, platform=platform):
            await asyncio.sleep(1000)  # the run has ended by itself

    with pytest.raises(kind, match="The nest refuses the token") as raised:
        run(story())
    assert raised.value.__cause__ is cause
    assert platform.starts == 1
    assert not [one for one in caplog.records if "next start" in one.getMessage()]


def test_the_errors_of_a_group_are_found_however_deep_and_one_alone_is_its_own() -> None:
    one, two = SendError("no"), OSError("never")
    assert list(leaves(_group(_group(one), two))) == [one, two]
    assert list(leaves(one)) == [one]
    assert reason(KeyboardInterrupt()) == "KeyboardInterrupt"
