"""Veil: takes secrets and what has the shape of well-known tokens out of texts, whole or in pieces (X2).

Nothing here but light parts of the standard library: the keeper of a job reads this file without
site-packages. Looking costs one search for each secret, and none where there are none; shapes cost one
search for each beginning that is known.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

__all__ = ["MASK", "SHORTEST", "ByteVeil", "Mask", "Veil"]

MASK: Final = "***"
SHORTEST: Final = 6  # characters: what is shorter protects nothing, and is part of ordinary words
_TOKEN: Final = 4096  # characters of what may be a token that are held back until its end is seen
_KEY: Final = 16_384  # the same of what may be a private key in PEM form

# How tokens of model providers, chat platforms and code hosts begin, and the rest of each.
_SHAPES: Final[Mapping[str, str]] = {
    # OpenAI, Anthropic, OpenRouter and many who follow them; with a digit, unlike the names of CSS classes
    "sk-": r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_-]{0,80}+[0-9])[A-Za-z0-9_-]{20,}",
    "xox": r"xox[a-z](?:\.[a-z]+)?-[A-Za-z0-9-]{10,}",  # Slack
    "xapp-": r"xapp-[A-Za-z0-9-]{10,}",
    ":AA": r"[0-9]{6,12}:AA[A-Za-z0-9_-]{32,}",  # Telegram
    "whsec_": r"whsec_[A-Za-z0-9+/=]{20,}",  # Standard Webhooks
    **dict.fromkeys(("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{30,}"),  # GitHub
    "github_pat_": r"github_pat_[A-Za-z0-9_]{40,}",
    "glpat-": r"glpat-[A-Za-z0-9_-]{20,}",  # GitLab
    "hf_": r"hf_[A-Za-z0-9]{30,}",  # Hugging Face
    "AKIA": r"AKIA[0-9A-Z]{16}",  # Amazon
    "AIza": r"AIza[A-Za-z0-9_-]{35}",  # Google
    "eyJ": r"eyJ[A-Za-z0-9_-]{10,4096}+\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",  # a JSON Web Token
    "-----BEGIN": r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
}
_BEGINNINGS: Final = tuple(_SHAPES)
_SHAPE: Final = re.compile("|".join(dict.fromkeys(_SHAPES.values())), re.DOTALL)
_RUN: Final = (
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+/=:-"  # what tokens are made of
)
_BEGINNING: Final = re.compile("|".join(map(re.escape, _BEGINNINGS)) + "|[0-9]{6,12}:")
_KEY_BEGINS: Final = re.compile("-----BEGIN [A-Z ]*PRIVATE KEY-----")
_KEY_ENDS: Final = re.compile("-----END [A-Z ]*PRIVATE KEY-----")
_KEY_MAYBE: Final = re.compile("-----BEGIN(?: [A-Z ]*-{0,5})?\\Z")
_PARTS: Final = {one[:length] for one in _BEGINNINGS for length in range(1, len(one))}
_MAYBE: Final = re.compile("(?:[0-9]{1,12}(?::A?)?|" + "|".join(map(re.escape, _PARTS)) + r")\Z")
_PART: Final = max(14, *map(len, _PARTS))  # characters of the longest of these


class Mask:
    """Hides `secrets`, and what has the shape of a token, whosever it is."""

    __slots__ = ("_hidden",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._hidden: tuple[str, ...] = ()  # the longest first: one may be part of another
        self._hide(secrets)

    def _hide(self, secrets: Iterable[str]) -> None:
        long = {one for one in secrets if len(one) >= SHORTEST}
        self._hidden = tuple(sorted(long, key=len, reverse=True))

    @property
    def forms(self) -> tuple[str, ...]:
        """Everything that is hidden because it is known."""
        return self._hidden

    def hide(self, text: str, after: str = "") -> str:
        """`text` with every secret that is known, and what has the shape of a token, replaced by `***`.

        `after`: the character before it; a token does not begin in the middle of a word.
        """
        for secret in self._hidden:
            if secret in text:
                text = text.replace(secret, MASK)
        if not _suspect(text):
            return text
        if after.isascii() and after.isalnum():  # any letter with which no shape begins stands for it
            return _SHAPE.sub(MASK, f"Z{text}")[1:]
        return _SHAPE.sub(MASK, text)

    def veil(self, *, early: bool = False) -> Veil:
        """For a text that comes in pieces; `early`: see there."""
        return Veil(self, early=early)

    def begun(self, text: str, *, early: bool = False) -> int:
        """Where a secret may begin that `text` has only the first part of; its length where none does.

        `early`: also where the beginning that would give a token away has itself only begun.
        """
        first = len(text)
        for secret in self._hidden:
            at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
            while 0 <= at < first:
                if secret.startswith(text[at:]):
                    first = at
                    break
                at = text.find(secret[0], at + 1)
        if _suspect(text):
            first = min(first, _token_begun(text), _key_begun(text))
        if early:
            end = max(0, len(text) - _PART)
            found = _MAYBE.search(text, end)
            first = min(first, found.start()) if found else first
        if first < len(text) and _suspect(text):
            for token in _SHAPE.finditer(text):
                if token.start() < first < token.end():  # nothing is cut in two
                    return token.start()
        return first

    def whole(self, text: str) -> tuple[int, int]:
        """Where the first secret that is known stands in `text`, the longest there; behind its end where none does."""
        found = min(
            ((at, -len(secret)) for secret in self._hidden if (at := text.find(secret)) >= 0),
            default=(len(text), 0),
        )
        return found[0], found[0] - found[1]


class Veil:
    """Hides secrets in a text that comes in pieces, also one that two pieces share.

    The end of a piece is held back while it may be the beginning of a secret. A token of an unknown secret is
    held from where its shape is recognised on; `early`: from its first character on, which holds back the
    last characters of many a harmless piece as well.
    """

    __slots__ = ("_early", "_held", "_last", "_mask")

    def __init__(self, mask: Mask, *, early: bool = False) -> None:
        self._mask = mask
        self._early = early
        self._held = ""
        self._last = ""  # the last character that was given out

    def feed(self, piece: str) -> str:
        """What may be shown now, "" where nothing may."""
        text, shown = self._held + piece, ""
        while True:
            cut = self._mask.begun(text, early=self._early)
            start, end = self._mask.whole(text)
            if start >= cut:  # there is none, or it may yet turn out to be a longer one
                break
            shown += self._mask.hide(text[:start], (self._last + shown)[-1:]) + MASK
            text = text[end:]
        self._held = text[cut:]
        shown += self._mask.hide(text[:cut], (self._last + shown)[-1:])
        self._last = (self._last + shown)[-1:]
        return shown

    def rest(self) -> str:
        """The text has ended: what was held back."""
        held, self._held = self._held, ""
        return self._mask.hide(held, self._last)


def _token_begun(text: str) -> int:
    """Where a token begins that goes on to the end of `text`, and maybe beyond it."""
    found = _BEGINNING.search(text, max(len(text.rstrip(_RUN)), len(text) - _TOKEN))
    return found.start() if found else len(text)


def _key_begun(text: str) -> int:
    """Where a private key begins whose end is not there."""
    start = max(0, len(text) - _KEY)
    for end in _KEY_ENDS.finditer(text, start):
        start = end.end()
    found = _KEY_BEGINS.search(text, start) or _KEY_MAYBE.search(text, max(0, len(text) - 80))
    return found.start() if found else len(text)


def _suspect(text: str) -> bool:
    for beginning in _BEGINNINGS:  # noqa: SIM110 - each piece of a reply passes here: half the time of any()
        if beginning in text:
            return True
    return False


class ByteVeil:
    """`Veil` for bytes that need not be text: what is no secret comes out as it went in. `secrets` as in `Mask`."""

    __slots__ = ("_veil",)

    def __init__(self, secrets: Iterable[str]) -> None:
        # each byte is one character: no secret is missed because of what stands around it
        self._veil = Mask(one.encode("utf-8", "replace").decode("latin-1") for one in secrets).veil(
            early=True
        )

    def feed(self, piece: bytes) -> bytes:
        """What may be kept now."""
        return self._veil.feed(piece.decode("latin-1")).encode("latin-1")

    def rest(self) -> bytes:
        """The end has come: what was held back."""
        return self._veil.rest().encode("latin-1")
