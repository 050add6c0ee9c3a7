"""Together: `hermes run` with Slack, Telegram and Discord on, until its ready line, and what it holds in memory then.

The platforms are strict fakes in this process; the program is started as people start it, with the demo model
and a data folder that has been used before.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import psutil
import tomli_w

warnings.simplefilter("ignore", DeprecationWarning)

from hermes_core.testing.platforms.discord import FakeDiscord  # noqa: E402
from hermes_core.testing.platforms.slack import FakeSlack  # noqa: E402
from hermes_core.testing.platforms.telegram import TelegramServer  # noqa: E402


async def start(file: Path, environ: dict[str, str]) -> tuple[float, float]:
    """Seconds until the ready line, and MiB then."""
    began = time.perf_counter()
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hermes_core", "run", "--config", str(file),
        env=environ, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert child.stderr is not None
    try:
        async with asyncio.timeout(60):
            while not (line := await child.stderr.readline()).startswith(b"ready: "):
                assert line, "the program ended"
        took = time.perf_counter() - began
        return took, psutil.Process(child.pid).memory_info().rss / 2**20
    finally:
        child.terminate()
        await child.wait()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(dir=".") as folder:
        async with FakeSlack() as slack, TelegramServer() as telegram, FakeDiscord() as discord:
            file = Path(folder) / "hermes.toml"
            adapters = {
                "slack": {"bot_token_env": "S", "app_token_env": "A", "base_url": slack.base_url},
                "telegram": {"token_env": "T", "base_url": telegram.base_url},
                "discord": {
                    "token_env": "D",
                    "base_url": discord.base_url,
                    "gateway_url": discord.gateway_url,
                },
            }
            config = {
                "runtime": {"data_dir": folder},
                "access": {"allow": ["*"], "per_minute": 0},
                "adapters": adapters,
            }
            file.write_text(tomli_w.dumps(config))
            secrets = {"S": slack.bot_token, "A": slack.app_token, "T": telegram.token, "D": discord.token}
            environ = {**os.environ, **secrets}
            await start(file, environ)  # the first one makes the data folder and fills the disk's cache
            runs = [await start(file, environ) for _ in range(rounds)]
    for name, unit, found, target in (
        ("ready", "s", [one[0] for one in runs], 1.5),
        ("memory", "MiB", [one[1] for one in runs], 120),
    ):
        median = statistics.median(found)
        print(f"{name:8} median {median:7.2f} {unit}, worst {max(found):7.2f} (target {target})")


if __name__ == "__main__":
    asyncio.run(main())
