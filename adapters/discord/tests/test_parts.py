"""The pure parts: rendering, nonces, the notebook, the conversion of events, the settings."""

from __future__ import annotations

from pathlib import Path

import discord as library
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.config import Config
from hermes_core.errors import ConfigError
from hermes_core.markup import DISCORD, parse, split, utf16
from hermes_core.messages import Address
from hermes_core.testing.platforms.discord import FakeDiscord
from hermes_core.writing import Doubt, Place
from hermes_discord import convert, render
from hermes_discord.doubt import left_by
from hermes_discord.limits import LONGEST_TEXT, NONCE
from hermes_discord.notebook import MOST, Notebook
from hermes_discord.plugin import DiscordPlugin
from hermes_discord.render import Piece, complete, cut, nonce

ME = 900000000000000001


@given(st.text(min_size=1, max_size=6000))
def test_every_message_fits_and_none_is_blank(text: str) -> None:
    for part in cut(text, True):
        assert len(part.text.encode("utf-16-le", "surrogatepass")) // 2 <= 2000
        assert part.text.strip()


@given(
    st.text(st.sampled_from("ab1 ,.!?'é-*_ß中"), max_size=30) | st.from_regex(render._PLAIN, fullmatch=True)
)
def test_what_needs_no_parser_is_what_the_parser_would_give(text: str) -> None:
    parts = split(parse(text), DISCORD, LONGEST_TEXT, utf16)
    assert cut(text, True) == [Piece(part.text) for part in parts]


def at(key: str, part: int = 0, index: int = 0, of: int = 0, again: int = 0) -> Place:
    """Where a message is."""
    return Place(Address("discord", "9", "1"), key, part, index, of, again)


NUMBERS = st.integers(0, 300)


@given(st.text(max_size=40), NUMBERS, NUMBERS, NUMBERS, st.integers(0, 15))
def test_a_nonce_is_short_and_the_same_for_the_same_place(
    key: str, part: int, index: int, of: int, again: int
) -> None:
    place = at(key, part, index, of, again)
    assert nonce(place) == nonce(at(key, part, index, of, again))
    assert len(nonce(place)) <= NONCE
    others = [at(f"{key}x", part, index, of, again), at(key, part + 1, index, of, again)]
    others += [at(key, part, index + 1, of, again), at(key, part, index, of, again + 1)]
    assert nonce(place) not in {nonce(one) for one in others}


def test_a_text_is_found_only_when_all_of_its_messages_are() -> None:
    found = {nonce(at("k", 0, index, 3)): str(index) for index in range(3)}
    assert complete("k", found) == ("0", "1", "2")
    assert complete("other", found) is None
    found[nonce(at("k", 0, 1, 3, again=1))] = "9"  # one was deleted, and posted anew
    assert complete("k", found) == ("0", "9", "2")
    found[nonce(at("k", 1, 0, 2))] = "10"  # there is a later text, which is not complete
    assert complete("k", found) is None
    del found[nonce(at("k", 1, 0, 2))], found[nonce(at("k", 0, 2, 3))]
    assert complete("k", found) is None
    assert complete("k", {nonce(at("k")): "7"}) is None  # it was still being written


def test_d5_a_message_that_another_post_left_is_not_the_one_that_is_looked_for() -> None:
    fake = FakeDiscord()
    room, long = fake.room(), "This can be told apart from all others."
    mine = [_event(fake, room, text, "Hermes") for text in ("Yes.", "Yes.", long)]
    first, second, third = (str(one.id) for one in mine)
    now = mine[0].created_at.timestamp()
    assert left_by(Doubt("Yes.", now), mine, ()) == second
    assert left_by(Doubt("Yes.", now), mine, {second}) == first
    assert left_by(Doubt("Yes.", now), mine, {first, second}) is None
    assert left_by(Doubt("Yes.", now + 600.0), mine, ()) is None  # it may be any
    assert left_by(Doubt(long, now + 600.0), mine, ()) == third
    assert left_by(Doubt("", now), [_event(fake, room, "", "Hermes")], ()) is None


def test_the_notebook_reads_what_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "discord" / "notebook.json"
    book = Notebook(path)
    book.meet("1", "discord:9:1", "8", "100")
    book.seen("1", "99")
    book.seen("1", "1000")
    book.seen("2", "1")  # nobody spoke to the agent there
    book.post("a nonce", "5")
    again = Notebook(path)
    assert [channel for channel, _ in again.channels()] == ["1"]
    book.write()
    again = Notebook(path)
    assert [(channel, known.last) for channel, known in again.channels()] == [("1", "1000")]
    assert again.posted() == {"a nonce": "5"}


def test_a_broken_notebook_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "notebook.json"
    path.write_text("{")
    assert Notebook(path).channels() == []


def test_a_channel_that_was_just_met_is_known_after_a_crash_at_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "discord" / "notebook.json"
    met = path.with_name("met.jsonl")
    Notebook(path).meet("1", "discord:9:1", None, "100")
    whole = met.read_bytes()
    for cut_off in range(len(whole) + 1):
        met.write_bytes(whole + whole[:cut_off].replace(b'"1"', b'"2"'))
        book = Notebook(path)
        book.meet("3", "discord:9:3", None, "300")
        assert {"1", "3"} <= {channel for channel, _ in Notebook(path).channels()}
    book.seen("1", "400")
    book.write()
    assert not met.exists()
    assert {channel: known.last for channel, known in Notebook(path).channels()} == {
        "1": "400",
        "2": "100",
        "3": "300",
    }


def test_a_notebook_keeps_the_channels_in_which_something_happened_last() -> None:
    book = Notebook(None)
    for number in range(MOST + 1):
        book.meet(str(number), f"discord:9:{number}", None, "1")
        if number == 1:
            book.seen("0", "2")
    assert book.known("1") is None
    assert book.known("0") is not None


def _event(fake: FakeDiscord, room: str, text: str, name: str = "ann", **more: object) -> library.Message:
    """A message as discord.py makes it of a MESSAGE_CREATE."""
    state = library.Client(intents=library.Intents.none())._connection
    state._add_guild_from_data(fake.world.guild_object())  # type: ignore[arg-type]
    author = fake.me if name == "Hermes" else fake.person(name)
    raw = fake.world.announced(fake.world.write(room, author, text, **more))
    place = library.PartialMessageable(state, int(room), guild_id=int(raw["guild_id"]))
    return library.Message(state=state, channel=place, data=raw)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("<@900000000000000001> hello", "hello"),
        ("<@!900000000000000001>, hello", "hello"),
        ("hello <@900000000000000001>", "hello"),
        ("ask <@900000000000000001> and <@700000000000000001>", "ask @Hermes and @Ann"),
        ("<@900000000000000001>", "@Hermes"),
        ("<@900000000000000001> /stop now", "/stop now"),
        ("what is <@1>?", "what is <@1>?"),
    ],
)
def test_mentions_are_read_as_names(text: str, read: str) -> None:
    fake = FakeDiscord()
    fake.person("ann")
    message = _event(fake, fake.room(), text)
    assert convert.readable(message, ME) == read


def test_roles_channels_threads_and_emoji_are_read_by_their_names() -> None:
    fake = FakeDiscord()
    room = fake.room("general")
    thread = fake.thread(room, "plans")
    everyone = fake.world.guild
    text = f"see <#{room}> and <#{thread}>, <@&{everyone}> <:party:123> <a:wave:5> <#9> <@&9> <t:5>"
    read = convert.readable(_event(fake, room, text), ME)
    assert read == "see #general and #plans, @everyone :party: :wave: <#9> <@&9> <t:5>"


def test_a_message_becomes_our_values() -> None:
    fake = FakeDiscord()
    room = fake.room()
    first = fake.world.write(room, fake.me, "an answer")
    event = _event(fake, room, "x" * 1950, reply_to=first["id"])
    address = Address("discord", "9", room)
    message = convert.message_of(event, address, ME)
    assert (message.address, message.reply_to, message.group, message.partial) == (
        address,
        first["id"],
        True,
        True,
    )
    assert (message.author.id, message.author.name, message.author.bot) == (
        "700000000000000001",
        "Ann",
        False,
    )
    assert message.sent is not None
    assert convert.for_the_agent(event, ME, lambda name: False)


@pytest.mark.parametrize(
    ("text", "name", "taken"),
    [
        ("hello all", "ann", False),
        ("<@900000000000000001> hello", "ann", True),
        ("/stop", "ann", True),
        ("/stopover", "ann", False),
        ("@everyone", "ann", False),
    ],
)
def test_what_is_for_the_agent_x4(text: str, name: str, taken: bool) -> None:
    fake = FakeDiscord()
    message = _event(fake, fake.room(), text, name)
    assert convert.for_the_agent(message, ME, lambda command: command == "stop") is taken


def test_x4_e12_a_command_that_names_nobody_is_taken_and_addressed_to_nobody() -> None:
    fake = FakeDiscord()
    room = fake.room()
    address = Address("discord", "9", room)
    assert not convert.message_of(_event(fake, room, "/stop"), address, ME).addressed
    assert convert.message_of(_event(fake, room, "<@900000000000000001> /stop"), address, ME).addressed


def test_x4_a_bot_that_names_the_agent_is_handed_in_as_a_bot_and_its_commands_are_not() -> None:
    fake = FakeDiscord()
    room = fake.room()
    fake.person("robo", bot=True)
    event = _event(fake, room, "<@900000000000000001> hi", "robo")
    assert convert.for_the_agent(event, ME, lambda name: True)
    assert convert.message_of(event, Address("discord", "9", room), ME).author.bot
    assert not convert.for_the_agent(_event(fake, room, "/stop", "robo"), ME, lambda name: True)


def test_own_messages_and_webhooks_are_never_for_the_agent_x4() -> None:
    fake = FakeDiscord()
    room = fake.room()
    for event in (
        _event(fake, room, "<@900000000000000001> hi", "Hermes"),
        _event(fake, room, "<@900000000000000001> hi", fields={"webhook_id": "5"}),
        _event(fake, room, "<@900000000000000001> hi", fields={"type": 6}),
    ):
        assert not convert.for_the_agent(event, ME, lambda name: True)


def test_a_missing_token_is_named_with_its_key_and_never_shown() -> None:
    config = Config.of({"adapters": {"discord": {"token_env": "NOT_SET"}}})
    plugin = DiscordPlugin(config.section("adapters", "discord", DiscordPlugin.Settings))
    factory = next(iter(plugin.hermes_adapters()))
    with pytest.raises(ConfigError, match=r"adapters\.discord\.token_env.*NOT_SET"):
        factory.open({})
