"""Tools: from a typed function to a schema, and from what a model writes to checked arguments."""

from __future__ import annotations

import enum
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.errors import HermesError, ToolError
from hermes_core.messages import Role
from hermes_core.tools import Kind, Program, ToolContext, tool

# ---- declaring


class Colour(enum.Enum):
    """What a thing looks like."""

    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct):
    """A place."""

    x: int
    y: int = 0


@tool(deadline="1m", idempotent=True, role=Role.ADMIN)
def paint(
    context: ToolContext,
    what: str,
    colour: Colour,
    at: list[Point],
    layers: Annotated[int, msgspec.Meta(ge=1)] = 1,
    finish: Literal["matt", "gloss"] = "matt",
    note: str | None = None,
) -> str:
    """Paint something.

    Takes a while to dry.

    Args:
        what: The thing, with
            all its parts.
        colour (Colour): Its new colour.
        layers: How many: more
            last longer.

    Returns:
        What was painted.
    """
    return f"{what} {colour} {at} {layers} {finish} {note} {context.author.id}"


def test_a_tool_is_read_from_its_function() -> None:
    assert (paint.name, paint.kind, paint.deadline, paint.idempotent) == ("paint", Kind.THREAD, 60.0, True)
    assert (paint.role, paint.context) == (Role.ADMIN, "context")
    assert paint.description == "Paint something.\n\nTakes a while to dry.\n\nReturns:\n    What was painted."


def test_the_schema_is_one_plain_object_without_references() -> None:
    point = {
        "description": "A place.",
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
        "required": ["x"],
    }
    assert paint.schema == {
        "type": "object",
        "properties": {
            "what": {"type": "string", "description": "The thing, with all its parts."},
            "colour": {"type": "string", "enum": ["blue", "red"], "description": "Its new colour."},
            "at": {"type": "array", "items": point},
            "layers": {
                "type": "integer",
                "minimum": 1,
                "default": 1,
                "description": "How many: more last longer.",
            },
            "finish": {"enum": ["gloss", "matt"], "default": "matt"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["what", "colour", "at"],
        "additionalProperties": False,
    }
    assert "$" not in json.dumps(paint.schema)


def test_a_tool_without_arguments_has_an_empty_object_for_them() -> None:
    @tool
    async def now() -> str:
        """Tell the time."""
        return "late"

    assert now.schema == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert (now.kind, now.role, now.deadline) == (Kind.ASYNC, Role.USER, 120.0)
    assert now.check("") == now.check(" \n") == now.check("{}") == {}


def test_the_result_that_is_annotated_decides_the_kind() -> None:
    @tool("x-1")
    def plain() -> Program:
        """Run."""
        return Program(("true",))

    @tool()
    async def later() -> Program:
        """Run."""
        return Program(("true",))

    assert (plain.name, plain.kind, later.kind) == ("x-1", Kind.PROCESS, Kind.PROCESS)


class Endless(msgspec.Struct):
    more: list[Endless] = []


def _no_docstring(a: str) -> str:
    return a


def _no_annotation(a) -> str:  # type: ignore[no-untyped-def]
    """Do."""
    return str(a)


def _many(*words: str) -> str:
    """Do."""
    return "".join(words)


def _any(**words: str) -> str:
    """Do."""
    return "".join(words)


def _positional(a: str, /) -> str:
    """Do."""
    return a


def _odd(a: complex) -> str:
    """Do."""
    return str(a)


def _unknown(a: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
    """Do."""
    return str(a)


def _endless(a: Endless) -> str:
    """Do."""
    return str(a)


def _typo(word: str) -> str:
    """Do.

    Args:
        wrod: What to do.
    """
    return word


def _mutable(a: list[int] = [1]) -> str:  # noqa: B006
    """Do."""
    return str(a)


async def _generator(a: str) -> AsyncIterator[str]:
    """Do."""
    yield a


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_no_docstring, "no docstring"),
        (_no_annotation, "'a' has no annotation"),
        (_many, r"\*words: 'str' cannot be given by name"),
        (_any, r"\*\*words: 'str' cannot be given by name"),
        (_positional, "cannot be given by name"),
        (_odd, "complex"),
        (_unknown, "Nowhere"),
        (_endless, "'Endless' contains itself"),
        (_typo, "'wrod', which is no parameter"),
        (_mutable, "mutable"),
        (_generator, "is a generator"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_wrong_with_a_function_is_said_when_it_is_declared(
    function: Callable[..., Any], reason: str
) -> None:
    with pytest.raises(HermesError, match=reason) as caught:
        tool(function.__name__.strip("_"))(function)
    assert function.__name__.strip("_") in str(caught.value)


@pytest.mark.parametrize("name", ["", "1a", "a b", "ä", "a" * 65])
def test_a_name_that_providers_refuse_is_refused(name: str) -> None:
    with pytest.raises(HermesError, match="name of a tool"):
        tool(name)(lambda: None)


@pytest.mark.parametrize("deadline", ["soon", -1, 0, "", float("nan")])
def test_a_deadline_must_be_a_duration(deadline: str | float) -> None:
    async def wait() -> None:
        """Wait."""

    with pytest.raises(HermesError, match=r"'wait'.*deadline"):
        tool(deadline=deadline)(wait)


# ---- checking arguments


def test_arguments_come_as_their_types() -> None:
    given_ = paint.check('{"what": "door", "colour": "red", "at": [{"x": 1}], "layers": 2}')
    assert given_ == {
        "what": "door",
        "colour": Colour.RED,
        "at": [Point(1, 0)],
        "layers": 2,
        "finish": "matt",
        "note": None,
    }


def test_a_number_in_quotes_is_a_number_but_text_stays_text() -> None:
    @tool
    def mixed(count: int, either: int | str, sure: bool = False) -> None:
        """Do."""

    assert mixed.check('{"count": "5", "either": 1, "sure": "true"}') == {
        "count": 5,
        "either": 1,
        "sure": True,
    }
    assert mixed.check('{"count": 5, "either": "5"}') == {"count": 5, "either": "5", "sure": False}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("{", "not valid JSON"),
        ("[]", "Expected `object`, got `array`"),
        ("null", "Expected `object`"),
        ('{"what": "door"}', "missing required field `colour`"),
        ('{"what": 1, "colour": "red", "at": []}', r"Expected `str`, got `int` - at `\$.what`"),
        ('{"what": "", "colour": "green", "at": []}', r"Invalid enum value 'green' - at `\$.colour`"),
        ('{"what": "", "colour": "red", "at": [], "layers": 0}', ">= 1"),
        ('{"what": "", "colour": "red", "at": [], "size": 0}', "unknown field `size`"),
        ('{"context": {}, "what": "", "colour": "red", "at": []}', "unknown field `context`"),
        ('{"what": "\\ud800", "colour": "red", "at": []}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON|Expected"),
    ],
)
def test_the_model_is_told_what_does_not_fit_and_what_would(arguments: str, reason: str) -> None:
    with pytest.raises(ToolError, match=reason) as caught:
        paint.check(arguments)
    assert "what, colour, at, layers (optional)" in str(caught.value)


@given(st.text())
def test_whatever_a_model_writes_is_checked_or_refused(text: str) -> None:
    refused = None
    try:
        checked = paint.check(text)
    except ToolError as error:
        refused = str(error)
    assert refused if refused is not None else checked.keys() == paint.schema["properties"].keys()
