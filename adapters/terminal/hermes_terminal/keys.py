"""Keys: what the keys do beyond editing, which is prompt_toolkit's (Emacs keys)."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

__all__ = ["bindings"]


def bindings(send: Callable[[], None], stop: Callable[[], None], leave: Callable[[], None]) -> KeyBindings:
    """Enter sends, Alt+Enter starts a line, Ctrl+C stops, Ctrl+D on an empty line leaves, Ctrl+Z suspends."""
    keys = KeyBindings()

    @Condition
    def empty() -> bool:
        return not get_app().current_buffer.text

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        send()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        stop()

    @keys.add("c-d", filter=empty)
    def _(event: KeyPressEvent) -> None:
        leave()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    return keys
