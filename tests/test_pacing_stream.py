"""A streamed text always ends whole, once, whatever the platform did meanwhile (R3, case 35)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_core.errors import SendError
from hermes_core.pacing import (
    Action,
    Budget,
    Delete,
    Delta,
    Done,
    Edit,
    Failed,
    Finished,
    Live,
    Post,
    Rate,
    Refused,
    Slot,
    Stopped,
    Stream,
    Tempo,
    Tick,
    Want,
)
from hermes_core.testing.virtual import run

LIMIT = 20


def cut(text: str, final: bool) -> list[str]:
    """Messages of 20 characters; the final text is a little different, as a formatted one is."""
    text = text.replace("*", "") if final else text
    return [text[at : at + LIMIT] for at in range(0, len(text), LIMIT)]


class Chat:
    """What a platform shows: messages in the order in which they were posted."""

    def __init__(self) -> None:
        self.messages: dict[str, str] = {}
        self.edits = 0
        self.posted = 0

    def carry_out(self, action: Action) -> str:
        match action:
            case Post():
                self.posted += 1
                self.messages[str(self.posted)] = action.content
                return str(self.posted)
            case Edit():
                assert self.messages[action.id] != action.content, "an edit that changes nothing"
                self.messages[action.id] = action.content
                self.edits += 1
                return action.id
            case Delete():
                del self.messages[action.id]
                return action.id

    @property
    def text(self) -> str:
        return "".join(self.messages.values())


def settle(
    stream: Stream, chat: Chat, now: float, action: Action | None, at: float | None
) -> tuple[Stream, float]:
    """Let everything succeed until nothing is left to do."""
    for _ in range(200):
        if action is not None:
            stream, action, at = stream.step(Done(chat.carry_out(action)), now)
        elif at is not None:
            now = max(now, at)
            stream, action, at = stream.step(Tick(), now)
        else:
            return stream, now
    raise AssertionError("it never comes to rest")


# ---- its pace


def test_the_first_text_comes_when_there_is_something_to_read() -> None:
    stream = Stream(cut, Tempo(first_chars=5, first_after=2.0))
    stream, action, at = stream.step(Delta("He"), 10.0)
    assert (action, at) == (None, 12.0)
    stream, action, at = stream.step(Delta("llo"), 10.5)
    assert action == Post(0, "Hello", Want.STREAM_EDIT)
    assert at is None


def test_the_first_text_comes_after_a_while_however_short() -> None:
    stream, _, at = Stream(cut, Tempo(first_chars=5, first_after=2.0)).step(Delta("He"), 10.0)
    assert at == 12.0
    assert stream.step(Tick(), 12.0)[1] == Post(0, "He", Want.STREAM_EDIT)


def test_edits_keep_their_distance_and_a_longer_text_a_longer_one() -> None:
    for length, pause in ((1, 1.0), (8000, 3.0)):
        stream = Stream(lambda text, final: [text], Tempo(first_chars=1, every=1.0, slower=0.25))
        stream, _, _ = stream.step(Delta("x" * length), 0.0)
        stream, action, at = stream.step(Done("1"), 0.5)
        assert action is None
        stream, action, at = stream.step(Delta("y"), 0.6)
        assert action is None
        assert at is not None
        assert at == pytest.approx(0.5 + pause, abs=0.01)
        assert isinstance(stream.step(Tick(), at)[1], Edit)


def test_the_end_does_not_wait_for_the_next_edit_s_time() -> None:
    stream, _, _ = Stream(cut, Tempo(first_chars=1, every=60.0)).step(Delta("a"), 0.0)
    stream, _, _ = stream.step(Done("1"), 0.0)
    stream, action, _ = stream.step(Finished("ab"), 0.1)
    assert action == Edit(0, "1", "ab", Want.FINAL_EDIT)


def test_the_end_waits_for_what_the_platform_asked() -> None:
    stream, _, _ = Stream(cut, Tempo(first_chars=1)).step(Delta("a"), 0.0)
    stream, action, at = stream.step(Refused(200.0), 0.0)
    stream, action, at = stream.step(Finished("ab"), 1.0)
    assert (action, at) == (None, 200.0)
    stream, action, at = stream.step(Tick(), 200.0)
    assert action == Post(0, "ab", Want.FINAL_SEND, of=1)


def test_d5_an_edit_says_nothing_about_a_post_in_doubt() -> None:
    stream = Stream(cut, Tempo(first_chars=1), (Slot("1", "old"),), unsure=True)
    stream, action, _ = stream.step(Finished("a" * LIMIT + "b"), 0.0)
    assert isinstance(action, Edit)
    _, action, _ = stream.step(Done("1"), 0.1)
    assert action == Post(1, "b", Want.FINAL_SEND, repeat=True, of=2)


def test_no_edit_is_made_that_changes_nothing() -> None:
    stream, action, _ = Stream(cut, Tempo(first_chars=1)).step(Delta("same"), 0.0)
    stream, _, _ = stream.step(Done("1"), 0.0)
    stream, action, at = stream.step(Finished("same"), 5.0)
    assert (action, at, stream.finished, stream.ids) == (None, None, True, ("1",))


def test_finishing_twice_does_nothing_twice() -> None:
    chat = Chat()
    stream, now = settle(*after(Stream(cut), chat, Finished("whole text")))
    again, action, at = stream.step(Finished("whole text"), now)
    assert (action, at, again.finished, chat.posted) == (None, None, True, 1)


def after(
    stream: Stream, chat: Chat, event: Finished | Stopped | Delta
) -> tuple[Stream, Chat, float, Action | None, float | None]:
    stepped, action, at = stream.step(event, 0.0)
    return stepped, chat, 0.0, action, at


# ---- case 35


def test_case_35_the_last_edit_carries_the_whole_text_after_a_rate_limit() -> None:
    chat = Chat()
    stream, action, _ = Stream(cut, Tempo(first_chars=1)).step(Delta("The beginning"), 0.0)
    assert action is not None
    stream, _, _ = stream.step(Done(chat.carry_out(action)), 0.0)
    stream, _, at = stream.step(Delta(" and the tail"), 0.0)
    assert at is not None
    stream, action, _ = stream.step(Tick(), at)
    stream, action, at = stream.step(Refused(120.0), at)
    stream, action, at = stream.step(Finished("The beginning and the tail that is long"), 3.0)
    stream, _ = settle(stream, chat, 3.0, action, at)
    assert chat.text == "The beginning and the tail that is long"
    assert stream.ids == ("1", "2")


def test_case_35_a_shorter_final_text_leaves_no_remains() -> None:
    chat = Chat()
    stream, now = settle(*after(Stream(cut, Tempo(first_chars=1)), chat, Delta("*" * 45)))
    assert len(chat.messages) == 3
    stream, action, at = stream.step(Finished("short"), now)
    stream, _ = settle(stream, chat, now, action, at)
    assert chat.messages == {"1": "short"}
    assert stream.finished


def test_case_35_a_message_that_somebody_deleted_is_posted_again() -> None:
    chat = Chat()
    stream, now = settle(*after(Stream(cut, Tempo(first_chars=1)), chat, Delta("abc")))
    stream, action, at = stream.step(Finished("abcdef"), now)
    assert isinstance(action, Edit)
    chat.messages.clear()
    stream, action, at = stream.step(Failed(gone=True), now)
    stream, _ = settle(stream, chat, now, action, at)
    assert chat.messages == {"2": "abcdef"}
    assert stream.ids == ("2",)


def test_a_stream_that_breaks_is_closed_with_a_mark() -> None:
    chat = Chat()
    stream, now = settle(
        *after(Stream(lambda text, final: [text], Tempo(first_chars=1)), chat, Delta("```py\nx"))
    )
    stream, action, at = stream.step(Stopped("(interrupted)"), now)
    stream, _ = settle(stream, chat, now, action, at)
    assert chat.text == "```py\nx\n```\n\n(interrupted)"
    assert stream.finished


def test_a_stream_that_breaks_before_anybody_saw_it_shows_nothing() -> None:
    stream, _, _ = Stream(cut).step(Delta("a"), 0.0)
    stream, action, _ = stream.step(Stopped("(interrupted)"), 0.1)
    assert (action, stream.finished, stream.ids) == (None, True, ())


def test_after_a_crash_the_same_message_gets_its_end() -> None:
    chat = Chat()
    chat.messages["77"] = "half of the te"
    resumed = Stream(cut, slots=(Slot("77", "half of the te"),))
    stream, _ = settle(*after(resumed, chat, Finished("half of the text.")))
    assert chat.messages == {"77": "half of the text."}
    assert stream.ids == ("77",)


def test_a_post_whose_outcome_is_unknown_says_so_when_it_is_repeated() -> None:
    stream, _, at = Stream(cut).step(Finished("text"), 0.0)
    stream, _, at = stream.step(Failed(unknown=True), 0.0)
    assert at is not None
    assert stream.step(Tick(), at)[1] == Post(0, "text", Want.FINAL_SEND, repeat=True, of=1)


def test_a_text_is_cut_once_however_often_it_is_looked_at() -> None:
    times: list[tuple[str, bool]] = []

    def counting(text: str, final: bool) -> list[str]:
        times.append((text, final))
        return [text]

    stream, action, _ = Stream(counting, Tempo(first_chars=1)).step(Delta("text"), 0.0)
    assert action is not None
    stream, _, _ = stream.step(Done("1"), 0.0)
    stream, action, _ = stream.step(Finished("text."), 100.0)
    assert action is not None
    stream, _, _ = stream.step(Done("1"), 101.0)
    assert stream.finished
    assert times == [("text", False), ("text.", True)]
    stream = msgspec.structs.replace(stream, cut=lambda text, final: ["other"], finished=False)
    assert stream.step(Tick(), 102.0)[1] == Edit(0, "1", "other", Want.FINAL_EDIT)


def test_what_is_wanted_in_another_way_is_cut_anew() -> None:
    files = ["report"]
    stream, action, _ = Stream(lambda text, final: [text, *files]).step(Finished("Here it is"), 0.0)
    assert action == Post(0, "Here it is", Want.FINAL_SEND, of=2)
    files.clear()
    stream, action, _ = stream.step(Refused(0.0), 0.0)
    assert action == Post(0, "Here it is", Want.FINAL_SEND, of=1)
    stream, action, _ = stream.step(Done("1"), 0.0)
    assert stream.finished


def test_failures_are_repeated_less_and_less_often() -> None:
    stream, action, at = Stream(cut).step(Finished("text"), 0.0)
    now, pauses = 0.0, []
    for _ in range(9):
        stream, action, at = stream.step(Failed(), now)
        assert at is not None
        pauses.append(at - now)
        now = at
        stream, action, at = stream.step(Tick(), now)
        assert action is not None
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


# What may happen, in any order: text, time, and what becomes of the action that is under way.
WHAT = st.one_of(
    st.text("ab*", min_size=1, max_size=30).map(Delta),
    st.sampled_from(["done", "done", "done", "refused", "failed", "gone", "tick"]),
)


def story(
    events: list[Delta | str], chat: Chat, pauses: Iterator[float]
) -> tuple[Stream, str, float, Action | None]:
    """Play the events; gives the stream, all its text, the time, and the action that is under way."""
    stream, now, text = Stream(cut, Tempo(first_chars=3)), 0.0, ""
    action: Action | None = None
    for event in events:
        now += next(pauses)
        told: Delta | Tick | Done | Refused | Failed = Tick()
        if isinstance(event, Delta):
            text += event.text
            told = event
        elif action is not None and event != "tick":
            told = outcome(event, action, chat)
        running = action if isinstance(told, Delta | Tick) else None
        stream, action, _ = stream.step(told, now)
        assert running is None or action is None, "one action at a time"
        action = running or action
    return stream, text, now, action


def outcome(event: str, action: Action, chat: Chat) -> Done | Refused | Failed:
    if event == "done":
        return Done(chat.carry_out(action))
    if event == "refused":
        return Refused(30.0)
    if event == "gone" and not isinstance(action, Post):
        chat.messages.pop(action.id)
        return Failed(gone=True)
    return Failed()


@settings(deadline=None, max_examples=400)
@given(st.lists(WHAT, max_size=40), st.sampled_from(["done", "failed"]), st.randoms(use_true_random=False))
def test_case_35_whatever_happens_the_platform_ends_with_the_whole_text_once(events, last, random) -> None:  # type: ignore[no-untyped-def]
    chat = Chat()
    deleted = "gone" in events
    stream, text, now, action = story(events, chat, iter(lambda: random.uniform(0.0, 2.0), None))
    if action is not None:
        stream, action, _ = stream.step(outcome(last, action, chat), now)
    if action is not None:
        stream, action, at = stream.step(Done(chat.carry_out(action)), now)
    stream, action, at = stream.step(Finished(text + "."), now)
    stream, _ = settle(stream, chat, now, action, at)
    assert stream.finished
    assert not stream.hopeless
    assert sorted(stream.ids) == sorted(chat.messages)
    # A message that somebody deleted is posted again, below; every other order is the text's own.
    assert "".join(chat.messages[one] for one in stream.ids) == (text + ".").replace("*", "")
    assert deleted or chat.text == (text + ".").replace("*", "")


@settings(deadline=None, max_examples=200)
@given(st.lists(WHAT, max_size=40), st.randoms(use_true_random=False))
def test_a_break_leaves_nothing_hanging_whatever_happened(events, random) -> None:  # type: ignore[no-untyped-def]
    chat = Chat()
    stream, text, now, action = story(events, chat, iter(lambda: random.uniform(0.0, 2.0), None))
    stream, more, at = stream.step(Stopped("END"), now)
    stream, _ = settle(stream, chat, now, action or more, at)
    assert stream.finished
    shown = "".join(chat.messages[one] for one in stream.ids)
    assert shown in ("", f"{text}\n\nEND".replace("*", ""))
    assert sorted(stream.ids) == sorted(chat.messages)


# ---- at work


class Platform(Chat):
    """A chat behind calls that take time and sometimes fail."""

    def __init__(self, troubles: list[SendError | None]) -> None:
        super().__init__()
        self.troubles = troubles
        self.calls: list[float] = []

    async def perform(self, action: Action) -> str:
        self.calls.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.05)
        trouble = self.troubles.pop(0) if self.troubles else None
        if trouble is not None:
            raise trouble
        return self.carry_out(action)


def live(platform: Platform) -> Live:
    clock = asyncio.get_running_loop().time
    budget = Budget(lambda chat: (Rate(1.0),), (Rate(30.0, burst=30),), clock)
    return Live(Stream(cut, Tempo(first_chars=3)), platform.perform, budget, "chat", clock)


TROUBLES = [
    pytest.param([], id="none"),
    pytest.param([None, SendError("slow down", retry_after=90.0)], id="429 in the middle"),
    pytest.param([None, None, SendError("cut"), SendError("502"), None, SendError("502")], id="failures"),
]


@pytest.mark.parametrize("troubles", TROUBLES)
def test_a_text_is_shown_while_it_is_written_and_ends_whole_within_the_budget(
    troubles: list[SendError | None],
) -> None:
    platform = Platform(list(troubles))

    async def tell() -> tuple[str, ...]:
        one = live(platform)
        async with asyncio.TaskGroup() as group:
            group.create_task(one.run())
            for _ in range(20):
                one.tell(Delta("abc"))
                await asyncio.sleep(0.2)
            return await one.finish("abc" * 20)

    ids = run(tell())
    assert platform.text == "abc" * 20
    assert ids == tuple(platform.messages)
    assert all(later - earlier >= 0.999 for earlier, later in itertools.pairwise(platform.calls))


def test_a_text_without_drafts_is_finished_alone() -> None:
    platform = Platform([SendError("slow down", retry_after=200.0)])

    async def tell() -> tuple[str, ...]:
        return await live(platform).finish("x" * 45)

    assert run(tell()) == ("1", "2", "3")
    assert platform.text == "x" * 45


def test_a_conversation_that_takes_nothing_any_more_is_said() -> None:
    platform = Platform([SendError("blocked by the person", permanent=True)])

    async def tell() -> None:
        with pytest.raises(SendError) as raised:
            await live(platform).finish("text")
        assert raised.value.permanent

    run(tell())


def test_a_break_is_shown_by_the_task_that_shows_the_text() -> None:
    platform = Platform([])

    async def tell() -> None:
        one = live(platform)
        async with asyncio.timeout(60.0), asyncio.TaskGroup() as group:
            group.create_task(one.run())
            one.tell(Delta("half of it"))
            await asyncio.sleep(0.2)
            one.tell(Stopped("END"))

    run(tell())
    assert platform.text == "half of it\n\nEND"


def test_a_call_that_was_cancelled_counts_as_unknown() -> None:
    platform = Platform([])

    async def tell() -> None:
        one = live(platform)
        task = asyncio.create_task(one.run())
        one.tell(Delta("half of it"))
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait({task})
        assert one.stream.unsure
        await one.finish("the whole of it")

    run(tell())
    assert platform.text == "the whole of it"
