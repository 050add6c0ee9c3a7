"""JobContract: the part of `StoreContract` that is about jobs."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from hermes_core.errors import StoreError
from hermes_core.job import Delivery, DeliveryState, Job, JobAdded, JobEnd, JobState, event, job_id
from hermes_core.messages import Address, Author, Role
from hermes_core.store import Store

__all__ = ["JobContract", "job"]

HERE: Final = Address("test", "bot", "here")
THERE: Final = Address("test", "bot", "there", "thread:1 %")
FINAL: Final = [state for state in JobState if state.final]


def job(key: str, address: Address = HERE, **more: Any) -> Job:
    """A job of Ada's."""
    return Job(
        job_id(address, key),
        address,
        Author("42", "Ada"),
        "count",
        '{"of":"💧"}',
        key,
        "d",
        10.0,
        20.0,
        **more,
    )


def ended(state: JobState = JobState.DONE) -> JobEnd:
    """An end."""
    return JobEnd(state, 15.5, "a\tsummary 💧", "the\nresult\x00", 7)


class JobContract:
    """Give it a `store` fixture. Rules in brackets say what is tested."""

    async def test_a_job_comes_back_as_it_went_in(self, store: Store) -> None:
        first = (await store.add_job(job("first", THERE))).job
        full = job(
            "k\n\x00",
            THERE,
            role=Role.OWNER,
            depends_on=(first.id,),
            notify=False,
            callback="https://e.org/?a",
        )
        assert await store.add_job(full) == JobAdded(full, True, (), {first.id: JobState.QUEUED})
        assert await store.job(full.id) == full
        assert await store.job("nowhere") is None

    async def test_the_same_key_is_the_same_job(self, store: Store) -> None:
        """(J3)"""
        await store.add_job(job("k"))
        await store.run_job(job("k").id, 11.0, 1)
        again = await store.add_job(replace(job("k"), arguments="{}"))
        assert not again.fresh
        assert again.job == replace(job("k"), state=JobState.RUNNING, started=11.0, runs=1)
        assert (await store.add_job(job("k", THERE))).fresh, "another conversation has keys of its own"

    async def test_of_racing_starts_one_is_fresh(self, store: Store) -> None:
        """(J3)"""
        adding = [store.add_job(job("k")) for _ in range(50)]
        assert [(await one).fresh for one in adding] == [True] + [False] * 49

    async def test_what_depends_on_the_unknown_is_not_stored(self, store: Store) -> None:
        """(J4)"""
        known = (await store.add_job(job("a"))).job
        added = await store.add_job(job("b", depends_on=(known.id, "jx", "jy")))
        assert added.unknown == ("jx", "jy")
        assert [one.id for one in await store.jobs()] == [known.id]

    @pytest.mark.parametrize("state", FINAL)
    async def test_a_final_state_never_changes(self, store: Store, state: JobState) -> None:
        """(J2)"""
        one = (await store.add_job(job("k"))).job
        done = await store.end_job(one.id, ended(state))
        assert done.fresh
        assert done.job == replace(
            one, state=state, ended=15.5, summary="a\tsummary 💧", result="the\nresult\x00", cut=7
        )
        for other in FINAL:
            again = await store.end_job(one.id, JobEnd(other, 99.0, "late"), event(one))
            assert (again.job, again.fresh, again.entry) == (done.job, False, None)
        assert not await store.run_job(one.id, 99.0, 9)
        assert not await store.stop_job(one.id)
        await store.note_job(one.id, "late", 0.5)
        assert await store.job(one.id) == done.job
        assert await store.waiting(HERE) == []

    async def test_the_end_and_its_event_are_one(self, store: Store) -> None:
        """(J7)"""
        one = (await store.add_job(job("k"))).job
        told = event(replace(one, state=JobState.DONE, ended=15.5, summary="s"))
        done = await store.end_job(one.id, ended(), told)
        assert done.entry is not None
        assert done.entry.seq > 0
        assert await store.waiting(HERE) == [done.entry]
        assert not (await store.admit(told)).fresh, "it cannot come in a second time"

    async def test_what_is_no_end_or_no_job_changes_nothing(self, store: Store) -> None:
        one = (await store.add_job(job("k"))).job
        for state in (JobState.QUEUED, JobState.RUNNING):
            with pytest.raises(StoreError):
                await store.end_job(one.id, ended(state), event(one))
        with pytest.raises(StoreError):
            await store.end_job("nowhere", ended(), event(one))
        assert not await store.run_job("nowhere", 1.0, 1)
        assert not await store.stop_job("nowhere")
        assert await store.job(one.id) == one
        assert await store.waiting(HERE) == []

    async def test_progress_and_the_wish_to_stop_are_kept_while_it_runs(self, store: Store) -> None:
        """(J2, J5)"""
        one = (await store.add_job(job("k"))).job
        await store.note_job(one.id, "too early", 0.1)
        assert await store.run_job(one.id, 11.0, 1)
        await store.note_job(one.id, "half", 0.5)
        assert await store.stop_job(one.id)
        assert await store.run_job(one.id, 12.0, 2), "begun again by a later run"
        assert await store.job(one.id) == replace(
            one, state=JobState.RUNNING, started=12.0, runs=2, progress="half", fraction=0.5, stop=True
        )

    async def test_jobs_are_listed_newest_first_by_address_and_state(self, store: Store) -> None:
        ids = [(await store.add_job(job(str(n), HERE if n % 2 else THERE))).job.id for n in range(6)]
        for id_ in ids[:3]:
            await store.end_job(id_, ended())
        assert [one.id for one in await store.jobs()] == ids[::-1]
        assert [one.id for one in await store.jobs(limit=2)] == ids[:3:-1]
        assert [one.id for one in await store.jobs(HERE)] == [ids[5], ids[3], ids[1]]
        assert [one.id for one in await store.jobs(final=True)] == ids[2::-1]
        assert [one.id for one in await store.jobs(THERE, final=False)] == [ids[4]]
        assert [one.id for one in await store.open_jobs()] == ids[3:]

    async def test_results_that_are_too_old_are_taken_out_and_the_jobs_stay(self, store: Store) -> None:
        """(H)"""
        ids = [(await store.add_job(job(str(n)))).job.id for n in range(5)]
        for n, id_ in enumerate(ids[:4]):
            await store.end_job(id_, replace(ended(), at=100.0 + n, size=0 if n == 1 else 10))
        await store.run_job(ids[4], 1.0, 1)
        before = {id_: await store.job(id_) for id_ in ids}
        assert await store.purge_jobs(102.0, 1000, 500.0) == [ids[0], ids[2]]
        assert await store.purge_jobs(102.0, 1000, 501.0) == []
        for id_ in ids:
            was, now = before[id_], await store.job(id_)
            assert was is not None
            assert now == (replace(was, result="", purged=500.0) if id_ in (ids[0], ids[2]) else was)
        assert len(await store.jobs()) == 5

    async def test_the_oldest_results_are_taken_out_while_there_is_too_much(self, store: Store) -> None:
        """(H)"""
        ids = [(await store.add_job(job(str(n)))).job.id for n in range(5)]
        for n, id_ in enumerate(ids[:4]):
            await store.end_job(id_, replace(ended(), at=100.0 - n, size=10))
        assert await store.purge_jobs(0.0, 40, 500.0) == []
        assert await store.purge_jobs(0.0, 25, 500.0) == [ids[3], ids[2]]
        assert await store.purge_jobs(0.0, 25, 500.0) == []

    async def test_files_of_what_was_taken_out_are_named_until_they_are_gone(self, store: Store) -> None:
        ids = [(await store.add_job(job(str(n)))).job.id for n in range(3)]
        for id_ in ids:
            await store.end_job(id_, replace(ended(), at=100.0, size=10))
        assert await store.purged_jobs() == []
        await store.forget_outputs(ids[:1])
        await store.purge_jobs(100.0, 1000, 500.0)
        assert sorted(await store.purged_jobs()) == sorted(ids), "what was kept then is not forgotten"
        await store.forget_outputs(ids[:1])
        assert sorted(await store.purged_jobs()) == sorted(ids[1:])
        await store.forget_outputs(ids)
        assert await store.purged_jobs() == []

    async def test_a_callback_is_due_from_the_end_of_its_job_on(self, store: Store) -> None:
        """(H)"""
        plain = (await store.add_job(job("plain"))).job
        late = (await store.add_job(job("late", callback="https://example.org/late"))).job
        early = (await store.add_job(job("early", callback="https://example.org/early"))).job
        assert await store.delivery(late.id) is None, "it has not ended"
        for one, at in ((plain, 1.0), (late, 30.0), (early, 20.0)):
            await store.end_job(one.id, replace(ended(), at=at))
        await store.end_job(early.id, replace(ended(), at=99.0))
        assert await store.open_deliveries() == [Delivery(early.id, 20.0), Delivery(late.id, 30.0)]
        assert await store.delivery(plain.id) is None

    async def test_a_callback_waits_until_it_is_delivered_or_given_up(self, store: Store) -> None:
        """(H)"""
        one = (await store.add_job(job("k", callback="https://example.org/"))).job
        await store.end_job(one.id, ended())
        again = Delivery(one.id, 50.5, 1, DeliveryState.WAITING, "503 💧")
        await store.note_delivery(again)
        assert await store.open_deliveries() == [again]
        done = Delivery(one.id, 51.0, 2, DeliveryState.DELIVERED, "204")
        await store.note_delivery(done)
        await store.note_delivery(again)
        await store.note_delivery(Delivery("nowhere", 1.0))
        assert await store.open_deliveries() == []
        assert await store.delivery(one.id) == done
        assert await store.delivery("nowhere") is None
