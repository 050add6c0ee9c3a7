"""People talk to the agent: over real sockets, through Slack's own client library, into a real house."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from hermes_core.adapter import Activity, Progress, Working
from hermes_core.messages import Address, Said
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_slack.signs import WORKING

from .alone import HERE, Connected
from .house import House

AGENT = "<@U0AGENT>"


async def test_a_direct_message_is_answered_in_the_direct_chat(tmp_path: Path, slack: FakeSlack) -> None:
    async with House(tmp_path, slack) as house:
        slack.world.say("D1", "UANN", "hello")
        await house.says(["you said: hello"], "D1")
        await slack.until(lambda: not slack.unacked())


async def test_d8_what_is_written_now_is_answered_though_this_clock_is_two_hours_ahead(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack, ahead=7200) as house:
        slack.world.say("D1", "UANN", "hello")
        await house.says(["you said: hello"], "D1")


async def test_all_at_the_top_of_a_direct_chat_is_one_conversation_and_each_thread_one_of_its_own_e10(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack) as house:
        slack.world.say("D1", "UANN", "one")
        await house.says(["you said: one"], "D1")
        top = slack.world.say("D1", "UANN", "two")
        await house.says(["you said: one", "you said: two"], "D1")
        assert house.model.texts() == ["one", "two"]
        slack.world.say("D1", "UANN", "apart", thread=top)
        await slack.until(lambda: slack.texts("D1", top) == ["you said: apart"])
        assert house.model.texts() == ["apart"]


async def test_case_40_a_mention_in_a_channel_opens_a_thread_and_its_two_events_are_one_message(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack) as house:
        ts = slack.world.say("C1", "UANN", f"{AGENT} hello")
        await house.says(["you said: hello"], "C1", ts)
        await slack.until(lambda: not slack.unacked())
        kinds = [one["event"]["type"] for one in slack.events if one["event"].get("user") == "UANN"]
        assert kinds == ["message", "app_mention"]
        assert len(house.model.requests) == 1


async def test_in_channels_only_who_addresses_the_agent_is_heard_x4(tmp_path: Path, slack: FakeSlack) -> None:
    async with House(tmp_path, slack) as house:
        other = slack.world.say("C1", "UBOB", "nobody asked you")
        slack.world.say("C1", "UANN", "nor here", thread=other)
        slack.world.say("C1", "UBOT", f"{AGENT} I am a bot", bot_id="B1", subtype="bot_message")
        mine = slack.world.say("C1", "UANN", f"{AGENT} but here")
        await house.says(["you said: but here"], "C1", mine)
        slack.world.say("C1", "UBOB", "me too", thread=mine)
        await slack.until(lambda: len(slack.texts("C1", mine)) == 2)
        await slack.until(lambda: not slack.unacked())
        assert [texts[-1] for texts in map(house.model.texts, range(len(house.model.requests)))] == [
            "but here",
            "me too",
        ]


async def test_commands_work_as_text_after_a_mention_and_in_direct_chats(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack) as house:
        ts = slack.world.say("C1", "UANN", f"{AGENT} /new")
        await slack.until(lambda: len(slack.texts("C1", ts)) == 1)
        slack.world.say("D1", "UANN", " /new")
        await slack.until(lambda: len(slack.texts("D1")) == 1)
        assert house.model.requests == []


async def test_slash_commands_are_text_commands_in_any_of_their_three_forms(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack) as house:
        await slack.slash("D1", "UANN", "/busy", "queue")
        await slack.until(lambda: len(slack.texts("D1")) == 1)
        await slack.slash("D1", "UANN", "/hermes", "busy steer")
        await slack.until(lambda: len(slack.texts("D1")) == 2)
        await slack.slash("D1", "UANN", "/hermes-busy", "followup")
        await slack.until(lambda: len(slack.texts("D1")) == 3)
        await slack.until(lambda: not slack.unacked())
        for text, mode in zip(slack.texts("D1"), ("queue", "steer", "followup"), strict=True):
            assert mode in text
        assert house.model.requests == []


@pytest.mark.parametrize("native_streams", [True, False])
async def test_a_slash_command_where_the_agent_is_not_is_answered_to_who_typed_it_d2(
    tmp_path: Path, slack: FakeSlack, native_streams: bool
) -> None:
    slack.world.channel("C9").joined = False
    async with House(tmp_path, slack, native_streams=native_streams) as house:
        await slack.slash("C9", "UBOB", "/busy", "queue")
        await slack.until(lambda: len(slack.ephemeral) == 1)
        await slack.slash("D99", "UANN", "/busy", "steer")  # a direct chat of other people
        await slack.until(lambda: len(slack.ephemeral) == 2)
        assert [user for user, _ in slack.ephemeral] == ["UBOB", "UANN"]
        assert "queue" in slack.ephemeral[0][1]
        assert "steer" in slack.ephemeral[1][1]
        await house.settled("C9")


async def test_an_edit_replaces_and_a_deletion_cancels_a_message_that_waits_d9(
    tmp_path: Path, slack: FakeSlack
) -> None:
    hold = Hold()
    async with House(tmp_path, slack, [[hold, "done"]], busy="queue") as house:
        slack.world.say("D1", "UANN", "first")
        await hold.reached.wait()
        edited = slack.world.say("D1", "UANN", "wrogn")
        removed = slack.world.say("D1", "UANN", "never mind")
        linked = slack.world.say("D1", "UANN", "see <https://example.org>")
        slack.world.edit("D1", edited, "wrong &amp; right")
        slack.world.remove("D1", removed)
        slack.world.unfurl("D1", linked)
        await slack.until(lambda: len(slack.envelopes) >= 7 and not slack.unacked())
        hold.release()
        await slack.until(lambda: len(house.model.requests) == 2 and len(slack.texts("D1")) == 2)
        assert house.model.texts() == ["first", "wrong & right\nsee https://example.org"]


async def test_a_queued_message_gets_a_reaction_and_the_agents_own_edits_are_no_messages(
    tmp_path: Path, slack: FakeSlack
) -> None:
    hold = Hold()
    async with House(tmp_path, slack, [["x" * 30, hold, " end"]], busy="queue") as house:
        slack.world.say("D1", "UANN", "first")
        await slack.until(lambda: slack.texts("D1") == ["x" * 30])
        second = slack.world.say("D1", "UANN", "second")
        await slack.until(lambda: slack.world.channel("D1").messages[second].get("reactions") is not None)
        hold.release()
        await house.says(["x" * 30 + " end", "you said: second"], "D1")
        assert slack.world.channel("D1").messages[second]["reactions"] == ["hourglass_flowing_sand"]
        assert len(house.model.requests) == 2


async def test_an_interrupted_text_is_closed_with_a_mark_i5(tmp_path: Path, slack: FakeSlack) -> None:
    hold = Hold()
    async with House(tmp_path, slack, [["a long story that begins here ", hold]]) as house:
        slack.world.say("D1", "UANN", "tell me")
        await slack.until(lambda: bool(slack.texts("D1")))
        slack.world.say("D1", "UANN", "stop, rather this")
        await house.says(
            ["a long story that begins here\n\n_✂ interrupted_", "you said: stop, rather this"], "D1"
        )


async def test_a_thread_shows_what_the_agent_does_and_clears_it(tmp_path: Path, slack: FakeSlack) -> None:
    hold = Hold()
    async with House(tmp_path, slack, [[hold, "done"]]) as house:
        ts = slack.world.say("C1", "UANN", f"{AGENT} think")
        await slack.until(lambda: bool(slack.world.channel("C1").statuses))
        hold.release()
        await house.says(["done"], "C1", ts)
        await slack.until(lambda: slack.world.channel("C1").statuses[-1] == (ts, ""))
        assert slack.world.channel("C1").statuses[0] == (ts, "is thinking…")


async def test_a_long_answer_is_split_and_every_part_is_mrkdwn(tmp_path: Path, slack: FakeSlack) -> None:
    text = "\n\n".join(f"Paragraph **{n}** & <!channel> " + "word " * 60 for n in range(40))
    async with House(tmp_path, slack, [text]):
        slack.world.say("D1", "UANN", "go")
        await slack.until(lambda: "*39*" in "".join(slack.texts("D1")))
        parts = slack.texts("D1")
        assert len(parts) > 2
        assert all(len(part) <= 4000 for part in parts)
        assert [f"*{n}* &amp; &lt;!channel&gt;" in "\n".join(parts) for n in range(40)] == [True] * 40
        assert "<!" not in "".join(parts)


async def test_several_people_in_a_thread_are_told_apart_by_their_names(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack) as house:
        ts = slack.world.say("C1", "UANN", f"{AGENT} hello")
        await house.says(["you said: hello"], "C1", ts)
        slack.world.say("C1", "UBOB", "me too", thread=ts)
        await slack.until(lambda: len(slack.texts("C1", ts)) == 2)
        said = [item for item in house.model.requests[-1].items if isinstance(item, Said)]
        assert [one.author for one in said] == ["Ann", "Bob"]
        slack.world.say("C1", "UBOB", "and again", thread=ts)
        await slack.until(lambda: len(slack.texts("C1", ts)) == 3)
        assert len(slack.called("users.info")) == 2


async def test_a_text_is_edited_while_it_grows_at_slacks_pace_and_its_end_is_whole_r3(
    tmp_path: Path, slack: FakeSlack
) -> None:
    holds = [Hold(), Hold()]
    script: list[str | Hold] = [
        "a text that is long enough",
        holds[0],
        " and **goes on**",
        holds[1],
        " to its end",
    ]
    async with House(tmp_path, slack, [script]) as house:
        slack.refuse("chat.update", "ratelimited", retry_after=1)
        slack.world.say("D1", "UANN", "go")
        await house.says(["a text that is long enough"], "D1")
        holds[0].release()
        await house.says(["a text that is long enough and **goes on**"], "D1")
        holds[1].release()
        await house.says(["a text that is long enough and *goes on* to its end"], "D1")
        at = [call.at for call in slack.called("chat.update")]
        assert all(later - earlier >= 0.9 for earlier, later in itertools.pairwise(at[:-1]))
        assert len(slack.called("chat.postMessage")) == 1


async def test_nothing_but_a_mention_is_a_message_too(tmp_path: Path, slack: FakeSlack) -> None:
    async with House(tmp_path, slack) as house:
        ts = slack.world.say("C1", "UANN", AGENT)
        await house.says(["you said: @hermes"], "C1", ts)


async def test_the_progress_of_a_job_is_one_line_that_is_edited_in_place_j13(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack) as house:
        here = Address("slack", "U0AGENT", "D1")
        for number in range(5):
            house.plugin.adapter.show(here, Progress("j1", f"{number} of 5"))
        await house.says(["4 of 5"], "D1")
        house.plugin.adapter.show(here, Progress("j1", "done", done=True))
        await house.says(["done"], "D1")
        house.plugin.adapter.show(here, Progress("j2", "another"))
        await house.says(["done", "another"], "D1")


def reactions(slack: FakeSlack, ts: str) -> list[str]:
    return list(slack.world.channel("D1").messages[ts].get("reactions", ()))


async def test_case_42_at_the_top_of_a_direct_chat_a_reaction_says_that_the_agent_works_and_goes_with_the_end(
    tmp_path: Path, slack: FakeSlack
) -> None:
    hold = Hold()
    async with House(tmp_path, slack, [[hold, "done"]]) as house:
        ts = slack.world.say("D1", "UANN", "think")
        await slack.until(lambda: reactions(slack, ts) == [WORKING])
        slack.refuse("reactions.remove", "ratelimited", retry_after=0.1)
        hold.release()
        await house.says(["done"], "D1")
        await slack.until(lambda: reactions(slack, ts) == [])


async def test_case_42_what_a_run_that_died_left_is_taken_away_by_the_next_one(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with Connected(slack, tmp_path) as (adapter, gate):
        gate.commits.put_nowait(True)
        ts = slack.world.say("D1", "UANN", "think")
        await slack.until(lambda: not slack.unacked() and bool(slack.envelopes))
        adapter.show(HERE, Working(Activity("thinking")))
        await slack.until(lambda: reactions(slack, ts) == [WORKING])
    async with Connected(slack, tmp_path):
        await slack.until(lambda: reactions(slack, ts) == [])


async def test_case_42_an_app_that_may_not_react_or_set_a_status_goes_on_without(
    tmp_path: Path, slack: FakeSlack
) -> None:
    hold = Hold()
    slack.refuse("reactions.add", "missing_scope")
    slack.refuse("assistant.threads.setStatus", "missing_scope")
    async with House(tmp_path, slack, [[hold, "done"]]) as house:
        slack.world.say("D1", "UANN", "think")
        await slack.until(lambda: bool(slack.called("reactions.add")))
        hold.release()
        await house.says(["done"], "D1")
        root = slack.world.say("C1", "UANN", f"{AGENT} think")
        await house.says(["you said: think"], "C1", root)
