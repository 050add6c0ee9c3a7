"""The chat on a real pty: what a person sees, and what reaches the gateway."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .virtual_terminal import VirtualTerminal

ROOT = Path(__file__).parents[3]
ALT_ENTER = "\x1b\r"
CTRL_C, CTRL_D = "\x03", "\x04"
UP = "\x1b[A"

Opener = Callable[..., VirtualTerminal]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Opens terminals with a chat in them, and closes them afterwards."""
    terminals: list[VirtualTerminal] = []

    def open_one(*arguments: str, columns: int = 80, rows: int = 24) -> VirtualTerminal:
        program = [
            sys.executable,
            "-m",
            "adapters.terminal.tests.fake_gateway",
            "--data",
            str(tmp_path),
            *arguments,
        ]
        terminal = VirtualTerminal(program, ROOT, columns, rows)
        terminals.append(terminal)
        terminal.until_shown("idle")
        return terminal

    yield open_one
    for terminal in terminals:
        terminal.close()


def events(folder: Path) -> list[str]:
    return (folder / "events").read_text().splitlines()


def test_a_streamed_answer_stands_there_once_and_rendered(opened: Opener) -> None:
    terminal = opened()
    terminal.type("story\r")
    terminal.until_shown("The end.")
    screen = terminal.until(lambda screen: screen.lines[-1].startswith("idle"))
    assert screen.lines[2:-2] == [
        "› story",
        "",
        "A story",
        "",
        "Once upon a time there was a terminal that showed text, a link",
        "(https://example.org/x) and more of it than fits into one line, so that it had",
        "to be wrapped.",
        "",
        " • one",
        " • two",
        "",
        "  def answer() -> int:",
        "      return 42",
        "",
        " name  value",
        "─────────────",
        " a     1",
        "",
        "The end.",
        "",
    ]


def test_an_answer_longer_than_the_screen_can_be_scrolled_back_to_and_stands_there_once(
    opened: Opener,
) -> None:
    terminal = opened(columns=40, rows=12)
    words = " ".join(f"w{number}" for number in range(300))
    terminal.type(words + "\r")
    screen = terminal.until(lambda screen: "echo:" in screen.text and screen.lines[-1].startswith("idle"))
    answer = screen.text.split("echo:")[-1].split("›")[0]
    assert answer.split() == words.split()
    assert screen.text.count("echo:") == 1


def test_the_status_line_says_what_the_agent_does(opened: Opener) -> None:
    terminal = opened("--slow")
    terminal.type("tool shell.run\r")
    terminal.until_shown("thinking")
    terminal.until_shown("tool shell.run running")
    terminal.until_shown("writing")
    terminal.until(lambda screen: screen.lines[-1].startswith("idle"))


def test_typing_while_the_agent_works_is_accepted_and_answered_next(opened: Opener, tmp_path: Path) -> None:
    terminal = opened("--slow")
    terminal.type("tool slow\r")
    terminal.until_shown("running")
    terminal.type("second\r")
    terminal.until_shown("queued, number 1 in line")
    terminal.until_shown("queued 1")
    screen = terminal.until(
        lambda screen: "echo: second" in screen.text and screen.lines[-1].startswith("idle")
    )
    shown = [line for line in screen.lines if line]
    assert shown[1:-2] == [
        "› tool slow",
        "Let me look.",
        "› second",
        "  ↳ queued, number 1 in line",
        "echo: tool slow",
        "echo: second",
    ]
    terminal.type(CTRL_D)
    assert terminal.ended() == 0
    assert events(tmp_path) == ["received tool slow", "received second"]


def test_ctrl_c_interrupts_and_what_was_written_is_closed_with_a_mark(opened: Opener, tmp_path: Path) -> None:
    terminal = opened()
    terminal.type("slow word\r")
    terminal.until_shown("word word word")
    terminal.type(CTRL_C)
    screen = terminal.until_shown("✂ interrupted")
    mark = screen.lines.index("✂ interrupted")
    assert screen.lines[mark - 1].startswith("word")
    terminal.until(lambda screen: screen.lines[-1].startswith("idle"))
    terminal.type("next\r")
    terminal.until_shown("echo: next")
    terminal.type(CTRL_D)
    assert terminal.ended() == 0
    assert events(tmp_path) == ["received slow word", "interrupt", "received next"]


def test_ctrl_c_twice_leaves_although_the_agent_works(opened: Opener) -> None:
    terminal = opened()
    terminal.type("slow word\r")
    terminal.until_shown("word word word")
    terminal.type(CTRL_C + CTRL_C)
    assert terminal.ended() == 0
    assert terminal.attributes() == terminal.before


@pytest.mark.parametrize("key", [pytest.param(CTRL_C, id="Ctrl+C"), pytest.param(CTRL_D, id="Ctrl+D")])
def test_an_idle_chat_is_left_with_one_key_and_the_terminal_is_as_before(opened: Opener, key: str) -> None:
    terminal = opened()
    terminal.type(key)
    assert terminal.ended() == 0
    assert terminal.attributes() == terminal.before
    assert "idle" not in terminal.screen.text
    assert terminal.raw.rindex("\x1b[?2004l") > terminal.raw.rindex("\x1b[?2004h")


def test_ctrl_c_on_a_half_typed_line_clears_it_first(opened: Opener, tmp_path: Path) -> None:
    terminal = opened()
    terminal.type("half")
    terminal.until_shown("› half")
    terminal.type(CTRL_C)
    terminal.until(lambda screen: "half" not in screen.text)
    terminal.type("whole\r")
    terminal.until_shown("echo: whole")
    terminal.type(CTRL_D)
    assert terminal.ended() == 0
    assert events(tmp_path) == ["received whole"]


def test_several_lines_are_one_message_when_typed_with_alt_enter_or_pasted(
    opened: Opener, tmp_path: Path
) -> None:
    terminal = opened()
    terminal.type(f"one{ALT_ENTER}two\r")
    terminal.until_shown("echo: one two")
    terminal.type("\x1b[200~three\r\nfour\x1b[201~")
    terminal.until_shown("  four")
    terminal.type("\r")
    terminal.until_shown("echo: three four")
    terminal.type(CTRL_D)
    assert terminal.ended() == 0
    assert (tmp_path / "events").read_text() == "received one\ntwo\nreceived three\nfour"


def test_commands_are_completed(opened: Opener, tmp_path: Path) -> None:
    terminal = opened()
    terminal.type("/st")
    terminal.until_shown("say what runs")
    terminal.type("\t")
    terminal.until_shown("› /status")
    terminal.type("\r")
    screen = terminal.until_shown("command /status")
    assert "say what runs" not in screen.text


def test_what_was_typed_is_in_the_history_after_a_restart(opened: Opener) -> None:
    terminal = opened()
    terminal.type("remember me\r")
    terminal.until_shown("echo: remember me")
    terminal.type(CTRL_D)
    assert terminal.ended() == 0
    again = opened()
    again.type(UP)
    again.until_shown("› remember me")


def test_a_conversation_that_goes_on_shows_its_last_exchanges(opened: Opener) -> None:
    screen = opened("--past").screen
    assert screen.lines[:5] == [
        "Hermes, conversation main. /help lists the commands, Ctrl+D leaves.",
        "",
        "› what was it?",
        "  It was 42. As ever.",
        "",
    ]


def test_escape_sequences_in_an_answer_are_shown_and_not_obeyed(opened: Opener) -> None:
    terminal = opened()
    terminal.type("raw\r")
    screen = terminal.until(lambda screen: "after" in screen.text and screen.lines[-1].startswith("idle"))
    assert "before ␛]0;owned␇␛[2J␛[31mred␈\ufffd5A after" in screen.text
    assert screen.bells == 0
    assert "\x1b]" not in terminal.raw


def test_a_failed_turn_has_a_mark_and_its_notice(opened: Opener) -> None:
    terminal = opened()
    terminal.type("fail\r")
    screen = terminal.until_shown("The model did not answer.")
    assert [line for line in screen.lines if line][2:5] == [
        "echo: fail",
        "✂ the model failed",
        "The model did not answer.",
    ]


def test_a_line_that_was_not_kept_is_reported(opened: Opener) -> None:
    terminal = opened()
    terminal.type("full\r")
    terminal.until_shown("Not sent: The disk is full.")
    terminal.type(UP)
    terminal.until(lambda screen: screen.text.count("› full") == 2)


def test_a_reply_that_may_be_a_repeat_says_so(opened: Opener) -> None:
    terminal = opened()
    terminal.type("again\r")
    terminal.until_shown("(may be a repeat)")


def test_being_stopped_from_outside_leaves_the_terminal_as_before(opened: Opener) -> None:
    terminal = opened()
    terminal.process.send_signal(signal.SIGINT)  # as the runtime does: its handler cancels the adapter
    terminal.until(lambda _: terminal.process.poll() is not None)
    assert terminal.attributes() == terminal.before


def test_a_terminal_that_becomes_narrower_is_drawn_again(opened: Opener) -> None:
    terminal = opened()
    terminal.resize(40, 12)
    terminal.type("hello\r")
    terminal.until_shown("echo: hello")
    assert max(map(len, terminal.screen.lines)) <= 40


@pytest.mark.parametrize(
    "typed", [pytest.param("", id="idle"), pytest.param("slow word\r", id="while it writes")]
)
def test_a_terminal_that_goes_away_ends_the_chat(opened: Opener, typed: str) -> None:
    terminal = opened()
    terminal.type(typed)
    terminal.until_shown("word word" if typed else "idle")
    assert terminal.hang_up() == (0, "")


def test_j13_the_progress_of_jobs_is_edited_in_the_status_line_and_their_end_is_a_line(
    opened: Opener,
) -> None:
    terminal = opened("--slow")
    terminal.type("job\r")
    terminal.until_shown("2 jobs, a: running, 25%")
    terminal.until_shown("2 jobs, a: running, 75%")
    screen = terminal.until(lambda screen: "echo: job" in screen.text and screen.lines[-1].startswith("idle"))
    assert "jobs" not in screen.lines[-1]
    assert screen.text.count("⚙ a: done, well") == screen.text.count("⚙ b: done, well") == 1
    assert "25%" not in screen.text
