"""Nothing is lost and nothing is done twice, whatever the platform and the connection do (D1, D5, D6, D7)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes_core.adapter import Broken, Drafted
from hermes_core.messages import Address, Outgoing, turn_key
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_core.writing import Draft, Journal
from hermes_slack.adapter import SlackAdapter

from .alone import HERE, Connected, Gate, app_of
from .house import House

# ---- in


async def test_slack_is_told_after_the_commit_and_not_before_d1(slack: FakeSlack) -> None:
    async with Connected(slack) as (_, gate):
        slack.world.say("D1", "UANN", "hello")
        await slack.until(lambda: bool(gate.received) or bool(slack.envelopes))
        while not gate.received:
            await asyncio.sleep(0)
        assert slack.unacked() == slack.envelopes
        gate.commits.put_nowait(True)
        await slack.until(lambda: slack.unacked() == [])
        assert [one.acks for one in slack.envelopes] == [1]


async def test_slack_is_told_within_a_millisecond_of_the_commit_d1(slack: FakeSlack) -> None:
    """The median of many: one message may meet a busy machine. The fake and the adapter share a loop's clock."""
    async with Connected(slack) as (_, gate):
        for number in range(60):
            gate.commits.put_nowait(True)
            slack.world.say("D1", "UANN", str(number))
            await slack.until(lambda n=number: sum(one.acks for one in slack.envelopes) == n + 1)
        told = [one.acked for one in slack.envelopes]
        waits = sorted(at - kept for at, kept in zip(told, gate.committed, strict=True) if at is not None)
        assert len(waits) == 60
        assert waits[30] < 0.001, waits[30]


async def test_what_could_not_be_kept_is_not_acknowledged_and_comes_again_d7(slack: FakeSlack) -> None:
    async with Connected(slack) as (_, gate):
        gate.commits.put_nowait(False)
        ts = slack.world.say("D1", "UANN", "hello")
        slack.world.say("D2", "UANN", "elsewhere")
        gate.commits.put_nowait(True)
        await slack.until(lambda: len(slack.envelopes) == 2 and len(slack.unacked()) == 1)
        gate.commits.put_nowait(True)
        assert await slack.redeliver() == 1
        await slack.until(lambda: slack.envelopes[-1].acks == 1)
        assert [one.id for one in gate.received].count(ts) == 2
        assert slack.envelopes[-1].body["retry_attempt"] == 1


async def test_case_05_a_second_delivery_changes_nothing_and_is_acknowledged_like_the_first_d1(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack) as house:
        slack.world.say("D1", "UANN", "hello")
        await house.says(["you said: hello"], "D1")
        await slack.redeliver(slack.envelopes[0])
        await slack.until(lambda: slack.envelopes[-1].acks == 1)
        slack.world.say("D1", "UANN", "again")
        await house.says(["you said: hello", "you said: again"], "D1")
        assert len(house.model.requests) == 2


async def test_many_messages_at_once_keep_their_order_in_each_channel(slack: FakeSlack) -> None:
    async with Connected(slack) as (_, gate):
        sent: dict[str, list[str]] = {"D1": [], "D2": []}
        for number in range(40):
            channel = ("D1", "D2")[number % 2]
            sent[channel].append(slack.world.say(channel, "UANN", str(number)))
            gate.commits.put_nowait(True)
        await slack.until(lambda: len(slack.envelopes) == 40 and not slack.unacked())
        for channel, ids in sent.items():
            assert [one.id for one in gate.received if one.address.channel == channel] == ids


@pytest.mark.parametrize("how", ["refresh", "drop"])
async def test_connections_come_and_go_and_what_was_written_meanwhile_is_taken(
    tmp_path: Path, slack: FakeSlack, how: str
) -> None:
    async with House(tmp_path, slack) as house:
        slack.world.say("D1", "UANN", "one")
        await house.says(["you said: one"], "D1")
        await (slack.refresh() if how == "refresh" else slack.drop())
        slack.world.say("D1", "UANN", "two")
        expected = ["you said: one", "you said: two"]
        async with asyncio.timeout(10):
            while slack.texts("D1") != expected:
                await slack.connected(1)
                await slack.redeliver()  # what went into the dying connection
                await asyncio.sleep(0.02)
        assert len(house.model.requests) == 2
        assert len(slack.called("apps.connections.open")) == 2


async def test_events_that_slack_kept_while_the_program_was_down_are_taken_as_retries_d8(
    tmp_path: Path, slack: FakeSlack
) -> None:
    slack.world.say("D1", "UANN", "are you there?")
    async with House(tmp_path, slack) as house:
        await house.says(["you said: are you there?"], "D1")


async def test_what_was_written_in_a_downtime_is_read_up_in_order_and_once_d8(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack) as house:
        slack.world.say("D1", "UANN", "one")
        await house.says(["you said: one"], "D1")
        thread = slack.world.say("C1", "UANN", "<@U0AGENT> here")
        await house.says(["you said: here"], "C1", thread)
        slack.world.say("C2", "UANN", "<@U0AGENT> there")
        await slack.until(lambda: not slack.unacked())
    slack.lose()
    slack.world.say("D1", "UANN", "two")
    slack.world.say("C1", "UBOB", "among people")
    other = slack.world.say("C1", "UANN", "<@U0AGENT> again")
    slack.world.say("C1", "UANN", "in the thread", thread=thread)
    slack.lose()
    async with House(tmp_path, slack) as house:
        slack.world.say("D1", "UANN", "three")
        await slack.until(lambda: "three" in " ".join(slack.texts("D1")))
        await house.says(["you said: again"], "C1", other)
        await house.says(["you said: here", "you said: in the thread"], "C1", thread)
        await house.settled("D1")
        said = [text for n in range(len(house.model.requests)) for text in house.model.texts(n)[-1:]]
        assert sorted(said) == sorted({*said})
        joined = "\n".join(house.model.texts())
        assert "among people" not in joined
        told = [
            text for n in range(len(house.model.requests)) for text in house.model.texts(n) if "t" in text
        ]
        assert "\n".join(told).index("two") < "\n".join(told).index("three")


async def test_what_is_older_than_catch_up_is_counted_and_not_answered_d8(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack) as house:
        slack.world.say("D1", "UANN", "one")
        await house.says(["you said: one"], "D1")
        await slack.until(lambda: not slack.unacked())
    slack.world.say("D1", "UANN", "long ago")
    slack.world.say("D1", "UANN", "nearly as long ago")
    slack.lose()
    async with House(tmp_path, slack, catch_up=0.0) as house:
        await slack.until(lambda: len(slack.texts("D1")) == 2)
        assert "2 messages" in slack.texts("D1")[1]
        assert house.model.requests == []


# ---- out


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_post_whose_outcome_is_unknown_stands_there_once_d5(
    tmp_path: Path, slack: FakeSlack, when: str
) -> None:
    async with House(tmp_path, slack) as house:
        slack.cut("chat.postMessage", when)
        slack.world.say("D1", "UANN", "hello")
        await house.says(["you said: hello"], "D1")
        await house.settled("D1")
        assert slack.texts("D1") == ["you said: hello"]
        assert len(slack.called("conversations.history")) == 1
        assert len(slack.called("chat.postMessage")) == (2 if when == "before" else 1)


async def test_a_draft_whose_post_was_cut_is_found_in_its_thread_and_completed(
    tmp_path: Path, slack: FakeSlack
) -> None:
    hold = Hold()
    script: list[str | Hold] = ["a text that is long enough ", hold, "and its end"]
    async with House(tmp_path, slack, [script], native_streams=False) as house:
        slack.cut("chat.postMessage", "after")
        ts = slack.world.say("C1", "UANN", "<@U0AGENT> go")
        await slack.until(lambda: bool(slack.called("chat.postMessage")))
        hold.release()
        await house.says(["a text that is long enough and its end"], "C1", ts)
        assert len(slack.called("chat.postMessage")) == 1
        assert slack.called("conversations.replies")


async def test_an_app_that_is_too_fast_waits_as_long_as_slack_wants(tmp_path: Path, slack: FakeSlack) -> None:
    async with House(tmp_path, slack) as house:
        slack.refuse("chat.postMessage", "ratelimited", retry_after=1)
        slack.world.say("D1", "UANN", "hello")
        await house.says(["you said: hello"], "D1")
        first, second = slack.called("chat.postMessage")
        assert second.at - first.at >= 1.0


async def test_a_fault_of_slack_itself_is_looked_up_and_tried_again(tmp_path: Path, slack: FakeSlack) -> None:
    async with House(tmp_path, slack) as house:
        slack.refuse("chat.postMessage", status=502)
        slack.world.say("D1", "UANN", "hello")
        await house.says(["you said: hello"], "D1")


async def test_a_draft_that_somebody_removed_is_posted_anew(tmp_path: Path, slack: FakeSlack) -> None:
    hold = Hold()
    async with House(tmp_path, slack, [["a text that is long enough ", hold, "and its end"]]) as house:
        slack.world.say("D1", "UANN", "go")
        await slack.until(lambda: bool(slack.texts("D1")))
        draft = next(ts for ts, one in slack.world.channel("D1").messages.items() if one.get("bot_id"))
        del slack.world.channel("D1").messages[draft]
        hold.release()
        await house.says(["a text that is long enough and its end"], "D1")


async def test_a_channel_that_takes_nothing_holds_up_nobody_else_and_the_log_says_why(
    tmp_path: Path, slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    async with House(tmp_path, slack) as house:
        slack.world.channel("C2").archived = True
        slack.world.say("C2", "UANN", "<@U0AGENT> hello")
        await slack.until(lambda: bool(slack.called("chat.postMessage")))
        slack.world.say("D1", "UANN", "hello")
        await house.says(["you said: hello"], "D1")
        assert slack.called("chat.postMessage")[0].answer == {"ok": False, "error": "is_archived"}
    assert "cannot be delivered: Slack does not take this message: is_archived" in caplog.text


async def test_a_key_is_found_by_another_run_once_all_of_its_text_stands_there_d5(slack: FakeSlack) -> None:
    text = "\n\n".join("word " * 100 for _ in range(20))
    outgoing = Outgoing(turn_key(HERE, 7), HERE, text, turn="7")
    async with Connected(slack) as (adapter, _):
        assert await adapter.find(outgoing.key, HERE) is None
        sent = await adapter.send(outgoing)
        assert len(sent.ids) > 1
    async with Connected(slack) as (later, _):
        assert await later.find(outgoing.key, HERE) == sent
        del slack.world.channel("D1").messages[sent.ids[-1]]
        assert await later.find(outgoing.key, HERE) is None
        again = await later.send(outgoing)
        assert again.ids[:-1] == sent.ids[:-1]
        assert len(slack.texts("D1")) == len(sent.ids)


async def test_a_draft_alone_is_not_taken_for_the_message(slack: FakeSlack) -> None:
    async with Connected(slack) as (adapter, _):
        adapter.show(HERE, Drafted(3, 0, "a text that is being written"))
        await slack.until(lambda: bool(slack.texts("D1")))
        key = turn_key(HERE, 3)
        assert await adapter.find(key, HERE) is None
        sent = await adapter.send(Outgoing(key, HERE, "a text that is being written", turn="3"))
        assert await adapter.find(key, HERE) == sent
        assert slack.texts("D1") == ["a text that is being written"]


async def test_a_text_before_a_tool_call_stays_and_the_next_one_is_a_message_of_its_own(
    slack: FakeSlack,
) -> None:
    async with Connected(slack) as (adapter, _):
        adapter.show(HERE, Drafted(1, 0, "Let me **look**."))
        adapter.show(HERE, Drafted(1, 1, "Found: "))
        await adapter.send(Outgoing("k", HERE, "Found: it.", turn="1"))
        assert slack.texts("D1") == ["Let me *look*.", "Found: it."]


async def test_a_draft_outlives_its_connection(slack: FakeSlack) -> None:
    adapter = SlackAdapter(app_of(slack))
    for number in (1, 2):
        gate = Gate()
        run = asyncio.create_task(adapter.run(gate))
        await gate.is_ready.wait()
        if number == 1:
            adapter.show(HERE, Drafted(1, 0, "a text that is being written"))
            await slack.until(lambda: bool(slack.texts("D1")))
        else:
            await slack.until(lambda: slack.texts("D1")[0].endswith("_✂ interrupted_"))
        run.cancel()
        await asyncio.wait({run})
        adapter.show(HERE, Broken(1, "interrupted"))
    assert len(slack.texts("D1")) == 1


async def _crash_while_writing(slack: FakeSlack, folder: Path, where: Address) -> None:
    """A run that shows a draft of turn 4 and is gone."""
    adapter = SlackAdapter(app_of(slack), folder)
    gate = Gate()
    run = asyncio.create_task(adapter.run(gate))
    await gate.is_ready.wait()
    adapter.show(where, Drafted(4, 0, "a text that is being written"))
    await slack.until(lambda: bool(slack.texts(where.channel, where.thread)) and _kept(folder))
    run.cancel()
    await asyncio.wait({run})


def _kept(folder: Path) -> bool:
    """Whether a text is known there that is not finished."""
    return any(draft.text for draft in Journal(folder / "drafts.lines").drafts())


async def test_a_turn_that_goes_on_after_a_crash_goes_on_in_the_same_message_r3(
    tmp_path: Path, slack: FakeSlack
) -> None:
    await _crash_while_writing(slack, tmp_path, HERE)
    async with Connected(slack, folder=tmp_path) as (adapter, _):
        adapter.show(HERE, Drafted(4, 0, "another text, from the beginning"))
        await adapter.send(Outgoing("k", HERE, "another text, from the beginning.", turn="4"))
        assert slack.texts("D1") == ["another text, from the beginning."]
        assert not _kept(tmp_path)


async def test_a_reply_that_comes_whole_after_a_crash_takes_the_place_of_its_draft_r3(
    tmp_path: Path, slack: FakeSlack
) -> None:
    await _crash_while_writing(slack, tmp_path, HERE)
    async with Connected(slack, folder=tmp_path) as (adapter, _):
        await adapter.send(Outgoing("k", HERE, "whole", turn="4"))
        assert slack.texts("D1") == ["whole"]


@pytest.mark.parametrize("thread", [None, "1700000000.000001"])
async def test_a_turn_that_does_not_go_on_after_a_crash_leaves_its_mark_r3(
    tmp_path: Path, slack: FakeSlack, thread: str | None
) -> None:
    where = Address("slack", "U0AGENT", "D1", thread)
    await _crash_while_writing(slack, tmp_path, where)
    async with Connected(slack, folder=tmp_path) as (adapter, _):
        await adapter.send(Outgoing("k", where, "next", turn="5"))
        await slack.until(
            lambda: slack.texts("D1", thread) == ["a text that is being written\n\n_✂ interrupted_", "next"]
        )
        async with asyncio.timeout(5):
            while _kept(tmp_path):
                await asyncio.sleep(0.01)


async def test_a_reply_whose_last_edit_was_taken_when_the_run_died_stays_whole_d5_r3(
    tmp_path: Path, slack: FakeSlack
) -> None:
    """Slack has all of it, and the journal knows but its beginning: that is no text which broke off."""
    reply = Outgoing(turn_key(HERE, 4), HERE, "a text and its end", turn="4")
    async with Connected(slack, tmp_path) as (adapter, _):
        sent = await adapter.send(reply)
    Journal(tmp_path / "drafts.lines").note(Draft(str(HERE), reply.key, 0, sent.ids, "a text"))
    async with Connected(slack, tmp_path) as (adapter, gate):
        if (await adapter.find(reply.key, HERE)) is None:
            assert await adapter.send(reply) == sent
        gate.rest.set()
        async with asyncio.timeout(5):
            while _kept(tmp_path):
                await asyncio.sleep(0.01)
        assert slack.texts("D1") == ["a text and its end"]
