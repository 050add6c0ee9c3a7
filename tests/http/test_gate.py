"""Who may call: the token, or nobody but this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_core.config import Config
from hermes_core.errors import ConfigError
from hermes_core.http.gate import Gate, is_loopback
from hermes_core.testing.memory import MemoryStore
from tests.http.inside import ENVIRON, Inside, problem

TOKEN = ENVIRON["TOKEN"]


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True), ("127.8.8.8", True), ("localhost", True), ("LocalHost.", True), ("a.localhost", True),
        ("::1", True), ("[::1]", True), ("0.0.0.0", False), ("::", False), ("192.168.1.1", False), ("", False),
        ("example.org", False), ("localhost.example.org", False), ("127.0.0.1.example.org", False),
        ("2130706433", False),
    ],
)  # fmt: skip
def test_a_loopback_host_is_known(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org"])
def test_without_a_token_only_loopback_is_served(host: str) -> None:
    with pytest.raises(ConfigError, match="token"):
        Gate(Config.of({"http": {"host": host}}))
    assert Gate(Config.of({"http": {"host": host, "token_env": "TOKEN"}}, ENVIRON)).has_token


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer wrong",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN} x",
        "Bearer \u00e9",
    ],
)
async def test_a_wrong_token_is_refused(tmp_path: Path, given: str) -> None:
    async with Inside(tmp_path, config={"http": {"port": 0, "token_env": "TOKEN"}}) as house:
        headers = [(b"authorization", given.encode("latin-1"))] if given else []
        for method, path in (
            ("GET", "/jobs/x"),
            ("DELETE", "/jobs/x"),
            ("GET", "/jobs/x/result"),
            ("POST", "/jobs"),
        ):
            answer = await house.client.request(method, path, headers=headers)
            problem(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert TOKEN not in answer.text


async def test_the_right_token_is_let_in_from_anywhere_and_has_keys_of_its_own(tmp_path: Path) -> None:
    async with Inside(tmp_path, config={"http": {"port": 0, "token_env": "TOKEN"}}) as house:
        house.client.headers = {"Authorization": f"bearer {TOKEN}", "Host": "hermes.example.org"}
        id_ = await house.job("echo", "k", text="x")
        await house.until(id_, "done")
        assert str((await house.store.job(id_)).address) == "http:token:jobs"


async def test_two_tokens_in_one_request_are_none(tmp_path: Path) -> None:
    async with Inside(tmp_path, config={"http": {"port": 0, "token_env": "TOKEN"}}) as house:
        two = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {TOKEN}")]
        problem(await house.client.get("/jobs/x", headers=two), 401)


async def test_health_and_the_document_need_no_token(tmp_path: Path) -> None:
    async with Inside(tmp_path, config={"http": {"port": 0, "token_env": "TOKEN"}}) as house:
        assert (await house.client.get("/health")).status_code == 200
        document = (await house.client.get("/openapi.json")).json()
        assert document["paths"]["/jobs"]["post"]["security"] == [{"token": []}]
        assert "security" not in document["paths"]["/health"]["get"]


@pytest.mark.parametrize(
    "host", ["evil.example.org", "evil.example.org:80", "localhost.evil.org", "10.0.0.1", "[fe80::1]:80"]
)
async def test_a_web_page_cannot_call_under_a_name_of_its_own(tmp_path: Path, host: str) -> None:
    """A name that suddenly stands for 127.0.0.1 (DNS rebinding) is not the name of this machine."""
    async with Inside(tmp_path) as house:
        problem(await house.client.get("/jobs/x", headers={"Host": host}), 403)


@pytest.mark.parametrize("host", ["localhost", "localhost:8765", "127.0.0.1:1", "[::1]:8765", "x.localhost"])
async def test_this_machine_is_served_under_its_names(tmp_path: Path, host: str) -> None:
    async with Inside(tmp_path) as house:
        problem(await house.client.get("/jobs/x", headers={"Host": host}), 404)


async def test_the_keys_of_one_caller_are_not_those_of_another(tmp_path: Path) -> None:
    store = MemoryStore()
    async with Inside(tmp_path, store=store) as house:
        local = await house.job("echo", "k", text="x")
        await house.until(local, "done")
    async with Inside(tmp_path, config={"http": {"port": 0, "token_env": "TOKEN"}}, store=store) as house:
        house.client.headers["Authorization"] = f"Bearer {TOKEN}"
        other = await house.job("echo", "k", text="something else")
        await house.until(other, "done")
        assert other != local
        assert (await house.client.get(f"/jobs/{local}")).json()["status"] == "done", (
            "he is an owner, and sees all"
        )
