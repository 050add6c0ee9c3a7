"""Callbacks: signed, tried again on schedule with the same event id, never two at a time, never lost (H)."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from standardwebhooks import Webhook

from hermes_core.config import Config
from hermes_core.errors import ConfigError, NoSuchJob, StoreUnwritable
from hermes_core.http import check
from hermes_core.job import Delivery, DeliveryState, Job, JobEnd, JobState, job_id
from hermes_core.messages import Address, Author
from hermes_core.route import Site
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.virtual import run
from hermes_jobs.http_callbacks import SCHEDULE, Callbacks, message_of
from hermes_jobs.http_guard import Forbidden
from tests.http.inside import SECRET, WITH_CALLBACKS, Inside, problem
from tests.http.receiver import Receiver

EPOCH = 1_700_000_000.0
HERE = Address("http", "local", "jobs")


def job(key: str = "k") -> Job:
    return Job(job_id(HERE, key), HERE, Author("local"), "build", "{}", key, "d", EPOCH, EPOCH + 60,
               notify=False, callback=f"https://example.org/{key}")  # fmt: skip


class Engine:
    """The jobs of a store, and whoever listens for their ends."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.told: list[Callable[[Job], None]] = []

    def events(self, told: Callable[[Job], None]) -> Callable[[], None]:
        self.told.append(told)
        return lambda: self.told.remove(told)

    async def status(self, id: str) -> Job:
        found = await self.store.job(id)
        if found is None:
            raise NoSuchJob("no")
        return found  # type: ignore[no-any-return]

    async def end(self, one: Job, state: JobState = JobState.DONE) -> None:
        await self.store.add_job(one)
        await asyncio.sleep(max(0.0, 2.0 - asyncio.get_running_loop().time()))
        ended = await self.store.end_job(one.id, JobEnd(state, EPOCH + 1.5, "all is well"))
        for told in self.told:
            told(ended.job)


class World:
    """A site in virtual time, with a receiver that answers from a list."""

    def __init__(self, *answers: int | Exception, store: Any = None) -> None:
        self.store = store or MemoryStore()
        self.engine = Engine(self.store)
        self.answers = list(answers)
        self.at: list[float] = []
        self.sent: list[tuple[str, Mapping[str, str], bytes]] = []
        self.now = self.most = 0
        self.takes = 0.0
        self.tasks: list[asyncio.Task[None]] = []
        site: Any = Site(self.engine, {}, self.store, self.spawn, self.wall, asyncio.sleep)  # type: ignore[arg-type]
        self.callbacks = Callbacks(site, SECRET, self.post)

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> object:
        self.tasks.append(asyncio.get_running_loop().create_task(coroutine, name=name))
        return self.tasks[-1]

    def wall(self) -> float:
        return EPOCH + asyncio.get_running_loop().time()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        self.at.append(asyncio.get_running_loop().time())
        self.sent.append((url, headers, body))
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.takes)
        self.now -= 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def over(self) -> None:
        await asyncio.gather(*self.tasks)

    def stop(self) -> None:
        for task in self.tasks:
            task.cancel()


def told(*answers: int | Exception) -> World:
    """Everything that becomes of one job's callback with these answers."""

    async def story() -> World:
        world = World(*answers)
        await world.callbacks.begin()
        await asyncio.sleep(10)
        await world.engine.end(job())
        await world.over()
        return world

    return run(story())


def delivery(world: World, key: str = "k") -> Delivery:
    async def look() -> Delivery | None:
        found: Delivery | None = await world.store.delivery(job(key).id)
        return found

    found = run(look())
    assert found is not None
    return found


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_what_is_taken_is_sent_once_and_at_once(status: int) -> None:
    world = told(status)
    assert world.at == [10.0]
    assert delivery(world).state is DeliveryState.DELIVERED


def test_what_is_not_taken_is_tried_again_on_schedule_until_it_is_given_up() -> None:
    world = told(500)
    expected, at = [], 10.0
    for pause in SCHEDULE:
        at += pause
        expected.append(at)
    assert world.at == pytest.approx(expected)
    assert SCHEDULE[:7] == (0, 5, 300, 1800, 7200, 18000, 36000)
    assert delivery(world).state is DeliveryState.GIVEN_UP
    assert delivery(world).attempts == len(SCHEDULE)


@pytest.mark.parametrize(
    "bad",
    [100, 301, 302, 307, 400, 401, 404, 408, 429, 500, 503, Forbidden(), OSError("x"), TimeoutError()],
    ids=str,
)
def test_only_a_2xx_is_success(bad: int | Exception) -> None:
    world = told(bad, bad, 204)
    assert world.at == pytest.approx([10.0, 15.0, 315.0])
    assert delivery(world).state is DeliveryState.DELIVERED
    assert delivery(world).attempts == 3


def test_a_receiver_that_is_gone_is_left_alone() -> None:
    world = told(410)
    assert world.at == [10.0]
    assert delivery(world).state is DeliveryState.GIVEN_UP


def test_an_attempt_that_never_ends_is_ended() -> None:
    async def story() -> World:
        world = World(204)
        world.takes = 100_000.0
        await world.callbacks.begin()
        await world.engine.end(job())
        await asyncio.sleep(16)
        assert [one.said for one in await world.store.open_deliveries()] == ["no answer within 15 s"]
        world.takes = 0.0
        await world.over()
        return world

    assert run(story()).at == pytest.approx([2.0, 22.0])


def test_each_attempt_has_the_same_id_and_body_and_a_time_and_signature_of_its_own() -> None:
    world = told(500, 500, 500, 204)
    assert len({(headers["webhook-id"], body) for _, headers, body in world.sent}) == 1
    assert len({headers["webhook-timestamp"] for _, headers, _ in world.sent}) == 4
    assert len({headers["webhook-signature"] for _, headers, _ in world.sent}) == 4
    assert all(url == "https://example.org/k" for url, _, _ in world.sent)


@pytest.mark.parametrize(
    ("state", "kind"),
    [("done", "job.completed"), ("failed", "job.failed"), ("cancelled", "job.cancelled"),
     ("timed_out", "job.timed_out"), ("lost", "job.lost")],
)  # fmt: skip
def test_the_message_says_how_the_job_ended(state: str, kind: str) -> None:
    async def story() -> World:
        world = World(204)
        await world.callbacks.begin()
        await world.engine.end(job(), JobState(state))
        await world.over()
        return world

    body = json.loads(run(story()).sent[0][2])
    assert body["type"] == kind
    assert body["timestamp"] == "2023-11-14T22:13:21.500Z"
    assert body["data"]["job_id"] == job().id
    assert body["data"]["status"] == state
    assert body["data"]["summary"] == "all is well"


def test_there_is_one_attempt_at_a_time_for_a_job_and_a_bounded_number_for_all() -> None:
    async def story() -> World:
        world = World(204)
        world.takes = 1.0
        await world.callbacks.begin()
        for number in range(50):
            await world.engine.end(job(str(number)))
        again = await world.engine.status(job("0").id)
        for listener in world.engine.told:
            listener(again)  # told of the same end once more
        await world.over()
        return world

    world = run(story())
    assert world.most == 16
    assert sorted(url for url, _, _ in world.sent) == sorted(f"https://example.org/{n}" for n in range(50))


def test_after_a_restart_it_goes_on_where_it_was() -> None:
    async def story() -> tuple[World, World]:
        first = World(500)
        await first.callbacks.begin()
        await first.engine.end(job())
        await asyncio.sleep(60)  # two attempts; the third is due at 307 s
        first.stop()
        second = World(204, store=first.store)
        await second.callbacks.begin()
        await second.over()
        return first, second

    first, second = run(story())
    assert first.at == pytest.approx([2.0, 7.0])
    assert second.at == pytest.approx([307.0])
    assert {headers["webhook-id"] for _, headers, _ in (*first.sent, *second.sent)} == {f"msg_{job().id}"}


def test_a_crash_in_the_middle_of_an_attempt_repeats_it() -> None:
    async def story() -> World:
        first = World(204)
        first.takes = 10.0
        await first.callbacks.begin()
        await first.engine.end(job())
        await asyncio.sleep(1)
        first.stop()
        second = World(204, store=first.store)
        await second.callbacks.begin()
        await second.over()
        assert first.sent[0][2] == second.sent[0][2]
        return second

    world = run(story())
    assert len(world.sent) == 1
    assert delivery(world).state is DeliveryState.DELIVERED


class Full(MemoryStore):
    """Takes a note only the third time."""

    refused = 0

    def note_delivery(self, delivery: Any) -> Any:
        if self.refused < 2:
            self.refused += 1
            raise StoreUnwritable("full")
        return super().note_delivery(delivery)


async def test_a_job_that_ends_with_the_program_calls_back_at_the_next_start(tmp_path: Path) -> None:
    """(J12) Its function is ended after the server, when nothing can be sent any more."""
    store = MemoryStore()
    async with Receiver() as receiver:
        async with Inside(tmp_path, config=WITH_CALLBACKS, store=store) as house:
            await house.start("hold", arguments={"name": "a"}, callback_url=receiver.url)
            await house.until_begun("a")
        assert receiver.connections == 0
        async with Inside(tmp_path, config=WITH_CALLBACKS, store=store):
            assert (await receiver.wait(1))[0].verified(SECRET)["data"]["status"] == "lost"


def test_a_full_disk_repeats_no_attempt() -> None:
    """(D7)"""

    async def story() -> World:
        world = World(204, store=Full())
        await world.callbacks.begin()
        await world.engine.end(job())
        await world.over()
        return world

    world = run(story())
    assert len(world.sent) == 1
    assert delivery(world).state is DeliveryState.DELIVERED


# ---- over real sockets


async def test_a_receiver_can_check_what_it_gets(tmp_path: Path) -> None:
    async with Receiver() as receiver, Inside(tmp_path, config=WITH_CALLBACKS) as house:
        answer = await house.start("echo", arguments={"text": "hello"}, callback_url=receiver.url)
        assert answer.status_code == 202
        got = (await receiver.wait(1))[0]
        assert got.line == "POST /hook HTTP/1.1"
        message = got.verified(SECRET)
        assert message["data"]["job_id"] == answer.json()["job_id"]
        assert message["data"]["summary"] == "hello"


async def test_a_stopped_job_calls_back_with_its_true_state(tmp_path: Path) -> None:
    """(J5)"""
    async with Receiver() as receiver, Inside(tmp_path, config=WITH_CALLBACKS) as house:
        answer = await house.start("hold", arguments={"name": "a"}, callback_url=receiver.url)
        await house.until_begun("a")
        await house.client.delete(answer.headers["location"])
        assert (await receiver.wait(1))[0].verified(SECRET)["data"]["status"] == "cancelled"


async def test_another_callback_is_another_body(tmp_path: Path) -> None:
    async with Inside(tmp_path, config=WITH_CALLBACKS) as house:
        assert (await house.start("echo", callback_url="http://127.0.0.1:9/a")).status_code == 202
        problem(await house.start("echo", callback_url="http://127.0.0.1:9/b"), 422)


async def test_an_address_inside_is_refused_unless_the_config_allows_it(tmp_path: Path) -> None:
    closed = {"jobs": {"callbacks": {"secret_env": "CALLBACKS"}}}
    async with Receiver() as receiver, Inside(tmp_path, config=closed) as house:
        answer = await house.start("echo", callback_url=receiver.url)
        assert "allow_private" in problem(answer, 422)["detail"]
        assert receiver.connections == 0


async def test_what_was_not_taken_is_sent_again_after_a_real_restart(tmp_path: Path) -> None:
    async with Receiver(503, 204) as receiver:
        store = await SQLiteStore.open(tmp_path)
        async with Inside(tmp_path, config=WITH_CALLBACKS, store=store) as house:
            id_ = (await house.start("echo", callback_url=receiver.url)).json()["job_id"]
            await receiver.wait(1)
            async with asyncio.timeout(10):
                while (noted := await store.delivery(id_)) is None or noted.attempts != 1:
                    await asyncio.sleep(0.01)
        await store.note_delivery(replace(noted, due=0.0))  # as if the five seconds were over
        async with Inside(tmp_path, config=WITH_CALLBACKS, store=store):
            got = await receiver.wait(2)
        await store.close()
        assert got[0].id == got[1].id
        assert got[0].body == got[1].body


@pytest.mark.parametrize("secret", ["whsec_", "whsec_?", "not base64!", "whsec_abc$"])
def test_what_is_no_secret_is_found_at_the_start_and_not_repeated(secret: str) -> None:
    config = Config.of(
        {"http": {}, "jobs": {"callbacks": {"secret_env": "CALLBACKS"}}}, {"CALLBACKS": secret}
    )
    with pytest.raises(ConfigError) as refused:
        check(config)
    assert "secret_env" in str(refused.value)
    assert secret not in str(refused.value) or secret == "whsec_"


def test_a_secret_that_is_named_and_not_there_is_found_at_the_start() -> None:
    config = Config.of({"http": {}, "jobs": {"callbacks": {"secret_env": "CALLBACKS"}}}, {})
    with pytest.raises(ConfigError, match="CALLBACKS"):
        check(config)


def test_a_message_is_signed_as_the_standard_says() -> None:
    ended = replace(job(), state=JobState.DONE, ended=EPOCH)
    headers, body = message_of(ended, Webhook(SECRET), EPOCH + 0.9)
    at = datetime.datetime.fromtimestamp(EPOCH, datetime.UTC)
    assert headers["webhook-timestamp"] == str(int(EPOCH))
    assert headers["webhook-signature"] == Webhook(SECRET).sign(headers["webhook-id"], at, body.decode())
