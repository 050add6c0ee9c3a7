"""What was used lately: held against a list that is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_core.recent import Recent


@given(most=st.integers(1, 5), keys=st.lists(st.integers(0, 8)))
def test_it_holds_what_was_set_last_and_no_more_than_fits(most: int, keys: list[int]) -> None:
    recent = Recent[int, int](most)
    expected: list[int] = []
    for number, key in enumerate(keys):
        recent[key] = number
        expected = [*(one for one in expected if one != key), key][-most:]
        assert list(recent) == expected
        assert recent[key] == number


def test_what_is_put_in_as_a_whole_is_cut_as_well() -> None:
    recent = Recent[str, int](2)
    recent.update({"a": 1, "b": 2, "c": 3})
    assert list(recent.items()) == [("b", 2), ("c", 3)]
