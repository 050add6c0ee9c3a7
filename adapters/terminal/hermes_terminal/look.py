"""Look: what things look like in the terminal, as text with colours. Knows no terminal and does no I/O."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from hermes_core.adapter import Activity, Received
from hermes_terminal.blocks import Block
from hermes_terminal.clean import clean, one_line
from hermes_terminal.transcript import Printed

__all__ = ["Look"]

_DIM: Final = "2"
_YOU: Final = "1;36"  # bold cyan, like the prompt
_JOB: Final = 48  # characters of a job's line in the status line
_LIVE: Final = 6000  # characters of an unfinished block that are still rendered while it is written
_PAST_LINES: Final = 6  # lines of one text of the past,
_PAST_TEXT: Final = 500  # and its characters
_STATES: Final = {
    "thinking": "thinking",
    "writing": "writing",
    "asking": "waits for your answer",
    "stopping": "stopping",
}
_RECEIPTS: Final = {
    "queued": "queued",
    "steering": "will be read at the next step",
    "interrupting": "interrupting",
    "cancelled": "cancelled",
}


class Look:
    """`markdown`: render what the agent writes; else it stands as it came. `color`: use colours."""

    def __init__(self, *, markdown: bool = True, color: bool = True) -> None:
        self._markdown = markdown
        self._color = color

    def warm(self) -> None:
        """Import what renders Markdown; may be called from a thread."""
        if self._markdown:
            import hermes_terminal.markdown  # noqa: F401 - the import is the point

    def printed(self, printed: Printed, width: int) -> str:
        """A piece of the transcript: a block below an empty line, or a mark."""
        if printed.kind == "mark":
            return self.mark(printed.text)
        rendered = self._block(Block(printed.text, printed.inside), width)
        return "\n" + rendered if rendered else ""

    def live(self, tail: Block, width: int) -> str:
        """The unfinished end of a text; empty where there is nothing to see. Very long ones stay plain."""
        if len(tail.text) > _LIVE:
            lines = tail.text[-_LIVE:].split("\n")
            return "\n".join(part for line in lines for part in _wrapped(line, width))
        return self._block(tail, width)

    def typed(self, text: str) -> str:
        """What the person sent."""
        first, *more = clean(text).expandtabs(4).split("\n")
        return "\n" + "\n".join([self._in(_YOU, "› ") + first, *(f"  {line}" for line in more)]) + "\n"

    def mark(self, text: str) -> str:
        """One dim line."""
        return self._in(_DIM, one_line(text)) + "\n"

    def receipt(self, received: Received) -> str:
        """What becomes of a message that could not start a turn (T6)."""
        place = f", number {received.position} in line" if received.position else ""
        return self._in(_DIM, f"  ↳ {_RECEIPTS.get(received.kind, one_line(received.kind))}{place}") + "\n"

    def job(self, text: str) -> str:
        """How a job ended."""
        return self._in(_DIM, f"  ⚙ {one_line(text)}") + "\n"

    def file(self, line: str) -> str:
        """Where a file stands; never cut, so that the path can be copied."""
        return self._in(_YOU, line) + "\n"

    def jobs(self, running: Sequence[str]) -> str:
        """What stands in the status line of the jobs that run: how many, and the latest line of one."""
        if not running:
            return ""
        text = one_line(running[-1])
        text = text if len(text) <= _JOB else f"{text[: _JOB - 1]}…"
        return f" · {text}" if len(running) == 1 else f" · {len(running)} jobs, {text}"

    def welcome(self, name: str) -> str:
        """The first line."""
        return (
            self._in(_DIM, f"Hermes, conversation {one_line(name)}. /help lists the commands, Ctrl+D leaves.")
            + "\n"
        )

    def past(self, said: Sequence[tuple[str, str]], total: int, width: int) -> str:
        """The last texts of a conversation that goes on: what people wrote dimmed, what the agent wrote as it was
        shown; says what it leaves out."""
        if not said:
            return ""
        lines = [self._in(_DIM, f"… {total - len(said)} earlier")] if total > len(said) else []
        for who, text in said:
            whole = clean(text).strip("\n").expandtabs(4)
            begin = "\n".join(whole[:_PAST_TEXT].split("\n")[:_PAST_LINES])
            if who == "user":
                shown = [part for line in begin.split("\n") for part in _wrapped(line, width - 2)]
                lines += [
                    self._in(_DIM, ("  " if index else "› ") + line) for index, line in enumerate(shown)
                ]
            else:
                block = self._block(Block(begin), width - 2).strip("\n")
                lines += [f"  {line}" if line else "" for line in block.split("\n")]
            if len(whole) > len(begin):
                lines.append(self._in(_DIM, f"  … {len(whole) - len(begin)} more characters"))
        return "\n" + "".join(f"{line}\n" for line in lines)

    def status(self, activity: Activity, seconds: float) -> tuple[str, str]:
        """Style and text of the status: idle, thinking, writing, tool NAME running, stopping; queued n."""
        if activity.state == "idle":
            state = "idle"
        elif activity.state == "tool":
            state = f"tool {one_line(activity.tool)} running"
        else:
            state = _STATES.get(activity.state, one_line(activity.state))
        if activity.state != "idle" and seconds >= 1:
            state += f" {int(seconds)} s"
        queued = f", queued {activity.queued}" if activity.queued else ""
        style = "class:status" if activity.state == "idle" else "class:status.busy"
        return style, state + queued

    def hint(self, activity: Activity) -> str:
        """The right half of the status line."""
        return "Alt+Enter: new line" if activity.state == "idle" else "Ctrl+C stops"

    def _block(self, block: Block, width: int) -> str:
        if not block.text.strip():
            return ""
        if not self._markdown:
            return block.text.strip("\n").expandtabs(4) + "\n"
        from hermes_terminal.markdown import render

        return render(block, width, self._color)

    def _in(self, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._color and text else text


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, max(width, 8)) or [""]
