"""Journal: the messages that show unfinished texts, so that another run can give them their end, or a mark (R3).

Theory of operation. A file of lines, each the present state of one draft; the last one of a draft counts. A
line is appended before a message is posted and after each call, which costs the same however many drafts
there are. A `kill -9` may tear the last line: it is passed over, and the one before it counts. The file is
written anew, whole or not at all, when it is opened, and when it has grown to several times its content.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Final

import msgspec

from hermes_core.errors import HermesError
from hermes_core.messages import Address
from hermes_core.writing import kept
from hermes_core.writing.values import Doubt

__all__ = ["Draft", "Journal"]

log = logging.getLogger("hermes.writing")

_DRAFTS: Final = 500  # the longest unchanged is forgotten
_LINES: Final = 1000  # lines of a file that is left alone


class Draft(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was shown of one turn's text number `part` when it was last noted.

    `whole`: nobody needs to complete it; its ids are kept where it is the turn's reply, so that a repeated one
    finds its messages (D5). `passed`: the turn was at its next step, so that this text is all that it will be.
    `doubt`: one more message may be out whose id was never heard.
    """

    address: str
    key: str
    part: int = 0
    ids: tuple[str, ...] = ()
    text: str = ""
    doubt: Doubt | None = None
    passed: bool = False
    whole: bool = False


class Journal:
    """The drafts in `path`; without a path they are kept while the program runs."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._drafts: dict[str, Draft] = {}  # by key; the longest unchanged first
        self._lines = 0
        self._torn = False
        self._read()

    def drafts(self) -> list[Draft]:
        """All that is known, the longest unchanged first."""
        return list(self._drafts.values())

    def reply(self, key: str) -> tuple[str, ...]:
        """The messages of this turn's reply, if it is known to stand there whole."""
        draft = self._drafts.get(key)
        return draft.ids if draft is not None and draft.whole else ()

    def note(self, draft: Draft) -> None:
        """What is shown now. The last reply there needs no memory any more."""
        if self._keep(draft):
            self._append(draft)

    def _keep(self, draft: Draft) -> bool:
        """Whether that is news."""
        before = self._drafts.pop(draft.key, None)
        self._drafts[draft.key] = draft
        if before is None:
            for other in [one for one in self._drafts.values() if one.address == draft.address]:
                if other.whole and other is not draft:
                    del self._drafts[other.key]
        if len(self._drafts) > _DRAFTS:
            del self._drafts[next(iter(self._drafts))]
        return draft != before

    def whole(self, address: Address, key: str, part: int, ids: tuple[str, ...] = ()) -> None:
        """The text is as it will stay. `ids`: it is the turn's reply, and these are its messages."""
        self.note(Draft(str(address), key, part, ids, passed=not ids, whole=True))

    def _read(self) -> None:
        if self._path is None or not self._path.exists():
            return
        for draft in kept.lines(self._path, Draft):
            with contextlib.suppress(HermesError):  # of nowhere
                Address.parse(draft.address)
                self._keep(draft)
        self._rewrite()

    def _append(self, draft: Draft) -> None:
        if self._path is None:
            return
        if self._torn or self._lines >= max(_LINES, 4 * len(self._drafts)):
            self._rewrite()
            return
        try:
            kept.append(self._path, draft)
            self._lines += 1
        except OSError as error:
            self._failed(error)

    def _rewrite(self) -> None:
        assert self._path is not None
        fresh = self._path.with_name(f"{self._path.name}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in self._drafts.values()))
            fresh.replace(self._path)
        except OSError as error:
            self._failed(error)
        else:
            self._lines, self._torn = len(self._drafts), False

    def _failed(self, error: OSError) -> None:
        assert self._path is not None
        if not self._torn:  # said once, until it works again
            log.warning("%s cannot be written: %s", self._path.name, error.strerror or type(error).__name__)
        self._torn = True
