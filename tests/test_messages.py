"""The values: an address round-trips for any ids, and everything can be written down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.errors import HermesError
from hermes_core.messages import (
    Address,
    Author,
    Entry,
    Item,
    Said,
    SaidKind,
    Step,
    ToolCall,
    ToolResult,
    When,
    decode,
    encode,
)

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=30)
ADDRESSES = st.builds(Address, ANY_TEXT, ANY_TEXT, ANY_TEXT, st.none() | ANY_TEXT)


@given(ADDRESSES)
def test_an_address_comes_back_from_its_string_form_whatever_its_parts(address: Address) -> None:
    text = str(address)
    assert Address.parse(text) == address
    assert not any(character.isspace() for character in text)
    text.encode()  # also where a part holds half of a surrogate pair


@given(ADDRESSES, ADDRESSES)
def test_two_addresses_share_a_string_form_only_if_they_are_the_same(one: Address, other: Address) -> None:
    assert (str(one) == str(other)) == (one == other)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (Address("telegram", "bot", "-100123"), "telegram:bot:-100123"),
        (Address("slack", "T1", "C2", "1699.0001"), "slack:T1:C2:1699.0001"),
        (Address("x", "a:b", "50%", ""), "x:a%3Ab:50%25:"),
        (Address("irc", "me", "#kaffee-☕"), "irc:me:#kaffee-☕"),
        (Address("x", "", "line\nbreak"), "x::line%0Abreak"),
    ],
)
def test_the_string_form_can_be_read_by_people(address: Address, text: str) -> None:
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "telegram", "a:b", "a:b:c:d:e", "a:b:%41", "a:b:c d", "a:b:%", "a:b:%3a"]
)
def test_what_is_no_address_is_refused_with_the_right_form(text: str) -> None:
    with pytest.raises(HermesError, match="platform:account:channel"):
        Address.parse(text)


def test_an_entry_can_be_written_down_and_read_back() -> None:
    entry = Entry("1", Address("x", "y", "z"), Author("7", "Änn 🙂"), "hi\n", When.AT_REPLY, at_reply=3)
    assert decode(encode(entry), Entry) == entry


def test_history_items_keep_their_kind() -> None:
    items: tuple[Item, ...] = (
        Said(SaidKind.STEER, "left"),
        Step("", (ToolCall("c", "t", "{}"),), (ToolResult("c", "ok"),), {"thinking": "…"}),
    )
    assert decode(encode(items), tuple[Item, ...]) == items
