"""From what was given to a settings value: each key checked, each error with the nearest right word."""

from __future__ import annotations

import enum
import math
import re
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec

from hermes_core.config.settings import Secrets, duration
from hermes_core.config.sources import PREFIX, Given, Key, Sources
from hermes_core.errors import ConfigError

__all__ = ["build", "check_value", "keys", "masked", "not_a_table", "shown", "unknown"]

_S = TypeVar("_S", bound=msgspec.Struct)

_YES: Final = frozenset({"true", "yes", "on", "1"})
_NO: Final = frozenset({"false", "no", "off", "0"})
_USERINFO: Final = re.compile(r"://[^/@\s]*@")
_POSITIVE: Final = " that is not negative"
_LISTS: Final = (list, tuple, set, frozenset)


def keys(settings: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The keys that a settings type has, by the name that people write."""
    return {
        field.encode_name: field for field in msgspec.structs.fields(settings) if field.type is not Secrets
    }


def build(
    settings: type[_S],
    path: Key,
    sources: Sources,
    *,
    ignore: Collection[str] = (),
    secrets: Secrets | None = None,
) -> _S:
    """The settings at `path`, defaults filled in; `ConfigError` for the first key that does not fit.

    Keys in `ignore` belong to someone else. A field of type `Secrets` gets `secrets`.
    """
    fields = keys(settings)
    lone = sources.values.get(path)
    if lone is not None:
        raise not_a_table(path, lone)
    for name in sources.children(path):
        if name not in fields and name not in ignore:
            raise unknown((*path, name), sources, [*fields, *ignore])
    values: dict[str, Any] = {}
    for name, field in fields.items():
        here = (*path, name)
        first = sources.first(here)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            values[field.name] = build(field.type, here, sources, secrets=secrets)
        elif here in sources.values:
            values[field.name] = check_value(here, sources.values[here], field.type)
        elif first is not None:
            values[field.name] = check_value(here, first._replace(value=sources.nested(here)), field.type)
        elif field.required:
            place = sources.first(path)
            raise ConfigError(
                f"{place.place + ': ' if place else ''}{'.'.join(here)} is needed.",
                f"It must be {_wanted(field.type)}.",
            )
    for field in msgspec.structs.fields(settings):
        if field.type is Secrets and secrets is not None:
            values[field.name] = secrets
    try:
        return settings(**values)
    except ValueError as error:  # a settings type checks what its types cannot say
        place = sources.first(path)
        raise ConfigError(f"{place.place + ': ' if place else ''}{error}.") from error


def check_value(key: Key, given: Given, annotation: Any) -> Any:
    """The value as this type; `ConfigError` names the key, where it stands and what it should be."""
    try:
        return _convert(given, annotation)
    except (ValueError, TypeError) as error:
        value = "a table" if isinstance(given.value, Mapping) else shown(given.value)
        hint = ""
        if isinstance(given.value, str):
            hint = _did_you_mean([f'"{word}"' for word in _nearest(given.value, _choices(annotation))])
        raise ConfigError(
            f"{given.place}: {'.'.join(key)} must be {_wanted(annotation)}, not {value}.", hint
        ) from error


def not_a_table(key: Key, given: Given) -> ConfigError:
    """The error for a value that stands where a section should be."""
    dotted = ".".join(key)
    hint = f"Name a key of it: {given.name}__KEY." if given.name else f"Write [{dotted}] and its keys below."
    return ConfigError(f"{given.place}: {dotted} must be a table.", hint)


def unknown(key: Key, sources: Sources, known: Iterable[str]) -> ConfigError:
    """The error for a key or section that nobody reads, with the nearest one that somebody does."""
    given = sources.first(key)
    assert given is not None
    names = sorted(set(known))
    near = _nearest(key[-1], names)
    section = "" if len(key) == 1 else f" in [{'.'.join(key[:-1])}]"
    what = "section" if len(key) == 1 else "key"
    if near and given.name:
        rest = given.name[len(PREFIX) :].split("__")[len(key) :]
        hint = _did_you_mean(
            [PREFIX + "__".join([*(part.upper() for part in key[:-1]), word.upper(), *rest]) for word in near]
        )
    elif near:
        hint = _did_you_mean([f"[{word}]" if what == "section" else f'"{word}"' for word in near])
    else:
        hint = f"There are: {', '.join(names)}."
    return ConfigError(f'{given.place}: there is no {what} "{key[-1][:60]}"{section}.', hint)


def shown(value: Any) -> str:
    """A value as an error may show it: short, and without a password in a URL."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # nan and inf, as TOML has them; JSON does not
    text = msgspec.json.encode(masked(value), enc_hook=str).decode()
    return text if len(text) <= 60 else text[:59] + "…"


def masked(value: Any) -> Any:
    """The value without what stands before the @ of a URL, which may be a password (X2)."""
    if isinstance(value, str):
        return _USERINFO.sub("://***@", value)
    if isinstance(value, Mapping):
        return {key: masked(inner) for key, inner in value.items()}
    return [masked(inner) for inner in value] if isinstance(value, list | tuple) else value


def _convert(given: Given, annotation: Any) -> Any:
    value, text = given.value, given.text
    kind, extra = _plain(annotation)
    if extra.get("duration"):
        return msgspec.convert(duration(value), annotation)
    if kind is Path:
        return _path(given, value)
    if text and kind is bool:
        word = value.strip().lower()
        if word not in _YES | _NO:
            raise ValueError("neither yes nor no")
        return word in _YES
    if text and typing.get_origin(kind) in (*_LISTS, dict):
        value, text = _from_text(value, kind)
    if typing.get_origin(kind) in _LISTS and Path in typing.get_args(kind):
        return typing.get_origin(kind)(_path(given, one) for one in msgspec.convert(value, list[str]))
    converted = msgspec.convert(value, annotation, strict=not text)
    choices = extra.get("choices")
    if choices is not None and converted not in choices:
        raise ValueError("not a choice")
    return converted


def _path(given: Given, value: object) -> Path:
    """A path as somebody wrote it: ~ is the home folder, and what stands in a file is relative to that file."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("not a path")
    path = Path(value).expanduser()
    return path if given.folder is None else given.folder / path


def _from_text(value: str, kind: Any) -> tuple[Any, bool]:
    """A list or table that came as text: TOML, or for a list also words between commas."""
    if value.strip().startswith(("[", "{")):
        import tomllib

        return tomllib.loads(f"value = {value.strip()}")["value"], False
    if typing.get_origin(kind) is dict:
        raise ValueError("not a table")
    return [word for part in value.split(",") if (word := part.strip())], True


def _plain(annotation: Any) -> tuple[Any, dict[str, Any]]:
    """The type without its marks and without None, and what the marks say besides."""
    extra: dict[str, Any] = {}
    if typing.get_origin(annotation) is Annotated:
        annotation, *marks = typing.get_args(annotation)
        for mark in marks:
            extra |= (mark.extra or {}) if isinstance(mark, msgspec.Meta) else {}
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        inner = [one for one in typing.get_args(annotation) if one is not type(None)]
        if len(inner) == 1:
            kind, more = _plain(inner[0])
            return kind, extra | more
    return annotation, extra


def _choices(annotation: Any) -> list[str]:
    kind, extra = _plain(annotation)
    if "choices" in extra:
        return [str(one) for one in extra["choices"]]
    if typing.get_origin(kind) is typing.Literal:
        return [str(one) for one in typing.get_args(kind)]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [str(one.value) for one in kind]
    return []


def _wanted(annotation: Any) -> str:
    """A type in words."""
    choices = _choices(annotation)
    if choices:
        return "one of " + ", ".join(choices)
    kind, extra = _plain(annotation)
    if extra.get("duration"):
        return 'a duration such as "30m", "90s" or a number of seconds' + _bounds(annotation).removesuffix(
            _POSITIVE
        )
    if typing.get_origin(kind) in _LISTS:
        of_paths = Path in typing.get_args(kind)
        words = "a list of paths" if of_paths else 'a list such as ["one", "two"]'
    elif typing.get_origin(kind) is dict or (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        words = "a table"
    else:
        plain = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path"}
        words = plain.get(kind, "of another type")
    return words + _bounds(annotation)


def _bounds(annotation: Any) -> str:
    marks = [mark for mark in typing.get_args(annotation)[1:] if isinstance(mark, msgspec.Meta)]
    if typing.get_origin(annotation) is not Annotated or not marks:
        return ""
    low, high = marks[0].ge, marks[0].le
    if high is not None:
        return f" from {low or 0} to {high}"
    return f" of at least {low}" if low else _POSITIVE if low == 0 else ""


def _nearest(word: str, known: Iterable[str]) -> list[str]:
    import difflib  # only an error needs it

    by_lower = {one.lower(): one for one in known}
    return [by_lower[one] for one in difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)]


def _did_you_mean(words: list[str]) -> str:
    return f"Did you mean {words[0]}?" if words else ""
