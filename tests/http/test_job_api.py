"""The table of the HTTP Job API, cell by cell, over real sockets (H, E8, E9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermes_core.config import Config
from hermes_core.errors import StoreUnwritable
from hermes_core.hookspecs import hookimpl
from hermes_core.http.gate import Gate
from hermes_core.http.site import application
from hermes_core.messages import Address
from hermes_core.route import Request, Response, Route, Site
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.virtual import run
from tests.http.inside import Inside, problem

HERE = Address("http", "local", "jobs")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[Inside]:
    async with Inside(tmp_path) as one:
        yield one


# ---- POST /jobs


async def test_a_start_is_accepted_with_its_place(house: Inside) -> None:
    answer = await house.start("hold", arguments={"name": "a"})
    assert answer.status_code == 202
    assert set(answer.json()) == {"job_id", "status"}
    assert answer.json()["status"] == "queued"
    assert answer.headers["location"] == f"/jobs/{answer.json()['job_id']}"
    assert answer.headers["cache-control"] == "no-store"
    assert int(answer.headers["retry-after"]) >= 1


async def test_the_same_key_and_body_give_the_same_job_and_run_it_once(house: Inside) -> None:
    first = await house.job("echo", "k", text="x")
    await house.until(first, "done")
    again = await house.start("echo", "k", arguments={"text": "x"})
    assert again.status_code == 202
    assert again.json() == {"job_id": first, "status": "done"}
    assert "retry-after" not in again.headers
    assert house.hands.begun == ["x"]


async def test_a_key_is_the_same_bare_and_quoted(house: Inside) -> None:
    ids = {await house.job("echo", key, text="x") for key in ("ab", '"ab"')}
    assert len(ids) == 1
    assert await house.job("echo", '"a\\"b"', text="x") not in ids


@pytest.mark.parametrize(
    "other",
    [
        {"arguments": {"text": "y"}},
        {"arguments": {"text": "x"}, "deadline": "1h"},
        {"arguments": {"text": "x"}, "tool": "fail"},
    ],
    ids=["arguments", "deadline", "tool"],
)
async def test_the_same_key_with_another_body_is_refused(house: Inside, other: dict[str, Any]) -> None:
    await house.job("echo", "k", text="x")
    if other.get("tool") == "fail":
        other = {"tool": "fail"}
    body = {"tool": "echo", **other}
    answer = await house.client.post("/jobs", json=body, headers={"Idempotency-Key": "k"})
    assert "another body" in problem(answer, 422)["detail"]


@pytest.mark.parametrize("key", ["", '""', '"  "', '"a', "a b", "a,b", '"a" "b"', "x" * 256, "\u00e9"])
async def test_what_is_no_key_is_refused(house: Inside, key: str) -> None:
    answer = await house.client.post(
        "/jobs", json={"tool": "echo"}, headers=[(b"Idempotency-Key", key.encode("latin-1"))]
    )
    assert "Idempotency-Key" in problem(answer, 400)["detail"]
    assert await house.store.jobs() == []


async def test_no_key_and_two_keys_are_refused(house: Inside) -> None:
    problem(await house.client.post("/jobs", json={"tool": "echo"}), 400)
    two = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    problem(await house.client.post("/jobs", json={"tool": "echo"}, headers=two), 400)


async def post(house: Inside, body: bytes, kind: str = "application/json") -> httpx.Response:
    headers = {"Idempotency-Key": "k", "Content-Type": kind}
    return await house.client.post("/jobs", content=body, headers=headers)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b'{"tool": "\\ud800"}', b"[" * 100_000],
    ids=["empty", "cut off", "no text", "half a character", "deep"],
)
async def test_what_is_no_json_is_refused(house: Inside, body: bytes) -> None:
    problem(await post(house, body), 400)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[]", "object"),
        (b"{}", "tool"),
        (b'{"tool": ""}', "tool"),
        (b'{"tool": 3}', "tool"),
        (b'{"tool": "echo", "tols": 1}', "tols"),
        (b'{"tool": "echo", "arguments": []}', "arguments"),
        (b'{"tool": "echo", "arguments": {"texts": "x"}}', "texts"),
        (b'{"tool": "echo", "arguments": {"text": [1]}}', "text"),
        (b'{"tool": "hold"}', "name"),
        (b'{"tool": "echo", "deadline": "soon"}', "30m"),
        (b'{"tool": "echo", "deadline": 0}', "longer"),
        (b'{"tool": "echo", "deadline": -1}', "duration"),
        (b'{"tool": "echo", "deadline": "9999d"}', "366"),
        (b'{"tool": "echo", "deadline": true}', "deadline"),
        (b'{"tool": "echo", "depends_on": ["jnone"]}', "jnone"),
        (b'{"tool": "echo", "depends_on": "jnone"}', "depends_on"),
        (b'{"tool": "ecko"}', "Did you mean 'echo'"),
        (b'{"tool": "start_echo"}', "Did you mean 'echo'"),
        (b'{"tool": "zzz"}', "There are: command, echo"),
        (b'{"tool": "echo", "callback_url": "https://example.org/"}', "secret_env"),
    ],
)  # fmt: skip
async def test_a_body_that_does_not_fit_is_refused_in_words(house: Inside, body: bytes, said: str) -> None:
    assert said in problem(await post(house, body), 422)["detail"]
    assert await house.store.jobs() == []


async def test_only_json_and_not_too_much_of_it_is_taken(house: Inside) -> None:
    problem(await post(house, b'{"tool": "echo"}', "text/plain"), 415)
    assert (await post(house, b'{"tool": "echo"}', "Application/JSON; charset=utf-8")).status_code == 202
    problem(await post(house, b" " * 300_000), 413)

    async def pieces() -> AsyncIterator[bytes]:  # without a length
        for _ in range(30):
            yield b" " * 10_000

    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    problem(await house.client.post("/jobs", content=pieces(), headers=headers), 413)


@pytest.mark.parametrize(("deadline", "seconds"), [("1h30m", 5400), (90, 90), ("90", 90), (0.5, 0.5)])
async def test_a_deadline_is_a_duration_or_seconds(house: Inside, deadline: Any, seconds: float) -> None:
    """(E9)"""
    answer = await house.start("hold", arguments={"name": "a"}, deadline=deadline)
    job = await house.store.job(answer.json()["job_id"])
    assert job.deadline - job.created == pytest.approx(seconds)


async def test_a_deadline_that_passes_ends_the_job_and_the_api_says_so(house: Inside) -> None:
    answer = await house.start("hold", arguments={"name": "a"}, deadline=0.05)
    facts = await house.until(answer.json()["job_id"], "timed_out")
    assert facts["ended_at"] is not None


async def test_a_job_waits_for_those_it_depends_on(house: Inside) -> None:
    """(J4)"""
    first = await house.job("hold", "a", name="first")
    answer = await house.start("echo", "b", arguments={"text": "second"}, depends_on=[first])
    second = answer.json()["job_id"]
    assert (await house.client.get(f"/jobs/{second}")).json()["depends_on"] == [first]
    await house.until_begun("first")
    house.hands.go.set()
    await house.until(second, "done")
    assert house.hands.begun == ["first", "second"]


async def test_of_fifty_starts_with_one_key_one_runs(house: Inside) -> None:
    """(J3)"""
    limits = httpx.Limits(max_connections=50)
    async with httpx.AsyncClient(base_url=house.url, trust_env=False, limits=limits) as client:
        body = {"tool": "echo", "arguments": {"text": "x"}}
        answers = await asyncio.gather(
            *(client.post("/jobs", json=body, headers={"Idempotency-Key": "k"}) for _ in range(50))
        )
    assert {answer.status_code for answer in answers} <= {202, 409}
    ids = {answer.json()["job_id"] for answer in answers if answer.status_code == 202}
    assert len(ids) == 1
    await house.until(ids.pop(), "done")
    assert house.hands.begun == ["x"]


class Slow:
    """A store that takes no job before it is let go, and refuses while its disk is full."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.full = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def add_job(self, job: Any) -> Any:
        self.asked.set()
        await self.go.wait()
        if self.full:
            raise StoreUnwritable("The disk at /var/secret/place is full.")
        return await self._store.add_job(job)


async def test_while_the_first_is_being_accepted_a_second_is_told_so(tmp_path: Path) -> None:
    store = Slow()
    async with Inside(tmp_path, store=store) as house:
        first = asyncio.create_task(house.start("echo"))
        await store.asked.wait()
        second = await house.start("echo")
        assert "accepted" in problem(second, 409)["detail"]
        assert int(second.headers["retry-after"]) >= 1
        other = asyncio.create_task(house.start("echo", "another"))
        store.go.set()
        assert (await first).status_code == (await other).status_code == 202
        assert (await house.start("echo")).json()["job_id"] == (await first).json()["job_id"]


async def test_a_full_disk_accepts_nothing_and_says_so_without_its_path(tmp_path: Path) -> None:
    """(D7)"""
    store = Slow()
    store.go.set()
    store.full = True
    async with Inside(tmp_path, store=store) as house:
        answer = await house.start("echo")
        assert "retry-after" in answer.headers
        assert "/var" not in problem(answer, 503)["detail"]
        store.full = False
        assert (await house.start("echo")).status_code == 202, "the key is free again"


async def test_a_job_outside_any_chat_has_an_address_and_no_event(house: Inside) -> None:
    id_ = await house.job("echo", text="x")
    await house.until(id_, "done")
    job = await house.store.job(id_)
    assert (job.address, job.notify) == (HERE, False)
    assert str(job.address).startswith("http:local")
    assert await house.store.waiting(HERE) == []
    assert await house.store.open_work() == []


# ---- GET /jobs/{id}


async def test_a_job_is_shown_as_it_stands(house: Inside) -> None:
    id_ = await house.job("hold", name="a")
    await house.until_begun("a")
    answer = await house.client.get(f"/jobs/{id_}")
    facts = answer.json()
    assert answer.status_code == 200
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["cache-control"] == "no-store"
    assert (facts["job_id"], facts["tool"], facts["status"]) == (id_, "hold", "running")
    assert facts["progress"] == {"fraction": 0.5, "text": "half way"}
    assert facts["created_at"].endswith("Z")
    assert (facts["started_at"] is None, facts["ended_at"]) == (False, None)
    house.hands.go.set()
    facts = await house.until(id_, "done")
    assert facts["summary"] == "let go"
    assert "retry-after" not in (await house.client.get(f"/jobs/{id_}")).headers


async def test_who_knows_it_as_it_is_gets_no_body(house: Inside) -> None:
    id_ = await house.job("hold", name="a")
    await house.until_begun("a")
    tag = (await house.client.get(f"/jobs/{id_}")).headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = await house.client.get(f"/jobs/{id_}", headers={"If-None-Match": known})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
        assert "retry-after" in answer.headers
    house.hands.go.set()
    await house.until(id_, "done")
    answer = await house.client.get(f"/jobs/{id_}", headers={"If-None-Match": tag})
    assert answer.status_code == 200
    assert answer.headers["etag"] != tag


@pytest.mark.parametrize("path", ["/jobs/jnone", "/jobs/jnone/result", "/jobs/%00", "/jobs/%F0%9F%92%A7"])
async def test_an_unknown_job_is_not_found(house: Inside, path: str) -> None:
    problem(await house.client.get(path), 404)


async def test_an_unknown_job_is_not_stopped(house: Inside) -> None:
    problem(await house.client.delete("/jobs/jnone"), 404)


# ---- DELETE /jobs/{id}


async def test_a_stop_is_a_request_and_its_end_is_told(house: Inside) -> None:
    """(J5)"""
    id_ = await house.job("hold", name="a")
    await house.until_begun("a")
    answer = await house.client.delete(f"/jobs/{id_}")
    assert answer.status_code == 202
    assert answer.json()["job_id"] == id_
    await house.until(id_, "cancelled")
    again = problem(await house.client.delete(f"/jobs/{id_}"), 409)
    assert again["job_status"] == "cancelled"


async def test_a_job_that_has_ended_is_not_stopped(house: Inside) -> None:
    """(J5)"""
    id_ = await house.job("echo")
    await house.until(id_, "done")
    assert problem(await house.client.delete(f"/jobs/{id_}"), 409)["job_status"] == "done"


# ---- everything else


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/jobs", "POST"),
        ("PUT", "/jobs/j", "DELETE, GET, HEAD"),
        ("POST", "/jobs/j/result", "GET, HEAD"),
        ("POST", "/health", "GET, HEAD"),
        ("OPTIONS", "/jobs", "POST"),
        ("TRACE", "/jobs", "POST"),
    ],
)
async def test_what_a_path_cannot_do_is_named(house: Inside, method: str, path: str, allowed: str) -> None:
    answer = await house.client.request(method, path)
    problem(answer, 405)
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/", "/job", "/jobs/", "/jobs/a/b", "/jobs/a/result/", "/../etc/passwd"])
async def test_what_is_not_there_is_a_problem_as_well(house: Inside, path: str) -> None:
    problem(await house.client.get(path), 404)


async def test_health_is_open_and_says_nothing_else(house: Inside) -> None:
    answer = await house.client.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    head = await house.client.head("/health")
    assert (head.status_code, head.content) == (200, b"")


class Faulty:
    """A plugin whose route fails, with something in the fault that is nobody's business."""

    @hookimpl
    def hermes_routes(self, site: Site) -> Iterable[Route]:
        async def answer(request: Request) -> Response:
            raise ValueError("/var/secret/place a-token-of-some-length")

        return (
            Route("GET", "/faulty", answer),
            Route("GET", "/health", answer),
            Route("GET", "/jobs/{id}", answer),
        )


async def test_the_fault_of_a_route_is_its_own_and_tells_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """(P2, X2)"""
    async with Inside(tmp_path, plugins=[Faulty()]) as house:
        said = problem(await house.client.get("/faulty"), 500)["detail"]
        assert "secret" not in said
        assert "Traceback" not in said
        id_ = said.split()[-1].rstrip(".")
        assert id_ in caplog.text, "the log has more under the id that the caller was given"
        problem(await house.client.get("/jobs/none"), 404)
        assert (await house.client.get("/health")).status_code == 200, "nobody takes a path from another"
        assert "served already" in house.plugins.infos["extra0"].problem


def test_a_body_that_does_not_come_is_waited_for_no_longer_than_half_a_minute() -> None:
    sent: list[Any] = []

    async def never() -> Any:
        await asyncio.sleep(10_000)

    async def send(message: Any) -> None:
        sent.append(message)

    async def story() -> float:
        app = application((), Gate(Config()), str)
        headers = [(b"host", b"localhost"), (b"content-length", b"5")]
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/openapi.json",
            "headers": headers,
            "query_string": b"",
        }
        await app(scope, never, send)
        return asyncio.get_running_loop().time()

    assert run(story()) == 30
    assert sent[0]["status"] == 408
    assert (b"content-type", b"application/problem+json") in sent[0]["headers"]
