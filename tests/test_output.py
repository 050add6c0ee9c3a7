"""Output: beginning and end are kept, the middle is counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_core.processes.output import Output


@given(st.lists(st.binary(max_size=40)), st.integers(0, 60))
def test_output_keeps_beginning_and_end_and_counts_the_rest(chunks: list[bytes], limit: int) -> None:
    output = Output(limit)
    for chunk in chunks:
        output.add(chunk)
    whole = b"".join(chunks)
    text, cut = output.read()
    assert output.received == len(whole)
    if len(whole) <= limit:
        assert (text, cut) == (whole.decode(errors="replace"), 0)
    else:
        assert len(whole) - limit <= cut <= min(len(whole), len(whole) - limit + 6)
        head, _, tail = text.partition(f"\n[… {cut} bytes left out …]\n")
        assert whole.decode(errors="replace").startswith(head) or "\ufffd" in head
        assert whole.decode(errors="replace").endswith(tail) or "\ufffd" in tail


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), min_size=1),
    st.integers(0, 60),
)
def test_a_cut_never_breaks_a_character(text: str, limit: int) -> None:
    output = Output(limit)
    output.add(text.encode())
    assert "\ufffd" not in output.read()[0]
