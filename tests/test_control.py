"""Control: the command line asks a program that runs, over a real socket."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hermes_core.control import Control, ask
from hermes_core.errors import HermesError
from hermes_core.router import Tasks


async def double(arguments: Mapping[str, Any]) -> Any:
    if arguments["number"] < 0:
        raise HermesError("No.", "Take a larger one.")
    return {"doubled": arguments["number"] * 2, "where": Path("x")}


async def broken(arguments: Mapping[str, Any]) -> Any:
    raise ValueError("secret")


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    tasks = Tasks()
    control = await Control({"double": double, "broken": broken}, tasks.spawn).open(tmp_path)
    yield tmp_path
    control.close()
    await tasks.close(1.0)
    assert list(tmp_path.iterdir()) == []


async def asked(folder: Path, what: str, **arguments: Any) -> Any:
    return await asyncio.to_thread(lambda: ask(folder, what, patience=10.0, **arguments))


async def test_a_request_is_answered_by_its_name(folder: Path) -> None:
    assert await asked(folder, "double", number=4) == {"doubled": 8, "where": "x"}
    many = await asyncio.gather(*(asked(folder, "double", number=one) for one in range(20)))
    assert [one["doubled"] for one in many] == [2 * one for one in range(20)]


@pytest.mark.parametrize(
    ("what", "number", "says"),
    [
        ("double", -1, r"^No\."),
        ("triple", 1, "does not know 'triple'"),
        ("broken", 1, r"failed at it \(error"),
    ],
)
async def test_what_is_refused_or_fails_is_said_and_the_next_is_answered(
    folder: Path, what: str, number: int, says: str
) -> None:
    with pytest.raises(HermesError, match=says) as error:
        await asked(folder, what, number=number)
    assert error.value.advice
    assert "secret" not in str(error.value)
    assert (await asked(folder, "double", number=1))["doubled"] == 2


@pytest.mark.parametrize("bytes_", [b"nonsense\n", b"\n", b"", b"x" * 100_000, b'{"what": 7}\n'])
async def test_whatever_is_written_into_it_the_next_is_answered(folder: Path, bytes_: bytes) -> None:
    def write() -> bytes:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(folder / "control.sock"))
            line.sendall(bytes_)
            line.shutdown(socket.SHUT_WR)
            return line.recv(1000)

    await asyncio.to_thread(lambda: suppressed(write))
    assert (await asked(folder, "double", number=1))["doubled"] == 2


def suppressed(write: Callable[[], bytes]) -> None:
    try:
        write()
    except OSError:
        return  # it hung up in the middle of nonsense


async def test_only_the_user_who_runs_it_may_ask(folder: Path) -> None:
    assert stat.S_IMODE((folder / "control.sock").stat().st_mode) == 0o600


async def test_where_none_runs_that_is_said_at_once_also_behind_a_dead_socket(tmp_path: Path) -> None:
    with pytest.raises(ProcessLookupError):
        ask(tmp_path, "double")
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "control.sock"))
    dead.close()
    with pytest.raises(ProcessLookupError):
        ask(tmp_path, "double")
    tasks = Tasks()
    control = await Control({"double": double}, tasks.spawn).open(tmp_path)
    assert (await asked(tmp_path, "double", number=2))["doubled"] == 4
    control.close()


async def test_the_way_to_the_folder_may_be_longer_than_a_socket_can_say(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100) / ("y" * 100)
    long.mkdir(parents=True)
    tasks = Tasks()
    control = await Control({"double": double}, tasks.spawn).open(long)
    assert (await asked(long, "double", number=2))["doubled"] == 4
    control.close()
