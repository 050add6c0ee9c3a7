"""Injections: what plugins gave for a turn, checked, bounded and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from hermes_core.hookspecs import Injection
from hermes_core.messages import Said, SaidKind

__all__ = ["INJECTED", "injected"]

INJECTED: Final = 8000  # characters of one injection


def injected(given: Iterable[tuple[str, Any]], failed: Callable[[str, Exception], object]) -> list[Said]:
    """The items of what each plugin, by name, gave: by `order`, then by plugin.

    Of a plugin that gave something else nothing is taken; `failed` is told its name (P2).
    """
    found: list[tuple[int, Said]] = []
    for name, injections in given:
        try:
            found += [(one.order, _item(one)) for one in map(_checked, injections)]
        except Exception as error:  # noqa: BLE001 - the edge to foreign code: a plugin's iterator may raise anything
            failed(name, error)
    return [said for _, said in sorted(found, key=lambda one: one[0])]


def _checked(one: object) -> Injection:
    """What was given, if the store can keep it: a value of another type would spoil the history."""
    if not isinstance(one, Injection):
        raise TypeError(f"gave {type(one).__name__}, not Injection")
    checked = msgspec.convert(msgspec.structs.asdict(one), Injection)
    f"{checked.label}{checked.text}".encode()  # no halves of surrogate pairs
    return checked


def _item(one: Injection) -> Said:
    text = one.text
    if len(text) > INJECTED:
        text = f"{text[:INJECTED]}\n[… {len(one.text) - INJECTED} characters left out …]"
    return Said(SaidKind.INJECTION, text, one.label)
