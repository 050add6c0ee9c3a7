"""A machine without the registry of npm is told so in a line and at once, not after minutes of silence."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from .npm import NotInstalled, install

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
SAYS: Final = {
    "refuses": b"",
    "hears and says nothing": b"",
    "is broken": b"HTTP/1.1 503 Sorry\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "does not know it": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "never comes to an end": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{",
}


class Registry:
    """A registry that `manner` is wrong with, on a free port until the test ends."""

    def __init__(self, manner: str) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/"
        self.manner = manner
        self.held: list[socket.socket] = []
        self.ended = threading.Event()
        self.threads: list[threading.Thread] = []
        if manner == "refuses":
            self.socket.close()
        else:
            self._begin(self._accept)

    def _begin(self, work: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self.threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one, _ = self.socket.accept()
                self.held.append(one)
                self._begin(self._answer, one)

    def _answer(self, one: socket.socket) -> None:
        with suppress(OSError):
            one.recv(4096)
            one.sendall(SAYS[self.manner])
            if b"close" in SAYS[self.manner]:
                one.close()
            while self.manner == "never comes to an end" and not self.ended.wait(0.2):
                one.sendall(b" ")

    def close(self) -> None:
        self.ended.set()
        for one in (self.socket, *self.held):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self.threads:
            thread.join(10)


@pytest.fixture(params=list(SAYS))
def registry(request: pytest.FixtureRequest) -> Iterator[Registry]:
    there = Registry(request.param)
    yield there
    there.close()


def test_a_registry_that_gives_nothing_is_given_up_in_time_and_in_one_line(
    tmp_path: Path, registry: Registry
) -> None:
    began = time.monotonic()
    with pytest.raises(NotInstalled) as caught:
        install(
            tmp_path / "here",
            ["a-package@1.0.0"],
            6.0,
            HOME=str(tmp_path),
            npm_config_registry=registry.url,
            npm_config_cache=str(tmp_path / "cache"),
            npm_config_fetch_timeout="1000",
        )
    assert time.monotonic() - began < 30  # npm alone would take minutes
    (line,) = str(caught.value).splitlines()
    assert line.startswith("npm could not install a-package@1.0.0: ")
    assert line.endswith("not done after 6 s") or registry.url in line
    assert not (tmp_path / "here" / "complete").exists()


def test_what_is_there_completely_is_not_asked_for_again(tmp_path: Path) -> None:
    (tmp_path / "complete").touch()
    assert install(tmp_path, ["a-package@1.0.0"], 0.0) == tmp_path / "node_modules"
