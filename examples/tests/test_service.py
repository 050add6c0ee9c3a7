"""The systemd unit and the container file: what they call exists, and does what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from hermes_core.cli.parser import parse
from hermes_core.cli.serving import LIMIT
from hermes_core.config import Config

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "examples/service/hermes.service"
CONTAINER = ROOT / "examples/container/Containerfile"
HERMES = Path(sys.executable).with_name("hermes")


def unit() -> dict[str, list[str]]:
    """Every key of the unit with its values, in order."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, continued lines joined."""
    text = re.sub(
        r"\\\n\s*", "", re.sub(r"^#.*\n", "", CONTAINER.read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in text.splitlines() if line.strip()]


def variables() -> dict[str, str]:
    pairs = [word for name, text in instructions() if name == "ENV" for word in text.split()]
    return dict(pair.split("=", 1) for pair in pairs)


def test_what_the_unit_starts_is_a_call_of_hermes_that_exists() -> None:
    program, *words = shlex.split(unit()["ExecStart"][0])
    assert Path(program).name == "hermes"
    command, options = parse(words)
    assert command.NAME == ("run",)
    assert options.config == "/etc/hermes/hermes.toml"
    environ = dict(one.split("=", 1) for one in unit()["Environment"])
    assert Config.of({}, environ).runtime.data_dir == Path(unit()["WorkingDirectory"][0])


def test_the_unit_waits_longer_than_the_program_takes_to_stop_and_leaves_jobs_alone() -> None:
    keys = unit()
    assert float(keys["TimeoutStopSec"][0]) > LIMIT
    assert keys["KillMode"] == ["process"], "jobs outlive a restart (J12)"
    page = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    assert f"| {keys['RestartPreventExitStatus'][0]} | the config or the command line is wrong" in page


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8").replace("/opt/hermes/bin/hermes", str(HERMES))
    assert str(HERMES) in text
    if (analyze := shutil.which("systemd-analyze")) is None:
        return  # the other tests hold what they can without it
    (tmp_path / "hermes.service").write_text(text)
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(tmp_path / "hermes.service")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    own = [line for line in done.stderr.splitlines() if "hermes.service" in line]
    assert (done.returncode, own) == (0, [])


def test_the_container_installs_every_package_that_comes_with_the_program() -> None:
    (install,) = [text for name, text in instructions() if name == "RUN" and "$(sed" in text]
    listing = install[install.index("$(") + 2 : install.rindex(")")]
    done = subprocess.run(["sh", "-c", listing], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = done.stdout.split()
    wanted = re.findall(r"^-e (\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(".[http]" if one == "." else f"./{one}" for one in wanted)
    named = re.findall(r"\./adapters/\w+", install[install.rindex(")") :])
    assert named
    assert [one for one in (*listed[1:], *named) if not (ROOT / one / "pyproject.toml").exists()] == []


def test_what_the_container_runs_is_a_call_of_hermes_and_its_variables_are_keys() -> None:
    known = dict(instructions())
    assert json.loads(known["ENTRYPOINT"]) == ["hermes"]
    command, options = parse(json.loads(known["CMD"]))
    assert command.NAME == ("run",)
    assert options.log_json
    config = Config.of({}, variables())
    assert config.given("http")
    assert f":{config.http.port}/health" in known["HEALTHCHECK"]
    assert str(config.runtime.data_dir) == known["VOLUME"]


@pytest.mark.slow
def test_the_commands_of_the_container_give_a_program_that_runs_and_is_healthy(tmp_path: Path) -> None:
    source, program, data = tmp_path / "src", tmp_path / "opt", tmp_path / "data"
    for folder in (source, data):
        folder.mkdir()
    packed = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    (tmp_path / "src.tar").write_bytes(packed)
    with tarfile.open(tmp_path / "src.tar") as archive:
        archive.extractall(source, filter="data")
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HERMES", "PYTHON", "VIRTUAL"))
    }
    for name, text in instructions():
        if name == "RUN" and "/opt/hermes" in text:
            line = text.replace("/opt/hermes", str(program))
            subprocess.run(
                ["sh", "-ec", line], cwd=source, env=own, check=True, timeout=600, capture_output=True
            )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environ = {
        name: value.replace("/data", str(data)).replace("8765", port) for name, value in variables().items()
    }
    environ["PATH"] = f"{program}/bin:{own['PATH']}"
    known = dict(instructions())
    check = [word.replace("8765", port) for word in json.loads(known["HEALTHCHECK"].partition("CMD ")[2])]
    words = [str(program / "bin/hermes"), *json.loads(known["CMD"])]
    with subprocess.Popen(words, cwd=data, env=own | environ, stderr=subprocess.PIPE, text=True) as running:
        try:
            until = time.monotonic() + 60
            while subprocess.run(check, check=False, capture_output=True, timeout=30).returncode:
                assert running.poll() is None
                assert time.monotonic() < until
                time.sleep(0.1)
        finally:
            running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
