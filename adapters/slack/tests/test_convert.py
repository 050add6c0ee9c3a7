"""From payloads of Slack's shape to our values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.messages import Address, Attachment
from hermes_slack.convert import Change, Incoming, Me, Removal, event, plain_text, slash

ME = Me("U0AGENT", "hermes", "T0TEAM")


def callback(**inner: Any) -> dict[str, Any]:
    return {
        "token": "Z",
        "team_id": "T0TEAM",
        "context_team_id": "T0TEAM",
        "api_app_id": "A0APP",
        "event": inner,
        "type": "event_callback",
        "event_id": "Ev08MFMKH6",
        "event_time": 1710000000,
        "authorizations": [{"team_id": "T0TEAM", "user_id": "U0AGENT", "is_bot": True}],
        "is_ext_shared_channel": False,
    }


DIRECT: dict[str, Any] = {
    "type": "message",
    "user": "U061F7AUR",
    "client_msg_id": "28a3-4a5b",
    "text": "see <https://example.org/a?b=1&amp;c=2|the page> &amp; 2 &lt; 3",
    "ts": "1710000000.000100",
    "team": "T0TEAM",
    "blocks": [{"type": "rich_text", "block_id": "x", "elements": []}],
    "channel": "D0PNCRP9N",
    "event_ts": "1710000000.000100",
    "channel_type": "im",
}
MENTION: dict[str, Any] = {
    "type": "app_mention",
    "user": "U061F7AUR",
    "text": "<@U0AGENT>: /stop  now",
    "ts": "1710000000.000200",
    "channel": "C0LAN2Q65",
    "event_ts": "1710000000.000200",
    "team": "T0TEAM",
}


def taken(**inner: Any) -> Incoming:
    found = event(callback(**inner), ME)
    assert isinstance(found, Incoming)
    return found


def test_a_direct_message() -> None:
    found = taken(**DIRECT)
    message = found.message
    assert found.addressed
    assert message.id == "1710000000.000100"
    assert message.address == Address("slack", "U0AGENT", "D0PNCRP9N")
    assert message.author.id == "U061F7AUR"
    assert message.text == "see the page (https://example.org/a?b=1&c=2) & 2 < 3"
    assert message.sent == 1710000000.0001
    assert not message.group


def test_a_mention_and_its_twin_are_one_message() -> None:
    mention = taken(**MENTION)
    twin = taken(**{**MENTION, "type": "message", "channel_type": "channel"})
    assert mention == twin
    assert mention.addressed
    assert mention.message.text == "/stop  now"
    assert mention.message.address.thread == MENTION["ts"]
    assert mention.message.group


def test_an_answer_to_a_message_of_the_agent_is_addressed_and_one_to_somebody_else_is_not() -> None:
    inner = {**DIRECT, "channel": "C1", "channel_type": "channel", "thread_ts": "1.000001"}
    assert taken(**inner, parent_user_id="U0AGENT").addressed
    assert not taken(**inner, parent_user_id="U061F7AUR").addressed
    assert taken(**inner).message.address == Address("slack", "U0AGENT", "C1", "1.000001")


def test_files_come_with_their_name_type_size_and_place() -> None:
    file = {
        "id": "F1",
        "name": "notes.txt",
        "mimetype": "text/plain",
        "size": 42,
        "url_private": "https://files.example/F1",
        "url_private_download": "https://files.example/F1/download",
    }
    message = taken(**{**DIRECT, "subtype": "file_share", "files": [file, {"id": "F2"}]}).message
    assert message.attachments == (
        Attachment("notes.txt", "text/plain", 42, "https://files.example/F1/download"),
        Attachment("F2", "application/octet-stream", None, "F2"),
    )


@pytest.mark.parametrize(
    "inner",
    [
        pytest.param({**DIRECT, "user": "U0AGENT", "bot_id": "B0AGENT"}, id="its own"),
        pytest.param({**DIRECT, "bot_id": "B1", "subtype": "bot_message"}, id="a bot's"),
        pytest.param({**DIRECT, "bot_id": "B1"}, id="a bot's, new style"),
        pytest.param({**DIRECT, "subtype": "channel_join"}, id="a notice"),
        pytest.param({**DIRECT, "user": None}, id="without author"),
        pytest.param({**DIRECT, "ts": None}, id="without time stamp"),
        pytest.param({"type": "reaction_added", "user": "U1", "item": {}}, id="a reaction"),
        pytest.param({"type": "assistant_thread_started", "assistant_thread": {}}, id="an opened thread"),
    ],
)
def test_what_is_nothing_to_the_agent(inner: dict[str, Any]) -> None:
    assert event(callback(**inner), ME) is None


def changed(before: dict[str, Any], after: dict[str, Any]) -> Change | Removal | Incoming | None:
    return event(
        callback(
            type="message",
            subtype="message_changed",
            hidden=True,
            channel="C1",
            channel_type="channel",
            ts="1710000009.000001",
            message=after,
            previous_message=before,
        ),
        ME,
    )


def test_an_edit_names_the_conversation_of_the_message() -> None:
    message = {"type": "message", "user": "U1", "text": "a", "ts": "2.000001"}
    assert changed(message, {**message, "text": "<@U0AGENT> b"}) == Change(
        Address("slack", "U0AGENT", "C1", "2.000001"), "2.000001", "b"
    )
    inside = {**message, "thread_ts": "1.000001"}
    found = changed(inside, {**inside, "text": "b"})
    assert isinstance(found, Change)
    assert found.address.thread == "1.000001"


def test_the_agents_own_edits_and_unfolded_links_are_no_edits() -> None:
    message = {"type": "message", "user": "U1", "text": "https://example.org", "ts": "2.000001"}
    assert changed(message, {**message, "attachments": [{"id": 1}]}) is None
    own = {**message, "user": "U0AGENT", "bot_id": "B0AGENT"}
    assert changed(own, {**own, "text": "more"}) is None


def test_a_deletion_also_of_a_message_that_has_answers() -> None:
    message = {"type": "message", "user": "U1", "text": "a", "ts": "2.000001", "thread_ts": "2.000001"}
    expected = Removal(Address("slack", "U0AGENT", "C1", "2.000001"), "2.000001")
    assert changed(message, {**message, "subtype": "tombstone", "user": "USLACKBOT"}) == expected
    inner = {"type": "message", "subtype": "message_deleted", "channel": "C1", "channel_type": "channel"}
    assert event(callback(**inner, deleted_ts="2.000001", previous_message=message), ME) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<@U0AGENT> hello", "hello"),
        ("  <@U0AGENT|hermes>, hello", "hello"),
        ("hello <@U0AGENT>", "hello @hermes"),
        ("ask <@U1|ann> or <@U2>", "ask @ann or @U2"),
        ("in <#C1|general> and <#C2>", "in #general and #C2"),
        ("<!here> <!subteam^S1|@team> <!date^1^{date}|today>", "@here @team today"),
        ("<https://example.org> <http://example.org|example.org>", "https://example.org http://example.org"),
        ("<mailto:a@example.org|a@example.org>", "a@example.org"),
        ("&lt;b&gt; &amp;amp;", "<b> &amp;"),
        ("a < b", "a < b"),
    ],
)
def test_text_is_as_a_person_reads_it(text: str, expected: str) -> None:
    assert plain_text(text, ME) == expected


def test_a_slash_command_has_its_trigger_for_an_id_and_no_thread() -> None:
    found = slash(
        {
            "command": "/hermes",
            "text": "",
            "channel_id": "C1",
            "user_id": "U1",
            "user_name": "ann",
            "trigger_id": "13345224609.738474920.8088930838d88f008e0",
        },
        ME,
    )
    assert found is not None
    assert found.message.text == "/help"
    assert found.message.id == "13345224609.738474920.8088930838d88f008e0"
    assert found.message.address == Address("slack", "U0AGENT", "C1")
    assert slash({"command": "/hermes"}, ME) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    sorted({*DIRECT, "bot_id", "files", "message", "previous_message", "subtype", "thread_ts"})
)


@given(st.dictionaries(KEYS, JSON, max_size=6), st.sampled_from([None, "message_changed", "message_deleted"]))
def test_whatever_stands_in_a_payload_nothing_breaks(odd: dict[str, Any], subtype: str | None) -> None:
    found = event(callback(**{**DIRECT, "subtype": subtype, **odd}), ME)
    assert found is None or isinstance(found, Incoming | Change | Removal)


@given(st.text(max_size=60))
def test_what_slack_escapes_comes_back_as_it_was_written(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert plain_text(escaped, ME) == text
