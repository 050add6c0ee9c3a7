"""Commands: from text to a checked call (case 50)."""

from __future__ import annotations

import enum
import time
from collections.abc import Awaitable
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.commands import Command, Context, Registry, Rest, command, parse, words
from hermes_core.errors import BadArguments, HermesError, NotAllowed
from hermes_core.messages import Address, Author, Entry, Role, When


def context(role: Role = Role.USER) -> Context:
    here = Address("test", "me", "1")
    author = Author("ann")
    entry = Entry("1", here, author, "", When.QUEUE, command=True)
    return Context(here, author, role, entry, cast("Any", None), Registry())


# ---- what is a command


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/echo", ("echo", "")),
        ("/echo hi there", ("echo", "hi there")),
        ("/ECHO Hi", ("echo", "Hi")),
        ("/echo\nline 1\nline 2", ("echo", "\nline 1\nline 2")),
        ("/echo   spaced  out ", ("echo", "spaced  out ")),
        ("/echo@mybot hi", ("echo", "hi")),
        ("/echo@MyBot hi", ("echo", "hi")),
        ("/echo@other hi", None),
        ("/echofoo", ("echofoo", "")),
        ("/echo-foo", None),
        ("/echo/foo", None),
        ("/usr/bin/python is broken", None),
        ("//echo", None),
        ("/ echo", None),
        ("/1", None),
        ("/", None),
        ("", None),
        ("echo", None),
        (" /echo", None),
        ("/échо", None),
        ("/" + "a" * 33, None),
    ],
)
def test_a_command_is_a_slash_a_name_and_white_space_or_the_end(
    text: str, found: tuple[str, str] | None
) -> None:
    assert parse(text, "mybot") == found


def test_without_an_account_name_every_suffix_is_taken() -> None:
    assert parse("/echo@anything hi") == ("echo", "hi")


# ---- words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a b", ["a", "b"]),
        ('"a b" c', ["a b", "c"]),
        ("'a b' c", ["a b", "c"]),
        ("“a b” c", ["a b", "c"]),
        ('"say \\"hi\\"" x', ['say "hi"', "x"]),
        ("it's fine", ["it's", "fine"]),
        ("'tis the season", ["'tis", "the", "season"]),
        ('5" pipe', ['5"', "pipe"]),
        ('"never closed', ['"never', "closed"]),
        ('""', [""]),
        ("a\n\tb", ["a", "b"]),
        ('"a\nb"', ["a\nb"]),
        ('"a"b', ['"a"b']),
        ("", []),
    ],
)
def test_quotes_keep_white_space_and_an_open_quote_is_a_character(text: str, found: list[str]) -> None:
    assert words(text) == found


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=8))
def test_any_words_come_back_when_they_are_quoted(parts: list[str]) -> None:
    quoted = " ".join('"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"' for part in parts)
    assert words(quoted) == parts


@pytest.mark.parametrize(
    "unit", ["word ", "'a ", "'a'b ", '"a ', '"\\ "', "“ ", '"a" ', "\\", "' ", "/echo ", "«a» »", "\n"]
)
def test_case_50_reading_arguments_is_linear_in_their_length(unit: str) -> None:
    def steps(size: int) -> float:
        text = unit * size
        best = 9.0
        for _ in range(3):
            start = time.perf_counter()
            words(text)
            parse("/echo " + text)
            best = min(best, time.perf_counter() - start)
        return best

    small, large = steps(4_000), steps(64_000)
    assert large < 16 * 6 * max(small, 0.0005), (
        "16 times the text must not take a multiple of 16 times as long"
    )


# ---- arguments by the handler's signature


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


@command("all", aliases=("a",))
async def everything(
    context: Context, n: int, size: float, on: bool, colour: Colour, mode: Literal["fast", "slow"], text: Rest
) -> str:
    """Take one of each."""
    return repr((n, size, on, colour.value, mode, text))


@command("plain")
def plain(context: Context) -> str:
    """Take nothing."""
    return "ok"


@command("some")
def some(context: Context, first: str, second: int = 7, *more: str) -> str:
    """Take some."""
    return repr((first, second, more))


@command("optional")
def optional(context: Context, text: Rest = Rest("nothing"), /) -> str:
    """Take a text or none."""
    return text


async def call(found: Command, arguments: str, role: Role = Role.USER) -> str | None:
    result = found.handler(context(role), *Registry().bound(found, role, arguments))
    return await result if isinstance(result, Awaitable) else result


async def test_every_kind_of_argument_is_converted_and_the_rest_stays_as_it_is() -> None:
    answer = await call(everything, '３ 2.5 yes BLUE Slow two  words\n"and" a line')
    assert answer == repr((3, 2.5, True, "blue", "slow", 'two  words\n"and" a line'))


async def test_defaults_and_many_words() -> None:
    assert await call(some, "x") == repr(("x", 7, ()))
    assert await call(some, 'x 3 "y z" w') == repr(("x", 3, ("y z", "w")))
    assert await call(optional, "  ") == "nothing"
    assert await call(plain, "") == "ok"


@pytest.mark.parametrize(
    ("found", "arguments", "says"),
    [
        (everything, "", "N is missing"),
        (everything, "two", "N must be a whole number, not 'two'"),
        (everything, "2 x", "SIZE must be a number"),
        (everything, "2 1 maybe", "ON must be yes or no"),
        (everything, "2 1 yes green", "COLOUR must be one of red, blue"),
        (everything, "2 1 yes red medium", "MODE must be one of fast, slow"),
        (everything, "2 1 yes red fast", "TEXT is missing"),
        (everything, "2 1 yes red fast  \n ", "TEXT is missing"),
        (plain, "x", "takes no arguments"),
        (some, "", "FIRST is missing"),
    ],
)
async def test_what_does_not_fit_is_answered_with_what_to_type(
    found: Command, arguments: str, says: str
) -> None:
    with pytest.raises(BadArguments, match=says) as error:
        await call(found, arguments)
    assert f"Type {found.usage}" in str(error.value)


def test_the_usage_shows_names_choices_and_what_may_be_left_out() -> None:
    assert everything.usage == "/all N SIZE ON red|blue fast|slow TEXT"
    assert some.usage == "/some FIRST [SECOND] [MORE …]"
    assert plain.usage == "/plain"


def test_the_help_is_the_first_line_of_the_docstring() -> None:
    assert plain.help == "Take nothing."


# ---- declaring


def test_a_declaration_that_cannot_work_is_refused_at_once() -> None:
    async def undocumented(context: Context) -> None: ...

    async def documented(context: Context) -> None:
        """Help."""

    async def early_rest(context: Context, text: Rest, n: int) -> None:
        """Help."""

    async def keyword(context: Context, *, n: int) -> None:
        """Help."""

    async def nothing() -> None:
        """Help."""

    declared: list[tuple[str, Any, str]] = [
        ("x", undocumented, "no help"),
        ("Not Good", documented, "cannot be the name"),
        ("x", early_rest, "only the last parameter"),
        ("x", keyword, "by keyword"),
        ("x", nothing, "takes no context"),
    ]
    for name, handler, says in declared:
        with pytest.raises(HermesError, match=says):
            command(name)(handler)


# ---- the registry


def test_case_48_a_name_that_is_taken_names_both_plugins_and_leaves_the_first_alone() -> None:
    registry = Registry()
    registry.add("first", plain)
    clash = command("other", aliases=("plain",), help="x")(lambda context: "no")
    with pytest.raises(HermesError, match="'second' is taken by plugin 'first'"):
        registry.add("second", clash)
    assert registry.get("plain") is plain
    assert registry.get("other") is None, "a clashing command is not half there"


def test_names_and_aliases_are_found_in_any_case() -> None:
    registry = Registry()
    registry.add("one", everything)
    assert registry.get("ALL") is everything
    assert registry.get("a") is everything
    assert registry.owner("A") == "one"
    assert registry.all() == [everything]


def test_the_nearest_name_is_one_that_the_person_may_use() -> None:
    registry = Registry()
    registry.add("one", command("secret", help="x", role=Role.OWNER)(lambda context: ""))
    registry.add("one", command("second", help="x")(lambda context: ""))
    assert registry.nearest("secnd", Role.USER) == "second"
    assert registry.nearest("secrt", Role.OWNER) == "secret"
    assert registry.nearest("zzz") is None


async def test_x1_the_role_is_checked_before_the_arguments() -> None:
    private = command("private", help="x", role=Role.ADMIN)(lambda context, n: n)
    with pytest.raises(NotAllowed, match="for admins"):
        await call(private, "")
    assert await call(private, "1", Role.OWNER) == "1"
