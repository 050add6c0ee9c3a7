"""`hermes doctor` as people call it, on whole and on broken surroundings, alone and beside a running Hermes."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hermes_core.checks import Check, Finding, Level
from hermes_core.cli.checkup import Owned, checkup, in_thread
from hermes_core.cli.surroundings import looks
from hermes_core.config import Config
from hermes_core.errors import HermesError
from hermes_core.store.schema import MIGRATIONS
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.virtual import VirtualLoop
from tests.http.outside import Outside
from tests.test_cli import hermes

UNUSED = "http://127.0.0.1:9"  # the discard port: nobody listens


def findings(folder: Path, *words: str, code: int, **environ: str) -> dict[str, dict[str, Any]]:
    done = hermes(
        folder, "doctor", "--json", "--set", f"runtime.data_dir={folder / 'data'}", *words, **environ
    )
    assert done.code == code, done.out + done.err
    assert done.err == ""
    found = {one["name"]: one for one in json.loads(done.out)}
    assert all(set(one) == {"name", "plugin", "level", "text", "advice"} for one in found.values())
    return found


def plugin(folder: Path, name: str, code: str) -> dict[str, str]:
    """An installed plugin of this name; gives the environment in which it is there."""
    packages = folder / "packages"
    info = packages / f"hermes_{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: hermes-{name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[hermes]\n{name} = hermes_{name}:Plugin\n")
    (packages / f"hermes_{name}.py").write_text(code)
    return {"PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[1]), str(packages)))}


def test_where_nothing_is_configured_all_is_well_and_nothing_is_made(tmp_path: Path) -> None:
    done = hermes(tmp_path, "doctor")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "All is well."
    signs = [line[:6].strip() for line in done.out.splitlines()[:-2]]
    assert [sign for sign in signs if sign] == ["ok"] * 7
    assert list(tmp_path.iterdir()) == []


def test_a_config_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    found = findings(tmp_path, "--set", "model.provdier=demo", code=1)
    assert found["config"]["level"] == "broken"
    assert "provider" in found["config"]["advice"]


@pytest.mark.parametrize("name", ["people.toml", "rules.toml"])
def test_a_state_file_that_a_start_would_refuse_is_a_finding(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_text("half = [")
    found = findings(tmp_path, code=1)
    assert (found["access"]["level"], found["database"]["level"]) == ("broken", "ok")
    assert name in found["access"]["text"]


def test_a_plugin_that_is_not_installed_is_a_finding_beside_the_others(tmp_path: Path) -> None:
    found = findings(tmp_path, "--set", "plugins.shel.enabled=true", code=1)
    assert (found["plugins"]["level"], found["database"]["level"]) == ("broken", "ok")
    assert "'shell'" in found["plugins"]["advice"]


def test_a_token_that_is_not_set_is_named_and_the_rest_is_looked_at(tmp_path: Path) -> None:
    for name in ("telegram", "slack", "discord"):
        found = findings(tmp_path, "--set", f"adapters.{name}.enabled=true", code=1)
        assert found[name]["plugin"] == name
        assert (found[name]["level"], found["model"]["level"]) == ("broken", "ok")
        assert f"{name.upper()}_BOT_TOKEN" in found[name]["text"]
        assert found["access"]["level"] == "warning", "nobody is served there"


@pytest.mark.parametrize(
    ("key", "person", "said"),
    [
        ("owners", "telegrm:42", "there is no platform 'telegrm' here. Did you mean 'telegram'?"),
        ("owners", "telegram:hello", "a user id there is a number"),
        ("admins", "slack:ann", "a user id there is the member ID, such as U024BE7LH"),
        ("allow", "discord:@ann", "a user id there is a number"),
        ("owners", "telegram:42", ""),
        ("owners", "slack:U024BE7LH", ""),
        ("allow", "telegram:*", ""),
        ("allow", "*", ""),
    ],
)
def test_x1_people_whom_no_platform_can_have_are_said_with_what_to_write(
    tmp_path: Path, key: str, person: str, said: str
) -> None:
    words = [f"adapters.{name}.enabled=true" for name in ("telegram", "slack", "discord")]
    words += [f'access.{key}=["{person}"]', *([] if key == "owners" else ['access.owners=["telegram:1"]'])]
    found = findings(tmp_path, "--offline", *(part for word in words for part in ("--set", word)), code=1)
    assert found["access"]["level"] == ("warning" if said else "ok")
    assert said in found["access"]["text"]
    assert (f'access.{key}: "{person}" is nobody' in found["access"]["text"]) is bool(said)


def test_x1_a_platform_that_is_off_is_no_mistake_and_every_id_may_be_one_there(tmp_path: Path) -> None:
    people = (
        "--set",
        'access.owners=["discord:@ann", "telegram:1"]',
        "--set",
        "adapters.discord.enabled=false",
    )
    found = findings(tmp_path, "--offline", "--set", "adapters.telegram.enabled=true", *people, code=1)
    assert found["access"]["level"] == "ok", found


def test_a_server_that_is_not_there_is_said_so_without_the_key_and_in_time(tmp_path: Path) -> None:
    settings = [
        word
        for one in (
            "model.provider=openai",
            "model.name=x",
            f"model.base_url={UNUSED}",
            "model.api_key_env=KEY",
        )
        for word in ("--set", one)
    ]
    began = time.monotonic()
    found = findings(tmp_path, *settings, code=1, KEY="sk-planted-secret")
    assert time.monotonic() - began < 20
    assert found["model"]["level"] == "broken"
    assert "sk-planted-secret" not in json.dumps(found)
    offline = findings(tmp_path, "--offline", *settings, code=0, KEY="sk-planted-secret")
    assert "model" not in offline


def test_a_port_that_is_taken_is_said_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = findings(tmp_path, "--set", f"http.port={taken.getsockname()[1]}", code=1)
    assert "cannot listen" in found["http"]["text"]


async def test_a_folder_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = Config.of({"runtime": {"data_dir": str(tmp_path / "file/x")}})
    found = {one.name: one for one in await checkup(looks(config))}["data folder"]
    assert found.level is Level.BROKEN
    assert str(tmp_path / "file/x") in found.text


@pytest.mark.parametrize("how", ["damaged", "later"])
def test_a_database_that_cannot_be_used_is_said_so_and_left_as_it_is(tmp_path: Path, how: str) -> None:
    async def make() -> None:
        await (await SQLiteStore.open(tmp_path / "data")).close()

    (tmp_path / "data").mkdir()
    asyncio.run(make())
    path = tmp_path / "data/hermes.db"
    if how == "damaged":
        path.write_bytes(b"this is no database" * 1000)
    else:
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
        connection.close()
    before = path.read_bytes()
    found = findings(tmp_path, code=1)
    assert found["database"]["level"] == "broken"
    assert how in found["database"]["text"]
    assert found["database"]["advice"]
    assert path.read_bytes() == before


def test_beside_a_running_hermes_it_says_who_has_the_data_and_disturbs_nothing(tmp_path: Path) -> None:
    with Outside(tmp_path) as server:
        assert server.process is not None
        port = server.url.rpartition(":")[2]
        words = ("--set", f"http.port={port}", "--set", "plugins.shell.enabled=true")
        found = findings(tmp_path, *words, code=0)
        assert f"process {server.process.pid}" in found["data folder"]["text"]
        assert "it answers" in found["http"]["text"]
        assert "/bin/sh" in found["shell"]["text"]
        assert server.client.get("/health").status_code == 200
        code, _ = server.stop()
        assert code == 0


def test_a_plugin_that_does_not_load_and_a_check_that_fails_are_findings_under_their_names(
    tmp_path: Path,
) -> None:
    broken = plugin(tmp_path / "a", "bust", "raise ValueError('no')\n")
    failing = plugin(
        tmp_path / "b",
        "failing",
        "from hermes_core.checks import Check\nfrom hermes_core.hookspecs import hookimpl\n"
        "async def look(): raise KeyError('town')\n"
        "class Plugin:\n    @hookimpl\n    def hermes_checks(self): return [Check('weather', look)]\n",
    )
    path = os.pathsep.join((broken["PYTHONPATH"], failing["PYTHONPATH"]))
    words = ("--set", "plugins.bust.enabled=true", "--set", "plugins.failing.enabled=true")
    found = findings(tmp_path, *words, code=1, PYTHONPATH=path)
    assert "ValueError: no" in found["plugin bust"]["text"]
    assert (found["weather"]["plugin"], found["weather"]["level"]) == ("failing", "broken")
    assert "KeyError: 'town'" in found["weather"]["text"]
    assert found["model"]["level"] == "ok"


def test_a_check_that_blocks_everything_ends_the_program_and_not_the_patience(tmp_path: Path) -> None:
    environ = plugin(
        tmp_path,
        "blocking",
        "import time\nfrom hermes_core.checks import Check\nfrom hermes_core.hookspecs import hookimpl\n"
        "async def look(): time.sleep(600)\n"
        "class Plugin:\n    @hookimpl\n    def hermes_checks(self): return [Check('sleeps', look, 0.1)]\n",
    )
    words = ("--set", "plugins.blocking.enabled=true", "--set", "model.provider=demo")
    code = (
        "import sys\nfrom hermes_core.cli import main, surroundings\nsurroundings._MODEL = 0.5\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess_run(tmp_path, code, "doctor", *words, **environ)
    assert process[0] == 1
    assert "blocks everything" in process[1]


def subprocess_run(folder: Path, code: str, *words: str, **environ: str) -> tuple[int, str]:
    import subprocess

    own = {name: value for name, value in os.environ.items() if not name.startswith("HERMES")}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env={**own, "HOME": str(folder), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


# ---- the running of checks, in virtual time


async def hang() -> Finding:
    await asyncio.Event().wait()
    raise AssertionError


async def swallow() -> Finding:
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            continue


async def refuse() -> Finding:
    raise HermesError("The token is wrong.", "Take another.")


async def nonsense() -> Any:
    return "fine"


async def slow() -> Finding:
    await asyncio.sleep(9)
    return Finding("at last")


def test_every_check_ends_within_its_limit_whatever_it_does_and_all_run_side_by_side() -> None:
    checks = [
        Owned("p", Check(one.__name__, one, 10.0)) for one in (hang, swallow, refuse, nonsense, slow, slow)
    ]
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        began = runner.get_loop().time()
        results = runner.run(checkup(checks))
        took = runner.get_loop().time() - began
    assert took <= 20.0, "the one that swallows its cancellation is given up after a second limit"
    assert [(one.name, one.level) for one in results] == [
        ("hang", Level.BROKEN),
        ("swallow", Level.BROKEN),
        ("refuse", Level.BROKEN),
        ("nonsense", Level.BROKEN),
        ("slow", Level.OK),
        ("slow", Level.OK),
    ]
    assert [results[0].text, results[2].text, results[2].advice] == [
        "no answer within 10 s",
        "The token is wrong.",
        "Take another.",
    ]


async def test_a_look_at_a_disk_that_hangs_is_given_up_and_an_error_of_it_arrives() -> None:
    import threading

    release = threading.Event()

    async def stuck() -> Finding:
        return await in_thread(lambda: Finding(str(release.wait(60))))

    async def fails() -> Finding:
        def look() -> Finding:
            raise HermesError("No disk.")

        return await in_thread(look)

    results = await checkup([Owned("", Check("disk", stuck, 0.05)), Owned("", Check("other", fails))])
    release.set()
    assert [one.text for one in results] == ["no answer within 0.05 s", "No disk."]
