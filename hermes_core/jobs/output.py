"""Output: a job's text, page by page (J10).

The text is what stands in its output file, and after it what the tool gave back. A cursor is a place
in the bytes of that; the file only grows, so a cursor stays good while the job runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_core.errors import JobError
from hermes_core.job import Job, Page
from hermes_core.jobs.retention import gone

__all__ = ["page", "tail"]

_SEPARATOR: Final = b"\n"


def page(job: Job, path: Path, cursor: str, chars: int, *, kept: bool = False) -> Page:
    """At most `chars` characters from `cursor` on ("" is the beginning); `JobError` for no cursor of ours.

    `kept`: there was an output file. `ResultGone` where it is no longer there, or all was removed.
    """
    if job.purged is not None or (kept and not path.exists()):
        raise gone(job)
    place = 0
    if cursor:
        if not (cursor.isascii() and cursor.isdigit()) or len(cursor) > 18:
            raise JobError(f"{cursor[:40]!r} is no cursor.", "Take the one that the last page gave.")
        place = int(cursor)
    data, rest = _read(path, job.result, place, 4 * chars)
    # Two are taken for one character only where the bytes are no text, so nothing is skipped.
    text = data.decode("utf-8", "surrogateescape")
    if rest or not job.state.final:
        text = text[: len(text) - _unfinished(data)]
    more = bool(rest) or len(text) > chars
    text = text[:chars]
    place += len(text.encode("utf-8", "surrogateescape"))
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return Page(job, shown, str(place), more, job.cut)


def tail(path: Path, limit: int) -> str:
    """The end of an output file, for a summary."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - limit))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _read(path: Path, result: str, place: int, size: int) -> tuple[bytes, int]:
    """Bytes from `place` on, and how many there are beyond them."""
    head, length = b"", 0
    try:
        with path.open("rb") as file:
            length = file.seek(0, 2)
            if place < length:
                file.seek(place)
                head = file.read(size)
    except OSError:  # a job without output has no file
        length = 0
    given = result.encode("utf-8", "replace")
    if given and length:
        given = _SEPARATOR + given
    if place + len(head) < length:
        return head, length + len(given) - place - len(head)
    begin = max(0, place - length)
    end = begin + size - len(head)
    return head + given[begin:end], max(0, len(given) - end)


def _unfinished(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character that is not whole yet."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        wanted = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return back if wanted > back else 0
    return 0
