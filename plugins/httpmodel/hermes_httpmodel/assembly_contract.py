"""AssemblyContract: what must come of the pieces of a stream, whatever its form and its faults, as tests.

    class TestAssembly(AssemblyContract):
        shows = (chunk("a"),)
        ...
        def new(self) -> Assembly: ...

Nothing in the package imports this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, TypeAlias

import pytest

from hermes_core.errors import ModelError
from hermes_core.models import Delta, Stop, Text, Usage
from hermes_httpmodel.stream import Assembly

__all__ = ["AssemblyContract", "Broken", "Pieces"]

Pieces: TypeAlias = Sequence[bytes]
Broken: TypeAlias = "tuple[bytes, str, bool]"
"""A piece with an error in it, a part of what is said of it, and whether it may be tried again; it says "boom"."""

_ALWAYS: Final[Mapping[str, tuple[Pieces, str]]] = {
    "nothing at all": ((), "broke off"),
    "no JSON": ((b"data: {oh\n\n",), "no JSON"),
    "another JSON": ((b"data: [1]\n\n",), "unknown form"),
    "an endless piece": ((b"data: " + b"x" * 5_000_000,), "does not end"),
    "deeper than can be read": ((b"data: " + b'{"error":' * 100_000 + b"\n\n",), "no JSON"),
}


class AssemblyContract:
    """Set the class variables, each a table of cases by their names, and say how an assembly is made.

    `shows`: pieces that show the text "a". `ways`: streams of which just `spoken` comes. `unreadable`: streams, and
    what is said of them, beside those of all servers. `errors`: what may come behind `shows`. `reasons`: streams, and
    why they stopped. `usages`: streams, and what they cost.
    """

    shows: ClassVar[Pieces]
    spoken: ClassVar[tuple[Delta, ...]]
    ways: ClassVar[Mapping[str, Pieces]]
    unreadable: ClassVar[Mapping[str, tuple[Pieces, str]]]
    errors: ClassVar[Mapping[str, Broken]]
    reasons: ClassVar[Mapping[str, tuple[Pieces, str]]]
    usages: ClassVar[Mapping[str, tuple[Pieces, Usage]]]

    def new(self) -> Assembly:
        """An assembly for one answer."""
        raise NotImplementedError

    def play(self, pieces: Pieces) -> list[Delta]:
        """All that comes of a stream."""
        assembly = self.new()
        deltas = [delta for piece in pieces for delta in assembly.feed(piece)]
        return [*deltas, *assembly.end()]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Each row of a table is a case of its own."""
        tables: dict[str, tuple[str, Mapping[str, object]]] = {
            "text": ("pieces, text", {**_ALWAYS, **self.unreadable}),
            "retryable": ("piece, said, retryable", self.errors),
            "reason": ("pieces, reason", self.reasons),
            "counted": ("pieces, counted", self.usages),
            "pieces": ("pieces", self.ways),
        }
        for name, (arguments, cases) in tables.items():
            if name in metafunc.fixturenames:
                metafunc.parametrize(arguments, list(cases.values()), ids=list(cases))
                return

    def test_an_answer_is_whole_where_its_server_says_so_in_any_way(self, pieces: Pieces) -> None:
        assert self.play(pieces) == list(self.spoken)

    def test_why_the_model_stopped_is_told(self, pieces: Pieces, reason: str) -> None:
        assert self.play(pieces)[-1] == Stop(reason)

    def test_usage_is_counted(self, pieces: Pieces, counted: Usage) -> None:
        assert [one for one in self.play(pieces) if isinstance(one, Usage)] == [counted]

    def test_what_cannot_be_read_is_an_error_that_names_it_and_may_be_tried_again(
        self, pieces: Pieces, text: str
    ) -> None:
        with pytest.raises(ModelError, match=text) as raised:
            self.play(pieces)
        assert raised.value.retryable

    def test_an_error_inside_the_stream_is_an_error_whose_cause_says_what_the_server_said(
        self, piece: bytes, said: str, retryable: bool
    ) -> None:
        assembly = self.new()
        assert [delta for one in self.shows for delta in assembly.feed(one)] == [Text("a")]
        with pytest.raises(ModelError) as raised:
            assembly.feed(piece)
        assert said in str(raised.value)
        assert raised.value.retryable is retryable
        assert "boom" not in str(raised.value)
        assert "boom" in str(raised.value.__cause__)
