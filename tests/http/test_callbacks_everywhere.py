"""Callbacks in every run, with or without a server of one's own (H)."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import hermes_core
from hermes_core.config import Config
from hermes_core.errors import ConfigError
from hermes_core.job import Delivery, DeliveryState, JobEnd, JobState
from hermes_core.runtime import Runtime
from hermes_core.store import jobs
from hermes_core.store.peek import peek
from hermes_core.store.sqlite import SQLiteStore
from tests.http.inside import SECRET
from tests.http.receiver import Receiver
from tests.http.test_callbacks import job

CHAT = """
import sys
from hermes_core.cli import main
code = main(["chat"])
print("modules:", sorted({"uvicorn", "starlette"} & set(sys.modules)))
sys.exit(code)
"""


async def test_they_are_sent_in_every_run_also_without_a_server(tmp_path: Path) -> None:
    """A chat in a folder whose last run ended a job and died before it told of it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES", "XDG_"))}
    own |= {
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(
            [str(Path(hermes_core.__file__).parents[1]), own.get("PYTHONPATH", "")]
        ),
        "HERMES__RUNTIME__DATA_DIR": str(tmp_path / "data"),
        "HERMES__JOBS__CALLBACKS__SECRET_ENV": "CALLBACKS",
        "HERMES__JOBS__CALLBACKS__ALLOW_PRIVATE": "true",
        "CALLBACKS": SECRET,
    }
    async with Receiver(204) as receiver:
        store = await SQLiteStore.open(tmp_path / "data")
        one = replace(job(), callback=receiver.url)
        await store.add_job(one)
        await store.end_job(one.id, JobEnd(JobState.DONE, 100.0, "all is well"))
        await store.close()
        pipe = asyncio.subprocess.PIPE
        chat = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHAT, stdin=pipe, stdout=pipe, env=own, cwd=tmp_path
        )
        try:
            (got,) = await receiver.wait(1)
            assert got.verified(SECRET)["data"]["job_id"] == one.id
            async with asyncio.timeout(20):
                while (await _delivery(tmp_path / "data", one.id)).state is not DeliveryState.DELIVERED:
                    await asyncio.sleep(0.02)
            out, _ = await chat.communicate(b"")
        finally:
            if chat.returncode is None:
                chat.kill()
                await chat.wait()
        assert (chat.returncode, out) == (0, b"modules: []\n"), "and no server came with it"


async def _delivery(folder: Path, id_: str) -> Delivery:
    found = await asyncio.to_thread(lambda: peek(folder, jobs.delivery, None, id_))
    assert found is not None
    return found


async def test_a_secret_that_is_none_stops_every_start_with_plain_words(tmp_path: Path) -> None:
    config = Config.of(
        {"runtime": {"data_dir": str(tmp_path)}, "jobs": {"callbacks": {"secret_env": "CALLBACKS"}}},
        {"CALLBACKS": "no base64"},
    )
    with pytest.raises(ConfigError, match="no secret of Standard Webhooks"):
        async with Runtime(config):
            raise AssertionError("it must not start")
    assert list(tmp_path.iterdir()) == []
