"""Native streams: what Slack shows while a text is written, and that it is always mended by edits (R3, R4, case 35)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_core.writing import Doubt, Place
from hermes_slack.client import Client
from hermes_slack.files import Files
from hermes_slack.limits import STREAM_LIFE
from hermes_slack.posts import Posts, Speaker, has_table, ringing_nobody
from hermes_slack.render import Piece, cut

from .house import House

AGENT = "<@U0AGENT>"
BEGIN, END = "a text that is long enough", " and **its** end"
WHOLE = BEGIN + END


def edits(slack: FakeSlack) -> list[str]:
    return [one.method for one in slack.calls if one.method.startswith("chat.")]


async def test_in_a_thread_slack_itself_shows_a_text_while_it_is_written(
    tmp_path: Path, slack: FakeSlack
) -> None:
    hold = Hold()
    async with House(tmp_path, slack, [[BEGIN, hold, END]]) as house:
        ts = slack.world.say("C1", "UANN", f"{AGENT} go")
        await house.says([BEGIN], "C1", ts)
        assert slack.world.streams.alive == 1
        hold.release()
        await house.says([WHOLE], "C1", ts)
        await house.settled("C1", ts)
        assert edits(slack) == ["chat.startStream", "chat.stopStream"]
        start = slack.called("chat.startStream")[0].arguments
        assert (start["recipient_user_id"], start["recipient_team_id"]) == ("UANN", "T0TEAM")
        assert slack.world.streams.alive == 0


async def test_at_the_top_of_a_direct_chat_there_is_no_stream(tmp_path: Path, slack: FakeSlack) -> None:
    hold = Hold()
    async with House(tmp_path, slack, [[BEGIN, hold, END]]) as house:
        slack.world.say("D1", "UANN", "go")
        await house.says([BEGIN], "D1")
        hold.release()
        await house.says([BEGIN + " and *its* end"], "D1")
        assert edits(slack) == ["chat.postMessage", "chat.update"]


async def test_case_35_a_stream_that_slack_ended_is_completed_by_an_edit(
    tmp_path: Path, slack: FakeSlack
) -> None:
    holds = [Hold(), Hold()]
    async with House(tmp_path, slack, [[BEGIN, holds[0], " more", holds[1], END]]) as house:
        ts = slack.world.say("C1", "UANN", f"{AGENT} go")
        await house.says([BEGIN], "C1", ts)
        slack.world.streams.expire()
        holds[0].release()
        await house.says([BEGIN + " more"], "C1", ts)
        holds[1].release()
        await house.says([BEGIN + " more and *its* end"], "C1", ts)


async def test_where_an_app_may_not_stream_it_edits_and_does_not_ask_again(
    tmp_path: Path, slack: FakeSlack
) -> None:
    slack.world.streams.allowed = False
    holds = [Hold(), Hold()]
    async with House(tmp_path, slack, [[BEGIN, holds[0], END], [BEGIN, holds[1], END]]) as house:
        ts = slack.world.say("C1", "UANN", f"{AGENT} go")
        for number in (0, 1):
            await slack.until(lambda n=number: len(slack.texts("C1", ts)) == n + 1)
            holds[number].release()
            await slack.until(lambda: slack.texts("C1", ts)[-1].endswith("*its* end"))
            await house.settled("C1", ts)
            slack.world.say("C1", "UANN", "again", thread=ts)
        assert len(slack.called("chat.startStream")) == 1


async def test_a_limit_on_streams_holds_up_nothing(tmp_path: Path, slack: FakeSlack) -> None:
    hold = Hold()
    async with House(tmp_path, slack, [[BEGIN, hold, END]]) as house:
        slack.refuse("chat.startStream", "ratelimited", retry_after=60)
        ts = slack.world.say("C1", "UANN", f"{AGENT} go")
        await house.says([BEGIN], "C1", ts)
        hold.release()
        await house.says([BEGIN + " and *its* end"], "C1", ts)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", ["chat.startStream", "chat.appendStream", "chat.stopStream"])
async def test_a_call_whose_outcome_is_unknown_doubles_nothing_d5(
    tmp_path: Path, slack: FakeSlack, method: str, when: str
) -> None:
    holds = [Hold(), Hold()]
    async with House(tmp_path, slack, [[BEGIN, holds[0], " more", holds[1], END]]) as house:
        slack.cut(method, when)
        ts = slack.world.say("C1", "UANN", f"{AGENT} go")
        await house.says([BEGIN], "C1", ts)
        holds[0].release()
        await house.says([BEGIN + " more"], "C1", ts)
        holds[1].release()
        await slack.until(lambda: slack.texts("C1", ts)[0].endswith(" end"))
        await house.settled("C1", ts)
        assert [text.replace("*", "") for text in slack.texts("C1", ts)] == [BEGIN + " more and its end"]
        assert slack.world.streams.alive == 0


async def test_an_interrupted_stream_is_ended_with_a_mark_i5(tmp_path: Path, slack: FakeSlack) -> None:
    hold = Hold()
    async with House(tmp_path, slack, [[BEGIN, hold]]) as house:
        ts = slack.world.say("C1", "UANN", f"{AGENT} go")
        await house.says([BEGIN], "C1", ts)
        slack.world.say("C1", "UANN", "stop, rather this", thread=ts)
        await house.says([BEGIN + "\n\n*✂ interrupted*", "you said: stop, rather this"], "C1", ts)
        assert slack.world.streams.alive == 0


async def test_a_streamed_message_that_somebody_removed_is_posted_anew(
    tmp_path: Path, slack: FakeSlack
) -> None:
    hold = Hold()
    async with House(tmp_path, slack, [[BEGIN, hold, END]]) as house:
        ts = slack.world.say("C1", "UANN", f"{AGENT} go")
        await house.says([BEGIN], "C1", ts)
        messages = slack.world.channel("C1").messages
        del messages[next(key for key, one in messages.items() if one.get("bot_id"))]
        hold.release()
        await house.says([BEGIN + " and *its* end"], "C1", ts)


async def test_a_long_text_is_streamed_and_split_and_stands_there_once(
    tmp_path: Path, slack: FakeSlack
) -> None:
    holds = [Hold(), Hold()]
    paragraphs = [f"Paragraph {n}. " + "word " * 90 for n in range(20)]
    one, two = "\n\n".join(paragraphs[:5]), "\n\n" + "\n\n".join(paragraphs[5:])
    async with House(tmp_path, slack, [[one, holds[0], two, holds[1], "\n\nThe end."]]) as house:
        ts = slack.world.say("C1", "UANN", f"{AGENT} go")
        await slack.until(lambda: slack.world.streams.alive == 1)
        holds[0].release()
        await slack.until(lambda: len(slack.texts("C1", ts)) > 1)
        holds[1].release()
        await slack.until(lambda: slack.texts("C1", ts)[-1].endswith("The end."))
        await house.settled("C1", ts)
        told = "\n".join(slack.texts("C1", ts))
        assert [told.count(f"Paragraph {n}.") for n in range(20)] == [1] * 20
        assert slack.world.streams.alive == 0


async def test_a_name_in_a_stream_rings_at_nobody_at_any_instant_r4(tmp_path: Path, slack: FakeSlack) -> None:
    holds = [Hold(), Hold()]
    script: list[str | Hold] = [BEGIN + " <", holds[0], "@UBOB> <!chan", holds[1], "nel> `<@UBOB>`"]
    async with House(tmp_path, slack, [script]) as house:
        ts = slack.world.say("C1", "UANN", f"{AGENT} go")
        await house.says([BEGIN + " <"], "C1", ts)
        holds[0].release()
        await slack.until(lambda: "chan" in slack.texts("C1", ts)[0])
        holds[1].release()
        await slack.until(lambda: "nel" in slack.texts("C1", ts)[0])
        await house.settled("C1", ts)
        for call in slack.calls:
            said = str(call.arguments.get("markdown_text", "")) + str(call.arguments.get("text", ""))
            assert "<@" not in said
            assert "<!" not in said
        assert slack.texts("C1", ts)[0].count("\u2060") == 0, "what stays has nothing invisible in its code"


@given(st.text("<@!#U1> a"), st.text("<@!#U1> a"))
def test_a_longer_text_goes_on_from_what_was_streamed(one: str, two: str) -> None:
    assert ringing_nobody(one + two).startswith(ringing_nobody(one))


# ---- alone, with a clock of the test's own


HERE = Address("slack", "U0AGENT", "C1", "1.1")


ANN = Speaker("UANN", "T0TEAM", "1.1")
CHAT = Place(HERE, "k")


class Alone:
    """Streams without a house; `clock` is theirs, `speaker` who is to see them."""

    def __init__(self, slack: FakeSlack, session: aiohttp.ClientSession) -> None:
        self.clock = 0.0
        self.client = Client(slack.bot_token, slack.base_url, session)

    def streams(self, speaker: Speaker | None = ANN) -> Posts:
        files = Files(self.client, None)
        return Posts(self.client, files, lambda address: speaker, lambda: 0.0, lambda: self.clock)


@pytest.fixture
async def alone(slack: FakeSlack) -> AsyncIterator[Alone]:
    async with aiohttp.ClientSession() as session:
        yield Alone(slack, session)


def draft(text: str) -> Piece:
    return cut(text, False)[0]


async def test_a_stream_is_left_before_slack_ends_it(slack: FakeSlack, alone: Alone) -> None:
    streams = alone.streams()
    ts = await streams.post(CHAT, draft("one"))
    await streams.edit(CHAT, ts, draft("one two"))
    alone.clock = STREAM_LIFE + 1
    await streams.edit(CHAT, ts, draft("one two three"))
    assert edits(slack) == ["chat.startStream", "chat.appendStream", "chat.stopStream", "chat.update"]
    assert slack.texts("C1", "1.1") == ["one two three"]


async def test_no_more_streams_are_begun_than_slack_allows(slack: FakeSlack, alone: Alone) -> None:
    streams = alone.streams()
    for number in range(30):
        await streams.post(Place(HERE, f"k{number}"), draft(f"text {number}"))
    assert len(slack.called("chat.startStream")) == 10
    assert len(slack.called("chat.postMessage")) == 20


@pytest.mark.parametrize("speaker", [None, Speaker("B0BOT", "T0TEAM", "1.1")])
async def test_without_a_person_to_stream_to_it_is_posted(
    slack: FakeSlack, alone: Alone, speaker: Speaker | None
) -> None:
    await alone.streams(speaker).post(CHAT, draft("text"))
    assert edits(slack) == ["chat.postMessage"]


async def test_slack_that_is_not_reached_is_no_refusal_of_streams(alone: Alone) -> None:
    alone.client.base_url = "http://127.0.0.1:9/api/"
    with pytest.raises(SendError, match="reached") as error:
        await alone.streams().post(CHAT, draft("text"))
    assert not error.value.unknown
    assert not error.value.permanent


async def test_a_stream_of_a_dead_run_is_ended_before_its_message_is_changed_r3(
    slack: FakeSlack, alone: Alone
) -> None:
    one, two = alone.streams(), alone.streams()
    kept = await one.post(CHAT, draft("one"))
    gone = await one.post(Place(HERE, "l"), draft("two"))
    await two.edit(CHAT, kept, cut("one, whole", True)[0])
    await two.delete(Place(HERE, "l"), gone)
    assert slack.texts("C1", "1.1") == ["one, whole"]


async def test_case_37_a_table_that_was_streamed_stands_there_aligned_and_not_as_pipes(
    tmp_path: Path, slack: FakeSlack
) -> None:
    """Slack's own Markdown has no tables, or not everywhere; so the stream is ended and the message edited."""
    hold = Hold()
    table = "| name | n |\n|:---|--:|\n| one | 1 |\n| twenty | 20 |"
    async with House(tmp_path, slack, [["Here it is, all of it:\n\n| name ", hold, table[7:]]]) as house:
        ts = slack.world.say("C1", "UANN", f"{AGENT} a table")
        await slack.until(lambda: bool(slack.texts("C1", ts)))
        assert slack.world.streams.alive == 1
        hold.release()
        await slack.until(lambda: slack.texts("C1", ts)[0].endswith("```"))
        await house.settled("C1", ts)
        (text,) = slack.texts("C1", ts)
        assert "|" not in text
        assert text.startswith("Here it is, all of it:")
        assert slack.world.streams.alive == 0


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("| a | b |\n|---|---|\n| 1 | 2 |", True),
        ("a | b\n- | :-:\n1 | 2", True),
        ("> | a |\n> |---|\n> | 1 |", True),
        ("a list\n- one | two\n- three", False),
        ("---\n\n`ls | wc`\n\n--|--x", False),
        ("plain words", False),
    ],
)
def test_a_table_is_known_by_the_line_below_its_head(text: str, table: bool) -> None:
    assert has_table(text) is table


async def test_a_stream_whose_beginning_was_not_answered_is_found_by_its_words_d5(
    slack: FakeSlack, alone: Alone
) -> None:
    streams = alone.streams()
    slack.cut("chat.startStream", "after")
    with pytest.raises(SendError) as error:
        await streams.post(CHAT, draft("one <@U1> two"))
    assert error.value.unknown
    words = draft("one <@U1> two").words
    (ts,) = (ts for ts, one in slack.world.channel("C1").messages.items() if one.get("bot_id"))
    assert await streams.find(CHAT, Doubt(words, float(ts))) == ts
    assert await streams.find(CHAT, Doubt("others", float(ts))) is None
    assert await streams.find(CHAT, Doubt(words, float(ts) + 3600)) is None
