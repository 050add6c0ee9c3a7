"""By hand: the fakes of Telegram, Slack and Discord for a person at a keyboard (the page "Try it by hand").

    python -m hermes_core.testing.platforms [--folder FOLDER] [telegram] [slack] [discord]

Starts those that are named, or all three, writes FOLDER/hermes.toml for them, prints the line that starts
Hermes on it, and then takes what people write from the standard input: one line each, until it ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shlex
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import tomli_w

from hermes_core.errors import HermesError
from hermes_core.testing.platforms.hands import NAMES, Hands, hands, read

__all__ = ["main"]

_LOOK: Final = 0.5  # seconds between two looks at what is shown; what did not change in between is printed
_LONGEST: Final = 1 << 16  # characters of a line that is read
_USAGE: Final = """Write as a person, one line each; Ctrl+D ends it.
  telegram hello                  ann (the owner), in her direct chat
  bob@slack hello                 bob, whom nobody let in yet
  discord/room @hermes hello      in a room, where the agent is to be named
  slack /help                     a command, as that platform sends it"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the fakes until the input ends; 2 where one of them cannot be made."""
    parser = argparse.ArgumentParser(prog="python -m hermes_core.testing.platforms")
    parser.add_argument(
        "--folder", default="by-hand", help="where hermes.toml and the data go (default: by-hand)"
    )
    parser.add_argument(
        "platforms", nargs="*", metavar="PLATFORM", help=f"of {', '.join(NAMES)} (default: all)"
    )
    options = parser.parse_args(arguments)
    try:
        asyncio.run(_serve(Path(options.folder), options.platforms or list(NAMES)))
    except HermesError as error:
        _print(f"hermes: {error}")
        return 2
    except KeyboardInterrupt:
        pass
    return 0


async def _serve(folder: Path, names: Sequence[str]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        by_name = {name: await stack.enter_async_context(hands(name)) for name in dict.fromkeys(names)}
        file = _written(folder, by_name)
        tokens = {key: value for one in by_name.values() for key, value in one.tokens.items()}
        _print("Start Hermes in another terminal:")
        words = " ".join(f"{key}={shlex.quote(value)}" for key, value in tokens.items())
        _print(f"  {words} hermes run --config {shlex.quote(str(file))}")
        _print(_USAGE)
        shows = asyncio.create_task(_show(by_name))
        try:
            await _listen(by_name)
            await asyncio.sleep(2 * _LOOK)  # what was shown last is printed too
        finally:
            shows.cancel()
            await asyncio.gather(shows, return_exceptions=True)


def _written(folder: Path, by_name: dict[str, Hands]) -> Path:
    """The config for these platforms; an older one of ours gives place, as the ports are others now."""
    tables: dict[str, Any] = {
        "runtime": {"data_dir": str(folder.resolve() / "data")},
        "access": {"owners": [f"{name}:{one.ids['ann']}" for name, one in by_name.items()]},
        "adapters": {name: one.settings for name, one in by_name.items()},
    }
    file = folder / "hermes.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# For the fakes of the testing kit.\n{tomli_w.dumps(tables)}", encoding="utf-8")
    except OSError as error:
        raise HermesError(
            f"{file}: it cannot be written: {error.strerror or error}.", "Name another place with --folder."
        ) from error
    return file


async def _listen(by_name: dict[str, Hands]) -> None:
    """Carry out each line of the standard input until it ends."""
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def reader() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            while line := sys.stdin.readline(_LONGEST):
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, "")

    # a thread that nobody has to wait for: a read from a terminal cannot be cancelled
    threading.Thread(target=reader, daemon=True, name="by-hand").start()
    while line := await lines.get():
        if not line.strip():
            continue
        try:
            wanted = read(line, tuple(by_name))
            await by_name[wanted.platform].say(wanted.person, wanted.room, wanted.text)
        except HermesError as error:
            _print(f"hermes: {error}")


async def _show(by_name: dict[str, Hands]) -> None:
    """Print what the agent's messages show, each when it did not change for a moment, and again when it did."""
    before: dict[tuple[str, str], str] = {}
    printed: dict[tuple[str, str], str] = {}
    while True:
        now = {
            (f"{name}{where}", its): text for name, one in by_name.items() for where, its, text in one.shown()
        }
        for key, text in now.items():
            if before.get(key) == text and printed.get(key) != text:
                again = " (changed)" if key in printed else ""
                printed[key] = text
                _print(f"{key[0]}{again}: {text}")
        before = now
        await asyncio.sleep(_LOOK)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
