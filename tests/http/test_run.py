"""`hermes run` with `[http]`, as people and init systems run it: ports, signals, kill -9, restarts."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import httpx
import pytest

from tests.http.inside import SECRET
from tests.http.outside import PATIENCE, Outside
from tests.http.receiver import Receiver

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and process groups of POSIX")


def ends(server: Outside) -> tuple[int, str]:
    """One that cannot start."""
    process = server.begin().process
    assert process is not None
    return process.wait(PATIENCE), server.said()


def test_the_ready_line_names_a_free_port(tmp_path: Path) -> None:
    with Outside(tmp_path) as server:
        assert re.search(r"^ready: web http://127\.0\.0\.1:[1-9]\d+$", server.said(), re.MULTILINE)
        assert server.client.get("/health").json() == {"status": "ok"}


def test_ipv6_is_listened_on_where_it_is_asked_for(tmp_path: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with Outside(tmp_path, "http.host=::1") as server:
        assert server.url.startswith("http://[::1]:")
        assert server.client.get("/jobs/none").status_code == 404


def test_a_port_that_is_taken_ends_the_start_in_words(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, said = ends(Outside(tmp_path, f"http.port={taken.getsockname()[1]}"))
    assert code == 1
    assert "cannot listen" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        (("http.host=0.0.0.0",), "token_env"),
        (("http.host=::",), "token_env"),
        (("http.token_env=NOT_SET_ANYWHERE",), "NOT_SET_ANYWHERE"),
        (("jobs.callbacks.secret_env=NOT_SET_ANYWHERE",), "NOT_SET_ANYWHERE"),
    ],
    ids=["every address", "every address of IPv6", "no token", "no secret"],
)
def test_a_config_that_would_start_half_starts_nothing(
    tmp_path: Path, settings: tuple[str, ...], word: str
) -> None:
    code, said = ends(Outside(tmp_path, *settings))
    assert (code, "Traceback" in said) == (2, False)
    assert word in said
    assert not (tmp_path / "data").exists()


def test_with_a_token_it_may_be_reached_from_elsewhere(tmp_path: Path) -> None:
    with Outside(tmp_path, "http.host=0.0.0.0", "http.token_env=TOKEN", TOKEN="one-long-token") as server:
        assert server.client.get("/jobs/none").status_code == 401
        answer = server.client.get("/jobs/none", headers={"Authorization": "Bearer one-long-token"})
        assert answer.status_code == 404
        assert "one-long-token" not in server.said()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_in_order_also_with_requests_half_sent(tmp_path: Path, number: int) -> None:
    with Outside(tmp_path) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with (
            socket.create_connection((host, int(port))) as idle,
            socket.create_connection((host, int(port))) as half,
        ):
            half.sendall(b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            server.client.get("/health")
            code, seconds = server.stop(number)
            assert (code, idle.recv(1)) == (0, b"")
        assert seconds < 5
        assert "Traceback" not in server.said()


def test_a_job_goes_on_while_the_server_is_away(tmp_path: Path) -> None:
    """(J12)"""
    gate = tmp_path / "gate"
    line = f"echo begun; while [ ! -e {gate} ]; do sleep 0.02; done; echo ended"
    with Outside(tmp_path) as server:
        id_ = server.start(line, "k")
        server.until(id_, "running")
        server.kill()
    gate.touch()
    with Outside(tmp_path) as server:
        assert server.start(line, "k") == id_, "the same key is the same job, also after a kill -9"
        server.until(id_, "done")
        assert server.client.get(f"/jobs/{id_}/result").json()["output"] == "begun\nended\n"


def test_a_stop_after_a_restart_reaches_the_job(tmp_path: Path) -> None:
    with Outside(tmp_path) as server:
        id_ = server.start("sleep 600", "k")
        server.until(id_, "running")
        server.kill()
    with Outside(tmp_path) as server:
        assert server.client.delete(f"/jobs/{id_}").status_code == 202
        server.until(id_, "cancelled")


async def test_a_callback_survives_kill_9_at_any_time(tmp_path: Path) -> None:
    """Killed while the receiver has the first attempt and does not answer; and once more before that is over."""
    settings = ("jobs.callbacks.secret_env=CALLBACKS", "jobs.callbacks.allow_private=true")
    async with Receiver(None, None, 204) as receiver:

        def first() -> None:
            with Outside(tmp_path, *settings, CALLBACKS=SECRET) as server:
                server.start("echo done", "k", callback_url=receiver.url)
                assert came.wait(PATIENCE)

        def again() -> None:
            with Outside(tmp_path, *settings, CALLBACKS=SECRET):
                assert came.wait(PATIENCE)

        for number, run in enumerate((first, again, again), 1):
            came = threading.Event()
            running = asyncio.create_task(asyncio.to_thread(run))
            got = await receiver.wait(number)
            came.set()
            await running
        assert len({one.id for one in got}) == 1
        assert len({one.body for one in got}) == 1
        assert got[-1].verified(SECRET)["data"]["status"] == "done"


def test_no_request_leaves_a_trace_of_the_machine(tmp_path: Path) -> None:
    """(X2)"""
    with Outside(tmp_path, "jobs.callbacks.secret_env=CALLBACKS", CALLBACKS=SECRET) as server:
        host, port = server.url.removeprefix("http://").split(":")
        heard = b""
        for raw in (
            b"nonsense\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ):
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
                connection.sendall(raw)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(4096):
                    heard += piece
        assert b"HTTP/1.1 400" in heard
        for secret in (str(tmp_path).encode(), b"Traceback", SECRET.encode(), b'File "'):
            assert secret not in heard
        assert server.client.get("/health").status_code == 200


def test_a_start_without_a_server_loads_none() -> None:
    code = "import sys, hermes_core.runtime, hermes_core.cli.run, hermes_jobs.plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"starlette", "uvicorn", "httpx", "httpcore", "standardwebhooks"} & set(loaded.split())


def test_starts_that_a_kill_9_came_between_are_done_once_when_they_are_repeated(tmp_path: Path) -> None:
    """(J3, J12) A caller repeats what he got no answer to, over eight deaths of the server at any instant."""
    log = tmp_path / "log"
    random = Random(5)
    keys = [f"key-{number}" for number in range(60)]
    answered: dict[str, str] = {}

    def call(server: Outside, key: str) -> None:
        id_ = server.start(f"echo {key} >> {log}", key)
        assert answered.setdefault(key, id_) == id_, "the same key is the same job, whatever came between"

    for _ in range(8):
        with Outside(tmp_path) as server:
            killer = threading.Timer(random.uniform(0.0, 0.08), server.kill)
            killer.start()
            with contextlib.suppress(httpx.TransportError):
                for key in random.sample(keys, len(keys)):
                    call(server, key)
            killer.join()
    with Outside(tmp_path) as server:
        for key in keys:
            call(server, key)
        for id_ in answered.values():
            server.until(id_, "done")
    assert sorted(log.read_text().split()) == sorted(keys)
    assert len(set(answered.values())) == len(keys)
