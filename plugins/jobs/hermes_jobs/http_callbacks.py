"""Callbacks: tells a URL of the end of a job, signed, again and again until it is taken (H).

The delivery stands in the store from the transaction that ended the job on. Each attempt has the same
event id and body, so a receiver can tell a repetition; it is noted when it is over, so a crash in the
middle repeats it. One task for each job that waits, so never two attempts for one at a time.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar
from urllib.parse import urlsplit

import httpcore
import msgspec
from msgspec.structs import replace
from standardwebhooks import Webhook

from hermes_core.errors import NoSuchJob, StoreError
from hermes_core.job import Delivery, DeliveryState, Job, JobState
from hermes_core.route import Problem, Site
from hermes_jobs.http_bodies import moment
from hermes_jobs.http_guard import Forbidden, Guarded, is_public, literal

__all__ = ["SCHEDULE", "Callbacks", "Post", "check_url", "message_of", "post"]

log = logging.getLogger("hermes.jobs")
T = TypeVar("T")

SCHEDULE: Final = (0, 5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
"""Seconds before each attempt, from the one before; the last one that fails is the end of it."""

TIMEOUT: Final = 15.0  # seconds for one attempt as a whole
TOGETHER: Final = 16  # attempts at a time
STORE_PAUSE: Final = 5.0  # seconds until a note that the disk did not take is tried again
GONE: Final = 410  # the receiver wants no more

# ValueError: a host that no certificate can name
_NO_ANSWER: Final = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    OSError,
    ValueError,
)

Post = Callable[[str, Mapping[str, str], bytes], Awaitable[int]]
"""Sends a body once and gives the status; raises where there is none."""


class Callbacks:
    """Delivers from `begin` on, until its tasks are cancelled."""

    def __init__(self, site: Site, secret: str, post: Post) -> None:
        self._site = site
        self._webhook = Webhook(secret)
        self._post = post
        self._active: set[str] = set()
        self._places = asyncio.Semaphore(TOGETHER)

    async def begin(self) -> None:
        """Take up what waits, and listen for ends from now on."""
        self._site.jobs.events(self._told)
        for waiting in await self._site.store.open_deliveries():
            self._take(waiting.job)

    def _told(self, job: Job) -> None:
        if job.state.final and job.callback:
            self._take(job.id)

    def _take(self, id_: str) -> None:
        if id_ not in self._active:
            self._active.add(id_)
            self._site.spawn(self._deliver(id_), f"callback of job {id_}")

    async def _deliver(self, id_: str) -> None:
        """From the first attempt to the last."""
        try:
            job = await self._patiently(lambda: self._site.jobs.status(id_))
            delivery = await self._patiently(lambda: self._site.store.delivery(id_))
            while delivery is not None and delivery.state is DeliveryState.WAITING:
                await self._site.pause(max(0.0, delivery.due - self._site.wall()))
                async with self._places:
                    delivery = noted = await self._attempt(job, delivery)
                # Until the disk takes it: an attempt that is not noted would be made again.
                await self._patiently(functools.partial(self._site.store.note_delivery, noted))
        except NoSuchJob:
            log.error("the callback of job %s has no job", id_)
        finally:
            self._active.discard(id_)

    async def _attempt(self, job: Job, delivery: Delivery) -> Delivery:
        headers, body = message_of(job, self._webhook, self._site.wall())
        status = 0
        try:
            async with asyncio.timeout(TIMEOUT):
                status = await self._post(job.callback, headers, body)
            said = f"HTTP {status}"
        except Forbidden:
            said = "the address is not public"
        except TimeoutError:
            said = f"no answer within {TIMEOUT:.0f} s"
        except _NO_ANSWER as error:
            said = f"no answer: {type(error).__name__}"
        made = delivery.attempts + 1
        if 200 <= status < 300:
            state = DeliveryState.DELIVERED
        elif status == GONE or made >= len(SCHEDULE):
            state = DeliveryState.GIVEN_UP
        else:
            due = self._site.wall() + SCHEDULE[made]
            return replace(delivery, attempts=made, due=due, said=said)
        if state is DeliveryState.GIVEN_UP:
            log.warning("the callback of job %s is given up after %d attempts: %s", job.id, made, said)
        return replace(delivery, attempts=made, state=state, said=said)

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the store until it answers."""
        while True:
            try:
                return await ask()
            except StoreError as error:
                log.error("a callback waits for the store: %s", error)
            await self._site.pause(STORE_PAUSE)


def message_of(job: Job, webhook: Webhook, now: float) -> tuple[dict[str, str], bytes]:
    """Headers and body of the message about the end of `job`; of these only time and signature change."""
    name = "completed" if job.state is JobState.DONE else job.state.value
    body = msgspec.json.encode(
        {
            "type": f"job.{name}",
            "timestamp": moment(job.ended),
            "data": {
                "job_id": job.id,
                "tool": job.tool,
                "status": job.state.value,
                "summary": job.summary,
                "created_at": moment(job.created),
                "started_at": moment(job.started),
                "ended_at": moment(job.ended),
            },
        }
    )
    id_ = f"msg_{job.id}"
    at = datetime.datetime.fromtimestamp(int(now), datetime.UTC)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Hermes",
        "webhook-id": id_,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": webhook.sign(id_, at, body.decode()),
    }
    return headers, body


def post(guard: Guarded) -> Post:
    """Sends with connections that `guard` makes: a new one each time, no redirect, no proxy."""
    context = httpcore.default_ssl_context()

    async def send(url: str, headers: Mapping[str, str], body: bytes) -> int:
        async with httpcore.AsyncConnectionPool(context, network_backend=guard) as pool:
            limits = dict.fromkeys(("connect", "read", "write", "pool"), TIMEOUT)
            sent = pool.stream(
                "POST", url, headers=list(headers.items()), content=body, extensions={"timeout": limits}
            )
            async with sent as response:
                return int(response.status)  # what it says beside that is not read

    return send


def check_url(url: str, private: bool | None) -> None:
    """`Problem` for what can be no callback; `private`: None where callbacks are refused, else what is allowed."""
    if private is None:
        raise Problem(
            422,
            "callback_url: this server sends no callbacks, because it has no secret to sign them with.",
            "Set [jobs.callbacks] secret_env, or leave callback_url out and ask for the status.",
        )
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        parts.port  # noqa: B018 - raises for what is no port
    except ValueError as error:
        raise Problem(422, "callback_url: this is no URL.") from error
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable():
        raise Problem(422, "callback_url: write http:// or https:// and a host, in ASCII.")
    if " " in url or "\\" in url or "@" in parts.netloc:
        raise Problem(422, "callback_url: spaces, backslashes and user names do not belong there.")
    known = literal(host)
    inside = known is not None and not is_public(known)
    if (inside or host == "localhost" or host.endswith(".localhost")) and not private:
        raise Problem(
            422,
            "callback_url: private, loopback and link-local addresses are not called.",
            "[jobs.callbacks] allow_private = true allows it.",
        )
