"""The document that is served is true: a real server process answers as it says (schemathesis)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.outside import Outside

TOKEN = "a-token-for-a-test"
EXAMPLES = 40  # for each operation


@pytest.fixture(params=["local", "token"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outside]:
    settings = ("http.token_env=TOKEN",) if request.param == "token" else ()
    with Outside(tmp_path, *settings, TOKEN=TOKEN) as one:
        if request.param == "token":
            one.client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield one


def test_every_call_is_described(server: Outside) -> None:
    document = server.client.get("/openapi.json").json()
    found = {(method.upper(), path) for path, calls in document["paths"].items() for method in calls}
    assert found == {
        ("GET", "/health"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("POST", "/jobs"),
        ("GET", "/jobs/{id}"),
        ("DELETE", "/jobs/{id}"),
        ("GET", "/jobs/{id}/result"),
    }
    promised = {
        (call, status)
        for calls in document["paths"].values()
        for call, one in calls.items()
        for status in one["responses"]
    }
    assert {("post", "409"), ("get", "410"), ("delete", "409")} <= promised


def test_the_server_answers_as_its_document_says(server: Outside, tmp_path: Path) -> None:
    ended = server.start("echo there is something to read", "a-job-to-look-at")
    server.until(ended, "done")
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"),
        *("--max-examples", str(EXAMPLES), "--phases", "examples,coverage,fuzzing,stateful", "--seed", "7"),
        # What is in no schema: which tools there are, and what each takes. And DELETE stops a job, which stays.
        *(
            "--checks",
            "all",
            "--exclude-checks",
            "positive_data_acceptance,use_after_free",
            "--no-color",
            "--request-timeout",
            "20",
            "--suppress-health-check",
            "all",
        ),
    ]
    authorization = server.client.headers.get("Authorization")
    if authorization:
        command += ["--header", f"Authorization: {authorization}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    covered = re.search(r"API Links: +(\d+) covered", done.stdout)
    assert covered is not None
    assert int(covered[1]) >= 3, "jobs that were accepted were looked at, read and stopped"
    assert "Traceback" not in server.said()
    assert server.client.get("/health").status_code == 200
