"""What is downloaded in several tries is given once, from the first byte to the last."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.download import resumed
from hermes_core.errors import HermesError
from hermes_core.testing.virtual import run

CONTENT = bytes(range(256)) * 2


class Server:
    """Breaks after so many bytes, once for each number. `ranges`: it begins where it is asked to."""

    def __init__(self, breaks: list[int], piece: int, *, ranges: bool) -> None:
        self.breaks = breaks
        self.piece = piece
        self.ranges = ranges
        self.closed = 0

    async def begin(self, known: int) -> AsyncGenerator[tuple[int, bytes], None]:
        at = known if self.ranges else 0
        end = at + self.breaks.pop(0) if self.breaks else None
        try:
            while at < len(CONTENT):
                if end is not None and at >= end:
                    raise ConnectionError("cut")
                yield at, CONTENT[at : at + self.piece]
                at += self.piece
        finally:
            self.closed += 1


def usual(error: Exception, seconds: float | None) -> float:
    if seconds is None:
        raise HermesError("It cannot be had.") from error
    return seconds


@given(
    breaks=st.lists(st.integers(0, len(CONTENT) - 1), max_size=2),
    piece=st.integers(1, 300),
    ranges=st.booleans(),
)
def test_each_byte_comes_once_wherever_it_breaks(breaks: list[int], piece: int, ranges: bool) -> None:
    async def main() -> None:
        server = Server(breaks, piece, ranges=ranges)
        assert b"".join([one async for one in resumed(server.begin, (OSError,), usual)]) == CONTENT

    run(main())


def test_what_breaks_again_and_again_is_given_up_with_what_is_to_be_said() -> None:
    async def main() -> None:
        server = Server([10, 10, 10], 5, ranges=True)
        got = bytearray()

        async def read() -> None:
            async for one in resumed(server.begin, (OSError,), usual):
                got.extend(one)

        with pytest.raises(HermesError, match="cannot be had"):
            await read()
        assert got == CONTENT[:30]
        assert server.closed == 3

    run(main())


def test_an_error_that_is_no_trouble_on_the_way_comes_through_at_once() -> None:
    async def main() -> None:
        server = Server([10], 5, ranges=True)
        with pytest.raises(ConnectionError):
            [one async for one in resumed(server.begin, (TimeoutError,), usual)]
        assert server.closed == 1

    run(main())


def test_who_stops_early_closes_what_was_begun() -> None:
    async def main() -> None:
        server = Server([], 5, ranges=True)
        pieces = resumed(server.begin, (OSError,), usual)
        assert await anext(pieces) == CONTENT[:5]
        await pieces.aclose()
        assert server.closed == 1

    run(main())
