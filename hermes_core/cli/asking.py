"""Asking: questions to a person at a terminal, or the defaults in place of one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hermes_core.cli.common import print_line
from hermes_core.errors import HermesError

if TYPE_CHECKING:
    from hermes_core.adapter import Form

__all__ = ["Asker", "Defaults", "Terminal"]


class Asker(Protocol):
    """Who answers."""

    def text(
        self, question: str, default: str = "", *, needed: bool = False, form: Form | None = None
    ) -> str:
        """One line; `needed`: not an empty one. What is not empty has the `form`."""

    def choice(self, question: str, choices: Sequence[str], default: str) -> str:
        """One of these."""

    def yes(self, question: str, default: bool) -> bool:
        """Yes or no."""

    def secret(self, question: str, *, needed: bool) -> str:
        """A line that is not shown."""


class Defaults:
    """Nobody is asked; what is needed and has no default is an error that names the question."""

    def text(
        self, question: str, default: str = "", *, needed: bool = False, form: Form | None = None
    ) -> str:
        """The default."""
        if needed and not default:
            raise HermesError(
                f"{question}: there is no default for this.", "Leave --yes out, or give it with --set."
            )
        if default and form is not None and not form.fits(default):
            raise HermesError(f"{question}: {default[:60]!r} cannot be that.", f"It is {form.words}.")
        return default

    def choice(self, question: str, choices: Sequence[str], default: str) -> str:
        """The default."""
        if default not in choices:
            raise HermesError(
                f"{question}: {default[:60]!r} is none of them.", f"There are: {', '.join(choices)}."
            )
        return default

    def yes(self, question: str, default: bool) -> bool:
        """The default."""
        return default

    def secret(self, question: str, *, needed: bool) -> str:
        """None: secrets come from the environment then."""
        return ""


class Terminal:
    """A person at this terminal. The end of the input, Ctrl+D, ends the command."""

    def text(
        self, question: str, default: str = "", *, needed: bool = False, form: Form | None = None
    ) -> str:
        """Ask until there is an answer."""
        shown = f" [{default}]" if default else ""
        while True:
            answer = self._line(f"{question}{shown}: ").strip() or default
            if answer and form is not None and not form.fits(answer):
                print_line(f"It is {form.words}.")
            elif answer or not needed:
                return answer
            else:
                print_line("Something has to stand there.")

    def choice(self, question: str, choices: Sequence[str], default: str) -> str:
        """Ask until it is one of these, in any case."""
        while True:
            answer = self.text(f"{question} ({', '.join(choices)})", default).lower()
            for one in choices:
                if one.lower() == answer:
                    return one
            print_line(f"One of these: {', '.join(choices)}.")

    def yes(self, question: str, default: bool) -> bool:
        """Ask until it is yes or no."""
        while True:
            answer = self._line(f"{question} [{'Y/n' if default else 'y/N'}]: ").strip().lower()
            if not answer:
                return default
            if answer in ("y", "yes", "n", "no"):
                return answer.startswith("y")
            print_line("Yes or no.")

    def secret(self, question: str, *, needed: bool) -> str:
        """Ask without showing what is typed, until there is an answer."""
        import getpass

        while True:
            try:
                answer = getpass.getpass(f"{question} (not shown): ").strip()
            except EOFError:
                raise _left() from None
            if answer or not needed:
                return answer
            print_line("Something has to stand there.")

    def _line(self, prompt: str) -> str:
        sys.stdout.flush()
        try:
            return input(prompt)
        except EOFError:
            print_line()
            raise _left() from None


def _left() -> HermesError:
    return HermesError("The input ended; nothing was written.")
