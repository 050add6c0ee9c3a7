"""JSON that can always be written, and ids of calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.messages import Said, SaidKind, Step, ToolCall, ToolResult
from hermes_httpmodel.content import call_ids, distinct, encode, is_object

_ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=5)
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), _ANY_TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_ANY_TEXT, inner, max_size=3)),
    max_leaves=8,
)


def whole(value: Any) -> bool:
    """Whether UTF-8 can hold all of `value`."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(_JSON)
def test_what_can_be_written_comes_back_and_the_rest_is_mended(content: Any) -> None:
    back = json.loads(encode(content))
    if whole(content):
        assert back == content
    else:
        assert whole(back)
        assert "\ufffd" in json.dumps(back, ensure_ascii=False) or back != content


def test_two_halves_of_a_character_become_it() -> None:
    assert json.loads(encode({"\ud83d": ["a\ud83d\ude00"]})) == {"\ufffd": ["a😀"]}


@pytest.mark.parametrize(
    ("arguments", "yes"),
    [
        ("{}", True),
        (' {"a": [1]} ', True),
        ("[]", False),
        ("", False),
        ("{", False),
        ('{"a": "\ud800"}', False),
        ("[" * 100_000, False),
    ],
    ids=["empty", "full", "a list", "nothing", "half", "half a character", "deeper than can be read"],
)
def test_arguments_are_an_object_or_not(arguments: str, yes: bool) -> None:
    assert is_object(arguments) is yes


@given(
    st.lists(st.sampled_from(["", "a", "b", "call_1", "call_2"])),
    st.frozensets(st.sampled_from(["a", "call_1"])),
)
def test_ids_become_distinct_and_keep_theirs_where_they_can(ids: list[str], taken: frozenset[str]) -> None:
    given_ = distinct(ids, taken)
    assert len(given_) == len(ids)
    assert len({*given_, *taken}) == len(given_) + len(taken)
    assert all(given_)
    assert given_ == distinct(ids, taken)
    if all(ids) and len({*ids, *taken}) == len(ids) + len(taken):
        assert given_ == ids


def test_the_ids_of_a_history_are_those_of_its_calls() -> None:
    step = Step(
        "", (ToolCall("a", "t", "{}"), ToolCall("b", "t", "{}")), (ToolResult("a", ""), ToolResult("b", ""))
    )
    assert call_ids([Said(SaidKind.MESSAGE, "x"), step, Step("y")]) == {"a", "b"}
