"""Screen: a transcript that scrolls like any program's output, and below it a region that is redrawn.

The region holds, from top to bottom: the unfinished end of what is being written, the prompt, the
completions, the status line. Printing takes the region away, writes above it and draws it again, all
in one write, so nothing flickers and no key goes astray. The terminal is never asked where its cursor
is: the region simply stands below the last line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    VSplit,
    Window,
    WindowAlign,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

__all__ = ["Screen", "Status", "SteadyOutput"]

PROMPT: Final = "› "
_STYLE: Final = Style.from_dict(
    {
        "prompt": "bold ansicyan",
        "status": "ansibrightblack",
        "status.busy": "ansiyellow",
        "completion-menu": "bg:default",
        "completion-menu.completion": "bg:default",
        "completion-menu.completion.current": "reverse",
        "completion-menu.meta.completion": "bg:default ansibrightblack",
        "completion-menu.meta.completion.current": "reverse",
    }
)
_MENU: Final = 8  # rows of completions
_BESIDE: Final = 8  # rows that are kept for everything but the live text


Status = tuple[tuple[str, str], str]
"""Style and text of the left half of the status line, and its right half."""


class SteadyOutput(Vt100_Output):
    """The terminal. While it is held nothing goes out; then everything does, in one write."""

    def __init__(self, stdout: TextIO, get_size: Callable[[], Size], term: str | None = None) -> None:
        super().__init__(stdout, get_size, term=term, enable_cpr=False)
        self._held = False

    @classmethod
    def of(cls, stdout: TextIO, term: str | None) -> SteadyOutput:
        """The terminal that `stdout` is."""
        measure = Vt100_Output.from_pty(stdout).get_size
        return cls(stdout, measure, term=term)

    @property
    def width(self) -> int:
        """Columns that a printed line may have."""
        return max(self.get_size().columns - 1, 8)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Gather what is written meanwhile. `OSError` at the end where the terminal is gone."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            self.flush()

    def flush(self) -> None:
        """Write what is gathered, unless it is held."""
        if not self._held:
            super().flush()


class Screen:
    """The terminal of one chat; `live` gives the unfinished text, with colours."""

    def __init__(
        self,
        output: SteadyOutput,
        source: Input,
        buffer: Buffer,
        keys: KeyBindings,
        live: Callable[[], str],
        status: Callable[[], Status],
    ) -> None:
        self._output = output
        self._live = live
        self._early: list[str] = []
        self._drawing = False
        self._menu_open = False
        menu = CompletionsMenu(max_height=_MENU)
        self.app: Application[None] = Application(
            layout=Layout(
                HSplit(
                    [
                        ConditionalContainer(
                            Window(FormattedTextControl(self._live_rows), dont_extend_height=True),
                            Condition(lambda: bool(self._live())),
                        ),
                        Window(height=1),
                        Window(
                            BufferControl(buffer),
                            height=Dimension(min=1, max=10),
                            get_line_prefix=_prefix,
                            wrap_lines=True,
                            dont_extend_height=True,
                        ),
                        menu,
                        _status_line(status),
                    ],
                    align=VerticalAlign.TOP,
                )
            ),
            style=_STYLE,
            include_default_pygments_style=False,
            key_bindings=keys,
            erase_when_done=True,
            terminal_size_polling_interval=None,
            input=source,
            output=output,
            before_render=lambda _: self._shrink(buffer.complete_state is not None),
        )

    def print(self, text: str) -> None:
        """Put `text`, which may hold colours and ends with a newline, above the prompt for good.

        Before the prompt is there, it is kept until then. `OSError` where the terminal is gone.
        """
        if not self._drawing:
            self._early.append(text)
            return
        with self._output.held(), set_app(self.app):
            self.app.renderer.erase()
            self._output.write_raw(text.replace("\n", "\r\n"))
            if not self.app.is_done:
                self.app.renderer.render(self.app, self.app.layout)

    def refresh(self) -> None:
        """Draw the region again soon."""
        self.app.invalidate()

    async def run(self, opened: Callable[[], None]) -> None:
        """Read keys until `quit`. Returns also when the terminal is gone; leaves it as it was found."""

        def start() -> None:
            opened()
            early, self._early = self._early, []
            self._output.write_raw("".join(early).replace("\n", "\r\n"))
            self._output.flush()
            self._drawing = True

        try:
            await self.app.run_async(pre_run=start, set_exception_handler=False, handle_sigint=False)
        except (EOFError, OSError):
            return
        finally:
            self._drawing = False

    def quit(self) -> None:
        """End `run`; harmless when it ends already."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def _shrink(self, menu_open: bool) -> None:
        # The region only ever grows by itself; when the completions close it would keep their rows.
        if self._menu_open and not menu_open:
            self.app.renderer.erase()
        self._menu_open = menu_open

    def _live_rows(self) -> ANSI:
        room = max(self._output.get_size().rows - _BESIDE, 3)
        return ANSI("\n" + "\n".join(self._live().rstrip("\n").split("\n")[-room:]))


def _prefix(line: int, wrapped: int) -> StyleAndTextTuples:
    return [("class:prompt", PROMPT if (line, wrapped) == (0, 0) else " " * len(PROMPT))]


def _status_line(status: Callable[[], Status]) -> VSplit:
    return VSplit(
        [
            Window(FormattedTextControl(lambda: [status()[0]]), dont_extend_width=True),
            Window(FormattedTextControl(lambda: status()[1]), align=WindowAlign.RIGHT, style="class:status"),
        ],
        height=1,
    )
