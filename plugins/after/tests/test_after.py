"""/after: what it takes, refuses and answers, its list and its end (A1, A4, A7 to A9, E4, D2, X1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_after.plugin import AfterPlugin
from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.messages import Entry
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold, Script
from hermes_core.testing.virtual import run

TYPE = "Type /after N TEXT, such as: /after 2 now look at the first point again"
QUEUE = {"conversation": {"busy": "queue"}}


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


async def ask(bed: Bed, text: str, author: str = "ann", **more: Any) -> str:
    """The answer to a command, whatever else goes on."""
    before = len(bed.platform.sent)
    await bed.platform.say(text, author=author, **more)
    await until(lambda: len(bed.platform.sent) > before)
    return bed.platform.texts()[before]


async def kept(bed: Bed) -> list[tuple[str, int | None]]:
    """Text and place of every note that waits in the store."""
    return [(note.text, note.at_reply) for note in await bed.store.notes(bed.platform.address())]


def short(note: Entry) -> str:
    return f"[{note.short}]"


# ---- what is refused (A8)


def too(long: int) -> str:
    return f"/after: TEXT has {long} characters, at most 2000 are allowed. Type a shorter one."


REFUSALS = [
    ("/after", f"/after: N is missing. {TYPE}"),
    ("/after   ", f"/after: N is missing. {TYPE}"),
    ("/after soon do it", f"/after: N must be a whole number, not 'soon'. {TYPE}"),
    ("/after 1.5 do it", f"/after: N must be a whole number, not '1.5'. {TYPE}"),
    ("/after 1_0 do it", f"/after: N must be a whole number, not '1_0'. {TYPE}"),
    ("/after 2do it", f"/after: N must be a whole number, not '2do'. {TYPE}"),
    ("/after ² do it", f"/after: N must be a whole number, not '²'. {TYPE}"),
    ("/after " + "x" * 90 + " y", f"/after: N must be a whole number, not {'x' * 40!r}. {TYPE}"),
    (
        "/after -2 do it",
        "/after looks ahead: N cannot be negative. To go back to an earlier reply, type /reply 2 TEXT",
    ),
    (
        "/after −１ do it",
        "/after looks ahead: N cannot be negative. To go back to an earlier reply, type /reply 1 TEXT",
    ),
    ("/after 101 do it", f"/after: N is at most 100. {TYPE}"),
    ("/after " + "9" * 5000 + " do it", f"/after: N is at most 100. {TYPE}"),
    ("/after 2", f"/after: TEXT is missing. {TYPE}"),
    ("/after 2  \n ", f"/after: TEXT is missing. {TYPE}"),
    ("/after 2 " + "a" * 2001, too(2001)),
    ("/after list it", "Type /after list, /after cancel ID or /after clear."),
    ("/after clear it", "Type /after list, /after cancel ID or /after clear."),
    ("/after cancel", "Type /after list, /after cancel ID or /after clear."),
    ("/after cancel 1 2", "Type /after list, /after cancel ID or /after clear."),
    ("/after cancel 1", "No note waits under '1'. Type /after list to see them."),
    ('/after "list"', f"/after: N must be a whole number, not '\"list\"'. {TYPE}"),
    ('/after "cancel 1"', f"/after: N must be a whole number, not '\"cancel'. {TYPE}"),
]


@pytest.mark.parametrize(("typed", "answer"), REFUSALS, ids=[text[:24].strip() for text, _ in REFUSALS])
def test_a8_what_is_refused_says_what_to_type_and_nothing_is_stored(
    tmp_path: Path, typed: str, answer: str
) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AfterPlugin()]) as bed:
            assert await bed.say(typed) == answer
            assert await kept(bed) == []
            assert await bed.say(typed.replace("/after", "/AF@agent")) == answer, (
                "the alias refuses it as well"
            )
            assert await kept(bed) == []
            assert bed.model.requests == []

    run(story())


def test_a8_the_limits_are_those_of_the_config(tmp_path: Path) -> None:
    async def story() -> None:
        config = {"after": {"max_turns": 3, "max_chars": 5, "max_entries": 2}}
        async with Bed(tmp_path, plugins=[AfterPlugin()], config=config) as bed:
            assert await bed.say("/after 4 x") == f"/after: N is at most 3. {TYPE}"
            assert await bed.say("/after 3 123456") == (
                "/after: TEXT has 6 characters, at most 5 are allowed. Type a shorter one."
            )
            assert (await bed.say("/after 3 12345")).startswith("Noted [")
            assert (await bed.say("/after 0 a\nb")).startswith("Noted [")
            full = (
                "There are 2 notes already. Type /after list to see them and /after cancel ID to make room."
            )
            assert await bed.say("/after 0 more") == full
            assert await kept(bed) == [("12345", 3), ("a\nb", 0)]
            await bed.say("/after cancel 1")
            assert (await bed.say("/after 0 more")).startswith("Noted [")

    run(story())


def test_a8_where_no_number_ahead_is_allowed_only_the_next_turn_is_left(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AfterPlugin()], config={"after": {"max_turns": 0}}) as bed:
            assert await bed.say("/after 1 x") == f"/after: N is at most 0. {TYPE}"
            assert (await bed.say("/after 0 x")).startswith("Noted [")

    run(story())


def test_a8_the_fifty_first_note_is_refused_also_when_all_come_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AfterPlugin()]) as bed:
            await asyncio.gather(*(bed.platform.say(f"/after 5 n{number}") for number in range(60)))
            await bed.platform.settled()
            answers = bed.platform.texts()
            assert sum(text.startswith("Noted [") for text in answers) == 50
            assert sum(text.startswith("There are 50 notes already.") for text in answers) == 10
            assert await kept(bed) == [(f"n{number}", 5) for number in range(50)], "in the order of giving"

    run(story())


def test_x1_a_stranger_is_told_so_before_anything_of_the_command_is_read(tmp_path: Path) -> None:
    async def story() -> None:
        config = {"access": {"allow": ["fake:ann"]}}
        async with Bed(tmp_path, plugins=[AfterPlugin()], config=config) as bed:
            assert (await bed.say("/after nonsense", author="eve")).startswith("I do not know you yet.")
            assert await bed.say("/after 1 mine", author="eve") == bed.platform.texts()[0]
            assert await kept(bed) == []

    run(story())


# ---- what is taken


@pytest.mark.parametrize(
    ("typed", "note"),
    [
        ("/after 2 look again", ("look again", 2)),
        ("/af 2 look again", ("look again", 2)),
        ("/AFTER@agent 2 look again", ("look again", 2)),
        ("/after ２ look again", ("look again", 2)),
        ("/after １００　look again", ("look again", 100)),
        ("/after ٣ look again", ("look again", 3)),
        ("/after +2 look again", ("look again", 2)),
        ("/after -0 look again", ("look again", 0)),
        ("/after 0002 look again", ("look again", 2)),
        ("/after\t2\tlook again", ("look again", 2)),
        ("/after 2\nfirst\n\n  second", ("first\n\n  second", 2)),
        ("/after\n2 first\nsecond", ("first\nsecond", 2)),
        ("/after 2 list", ("list", 2)),
        ('/after 2 "cancel" it', ('"cancel" it', 2)),
        ("/after 2 /new is a word here", ("/new is a word here", 2)),
        ("/after 2 " + "ä" * 2000, ("ä" * 2000, 2)),
    ],
)
def test_a8_a9_e4_what_is_taken_is_kept_as_it_stands(
    tmp_path: Path, typed: str, note: tuple[str, int]
) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AfterPlugin()]) as bed:
            assert (await bed.say(typed)).startswith("Noted [a")
            assert await kept(bed) == [note]
            assert bed.model.requests == []

    run(story())


def test_a4_the_answer_says_where_it_will_land_and_what_the_latest_reply_is(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        scripts: list[Script] = ["one", "two " + "and more " * 20, [hold, "three"]]
        async with Bed(tmp_path, scripts, plugins=[AfterPlugin()], config=QUEUE) as bed:
            assert await bed.say("/after 0 a") == f"Noted {short((await notes(bed))[-1])} for the next turn."
            assert await bed.say("/after 2 b") == (
                f"Noted {short((await notes(bed))[-1])} after reply 2 (2 from now)."
            )
            await bed.say("hello")
            await bed.say("hello")
            assert await bed.say("/after 12 c") == (
                f"Noted {short((await notes(bed))[-1])} after reply 14 (12 from now)."
                " The latest reply is 2: “two and more and more and more and more and more and more a…”"
            )
            await bed.platform.say("hello")
            await hold.reached.wait()
            assert (await ask(bed, "/after 1 d")).startswith(
                f"Noted {short((await notes(bed))[-1])} after reply 3 (1 from now). The latest reply is 2:"
            ), "the one that is being written is the first that counts (A1)"
            hold.release()

    run(story())


async def notes(bed: Bed) -> list[Entry]:
    return await bed.store.notes(bed.platform.address())


# ---- list, cancel, clear (A7)


def test_a7_the_list_shows_position_id_place_and_first_words(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AfterPlugin()]) as bed:
            assert await bed.say("/after list") == "No notes wait here."
            for text in ("/after 3 three\nlines\nlong", "/after 0 now", "/after 1 " + "word " * 40):
                await bed.say(text)
            ids = [short(note) for note in await notes(bed)]
            assert (await bed.say("/after list")).splitlines() == [
                f"1. {ids[0]} after reply 3 (3 from now): three lines long",
                f"2. {ids[1]} next turn: now",
                f"3. {ids[2]} after reply 1 (1 from now): {('word ' * 12)[:59]}…",
            ]
            await bed.say("hello")
            assert (await bed.say("/AF List")).splitlines() == [
                f"1. {ids[0]} after reply 3 (2 from now): three lines long",
                f"2. {ids[2]} next turn: {('word ' * 12)[:59]}…",
            ]

    run(story())


def test_a7_a_note_is_cancelled_by_its_id_or_its_position_and_never_lands(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AfterPlugin()]) as bed:
            for text in "abc":
                await bed.say(f"/after 0 {text}")
            ids = [short(note) for note in await notes(bed)]
            assert await bed.say(f"/after cancel {ids[2].upper()}") == "Cancelled: c"
            assert await bed.say("/after cancel ２") == "Cancelled: b"
            assert await bed.say(f"/after cancel {ids[2]}") == (
                f"No note waits under {ids[2]!r}. Type /after list to see them."
            )
            assert (
                await bed.say("/after cancel 0") == "No note waits under '0'. Type /after list to see them."
            )
            await bed.say("hello")
            assert bed.model.texts() == ["a", "hello"]

    run(story())


def test_a7_clear_cancels_all_and_says_how_many(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AfterPlugin()]) as bed:
            assert await bed.say("/after clear") == "No notes wait here."
            await bed.say("/after 0 a")
            assert await bed.say("/after clear") == "Cancelled 1 note."
            await bed.say("/after 0 a")
            await bed.say("/after 9 b")
            assert await bed.say("/after clear") == "Cancelled 2 notes."
            await bed.say("hello")
            assert bed.model.texts() == ["hello"]

    run(story())


def test_a5_a7_a_note_that_rides_with_the_running_turn_is_shown_so_and_stays(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, [["so", hold]], plugins=[AfterPlugin(), BusyPlugin()], config=QUEUE) as bed:
            await bed.say("/after 0 rides")
            await bed.say("/after 1 waits")
            ids = [short(note) for note in await notes(bed)]
            await bed.platform.say("hello")
            await hold.reached.wait()
            assert (await ask(bed, "/after list")).splitlines() == [
                f"1. {ids[0]} in the running turn: rides",
                f"2. {ids[1]} after reply 1 (1 from now): waits",
            ]
            rides = "The running turn carries this note already. Type /stop to end it, then cancel the note."
            assert await ask(bed, "/after cancel 1") == rides
            assert await ask(bed, f"/after cancel {ids[0]}") == rides
            assert await ask(bed, "/after clear") == "Cancelled 1 note. 1 rides with the running turn."
            assert await ask(bed, "/after clear") == "Cancelled 0 notes. 1 rides with the running turn."
            await ask(bed, "/stop")
            await bed.platform.settled()
            assert await bed.say("/after list") == f"1. {ids[0]} next turn: rides"
            assert await bed.say("/after cancel 1") == "Cancelled: rides"
            await bed.say("again")
            assert bed.model.texts() == ["hello", "again"]

    run(story())


def test_d2_a_person_cancels_the_own_notes_and_an_admin_any(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AfterPlugin()]) as bed:
            await bed.say("/after 0 of bob", author="bob", group=True)
            await bed.say("/after 0 of eve", author="eve", group=True)
            assert await bed.say("/after cancel 1", author="eve", group=True) == (
                "Somebody else left this note. Only that person or an admin can cancel it."
            )
            assert await bed.say("/after clear", author="eve", group=True) == (
                "Cancelled 1 note. Those of other people stay: 1."
            )
            assert await bed.say("/after clear", author="eve", group=True) == (
                "Cancelled 0 notes. Those of other people stay: 1."
            )
            assert await kept(bed) == [("of bob", 0)]
            assert await bed.say("/after cancel 1", author="ann", group=True) == "Cancelled: of bob"

    run(story())


def test_t7_new_cancels_the_notes_and_says_how_many(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AfterPlugin(), BasicsPlugin()]) as bed:
            await bed.say("/after 0 a")
            await bed.say("/after 9 b")
            assert "Notes: 2 (" in await bed.say("/status")
            assert await bed.say("/reset") == "This is a new conversation. Cancelled: 2 that waited."
            assert await bed.say("/after list") == "No notes wait here."

    run(story())


# ---- off (A9)


@pytest.mark.parametrize("typed", ["/after 1 x", "/af 1 x", "/after list"])
def test_a9_switched_off_there_is_no_such_command(tmp_path: Path, typed: str) -> None:
    async def story() -> None:
        config = {"after": {"enabled": False}}
        async with Bed(tmp_path, plugins=[AfterPlugin(), BasicsPlugin()], config=config) as bed:
            name = typed.split()[0]
            assert (await bed.say(typed)).startswith(f"There is no command {name}.")
            assert "/after" not in await bed.say("/help")
            assert bed.plugins.infos["after"].commands == ()

    run(story())


def test_a9_what_was_noted_before_it_was_switched_off_still_lands(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        async with Bed(tmp_path, plugins=[AfterPlugin()], store=store) as bed:
            await bed.say("/after 0 promised")
        config = {"after": {"enabled": False}}
        async with Bed(tmp_path, plugins=[AfterPlugin()], store=store, config=config) as bed:
            await bed.say("hello")
            assert bed.model.texts() == ["promised", "hello"]

    run(story())
