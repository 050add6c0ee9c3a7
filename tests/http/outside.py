"""`hermes run` as a process of its own, with its server; killed and started again as a test wants."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

import hermes_core

PATIENCE = 30.0  # seconds; what is waited for takes far less on an idle machine


class Outside:
    """`with Outside(folder, "http.port=0") as server: server.client.get(…)`; settings as for `--set`."""

    def __init__(self, folder: Path, *settings: str, **environ: str) -> None:
        self.folder = folder
        self._settings = ("http.port=0", "plugins.shell.enabled=true", *settings)
        self._environ = environ
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.client: httpx.Client
        self.errors = folder / "errors"

    def begin(self) -> Self:
        """Start it, without waiting for anything."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES", "XDG_"))}
        root = str(Path(hermes_core.__file__).parents[1])
        own |= {
            "HOME": str(self.folder),
            "PYTHONPATH": os.pathsep.join(filter(None, (root, own.get("PYTHONPATH", "")))),
        }
        settings = (f"runtime.data_dir={self.folder / 'data'}", *self._settings)
        options = [word for one in settings for word in ("--set", one)]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hermes_core", "run", *options],
                cwd=self.folder,
                env=own | self._environ,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        return self

    def __enter__(self) -> Self:
        self.begin()
        assert self.process is not None
        end = time.monotonic() + PATIENCE
        while (found := re.search(r"^ready: .*web (http://\S+)$", self.said(), re.MULTILINE)) is None:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < end, self.said()
            time.sleep(0.01)
        self.url = found[1]
        self.client = httpx.Client(base_url=self.url, trust_env=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self.kill()

    def said(self) -> str:
        """Everything it wrote."""
        return self.errors.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """A signal; gives the exit code and the seconds that it took."""
        assert self.process is not None
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(PATIENCE), time.monotonic() - began

    def start(self, line: str, key: str, **more: object) -> str:
        """A command as a job; gives its id."""
        body = {"tool": "command", "arguments": {"command": line}, **more}
        answer = self.client.post("/jobs", json=body, headers={"Idempotency-Key": key})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job_id"])

    def until(self, id_: str, *states: str) -> dict[str, object]:
        """Wait until the job is in one of these states."""
        end = time.monotonic() + PATIENCE
        while True:
            facts: dict[str, object] = self.client.get(f"/jobs/{id_}").json()
            if facts["status"] in states:
                return facts
            assert time.monotonic() < end, facts
            time.sleep(0.02)
