"""Which pictures a request shows."""

from __future__ import annotations

import base64

from hermes_core.errors import HermesError
from hermes_core.file import NoFiles
from hermes_core.messages import Attachment, Said, SaidKind
from hermes_core.models import Request
from hermes_httpmodel.pictures import LARGEST, MOST, pictures


class Kept(NoFiles):
    """Gives each file its name as content; counts."""

    def __init__(self, **sizes: int) -> None:
        self.read_names: list[str] = []
        self.sizes = sizes

    async def read(self, attachment: Attachment) -> bytes:
        self.read_names.append(attachment.name)
        if attachment.name == "gone.png":
            raise HermesError("It is gone.")
        return b"x" * self.sizes.get(attachment.name.partition(".")[0], 3)


def asked(files: Kept, *attachments: Attachment) -> Request:
    return Request(
        "", tuple(Said(SaidKind.MESSAGE, "look", attachments=(one,)) for one in attachments), (), files
    )


async def test_pictures_are_shown_and_other_files_are_not() -> None:
    files = Kept()
    png, pdf = Attachment("a.png", "image/png", 3, "1"), Attachment("b.pdf", "application/pdf", 3, "2")
    assert await pictures(asked(files, png, pdf)) == {png: base64.b64encode(b"xxx").decode()}
    assert files.read_names == ["a.png"]


async def test_a_picture_that_cannot_be_had_or_is_too_large_does_not_stop_the_call() -> None:
    files = Kept(liar=LARGEST + 1)
    gone = Attachment("gone.png", "image/png", None, "1")
    large = Attachment("large.png", "image/png", LARGEST + 1, "2")
    liar = Attachment("liar.png", "image/png", 10, "3")
    fine = Attachment("fine.png", "image/png", 3, "4")
    assert list(await pictures(asked(files, gone, large, liar, fine))) == [fine]
    assert "large.png" not in files.read_names


async def test_of_many_the_newest_are_shown() -> None:
    many = [Attachment(f"{n}.png", "image/png", 3, str(n)) for n in range(MOST + 5)]
    assert set(await pictures(asked(Kept(), *many))) == set(many[5:])
