"""Secrets: read from the environment or from files, and taken out of everything that is shown or kept (X2).

What is hidden: every value that was read as a secret, what the variables hold that a key `*_env` of the config
names, and texts with the shape of well-known tokens, whosever they are. Looking costs one search for each
secret, and none where there are none; shapes cost one search for each beginning that is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from hermes_core.errors import ConfigError

__all__ = ["Secrets", "Veil", "is_variable"]

MASK: Final = "***"
SHORTEST: Final = 6  # characters: what is shorter protects nothing, and is part of ordinary words
LARGEST: Final = 65_536  # bytes of a file with a secret

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
_USUAL_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,79}")
_SECRET_NAME: Final = re.compile(r"(?:^|_)(?:TOKEN|KEY|SECRET|CREDENTIAL)S?$|PASSWORD|PASSWD", re.IGNORECASE)

# How tokens of model providers, chat platforms and code hosts begin, and the rest of each.
_SHAPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        # OpenAI, Anthropic, OpenRouter and many who follow them; with a digit, unlike the names of CSS classes
        "sk-": r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}",
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
        "eyJ": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",  # a JSON Web Token
        "-----BEGIN": r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    }
)
_BEGINNINGS: Final = tuple(_SHAPES)
_SHAPE: Final = re.compile("|".join(dict.fromkeys(_SHAPES.values())), re.DOTALL)
_BEGUN: Final = re.compile(
    "(?:" + "|".join(map(re.escape, _SHAPES)) + r"|[0-9]{6,12}:)[A-Za-z0-9_.+/=:-]{0,300}\Z"
)


class Secrets:
    """Reads secrets from an environment, and takes them out of what is shown, kept or logged (X2).

    `origins` says for a dotted key where its value stands, for the error that names a missing one.
    """

    __slots__ = ("_environ", "_hidden", "_known", "_origins")

    def __init__(
        self,
        environ: Mapping[str, str] = MappingProxyType({}),
        origins: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._environ = environ
        self._origins = origins
        self._known: set[str] = set()
        self._hidden: tuple[str, ...] = ()  # the longest first: one may be part of another

    def __repr__(self) -> str:
        return "Secrets(…)"

    @classmethod
    def that_look_so(cls, environ: Mapping[str, str]) -> Secrets:
        """For what is said before any config is read: the values of all variables whose names look secret."""
        secrets = cls(environ)
        secrets.know(name for name in environ if _SECRET_NAME.search(name))
        return secrets

    def read(self, key: str, variable: str) -> str | None:
        """What the environment variable holds that the config names in `key`; None where it names none.

        Where it is not set, `NAME_FILE` may name a file that holds it instead. `ConfigError` where neither is
        set, or what they hold is empty or cannot be read.
        """
        if not variable:
            return None
        place = self._origins.get(key, "")
        head = f"{place}{': ' if place else ''}{key}: "
        try:
            secret = self._value(variable)
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else "it is no text of a few lines"
            raise ConfigError(
                f"{head}the file that {variable}_FILE names cannot be read: {said}.",
                "Correct the name, or let this user read it.",
            ) from error
        if secret:
            self._add(secret)
            return secret
        # A name that does not look like one may be a secret in the wrong place: it is not repeated.
        shown = variable if _USUAL_VARIABLE.fullmatch(variable) else "that it names"
        raise ConfigError(
            f"{head}the environment variable {shown} is not set.",
            f"Set it before the start (export {variable}=…), or take {key} out."
            if shown == variable
            else f"{key} must be the name of a variable that is set before the start.",
        )

    def know(self, variables: Iterable[str]) -> None:
        """Hide what these variables hold, as far as they are set, though nobody has read it yet."""
        for variable in variables:
            try:
                secret = self._value(variable)
            except (OSError, ValueError):
                continue  # who reads it is told
            if secret:
                self._add(secret)

    def hide(self, text: str) -> str:
        """`text` with every secret that is known, and what has the shape of a token, replaced by `***`."""
        for secret in self._hidden:
            if secret in text:
                text = text.replace(secret, MASK)
        return _SHAPE.sub(MASK, text) if _suspect(text) else text

    def veil(self) -> Veil:
        """For a text that comes in pieces."""
        return Veil(self)

    def begun(self, text: str) -> int:
        """Where a secret may begin that `text` has only the first part of; its length where none does."""
        first = len(text)
        for secret in self._hidden:
            at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
            while 0 <= at < first:
                if secret.startswith(text[at:]):
                    first = at
                    break
                at = text.find(secret[0], at + 1)
        if _suspect(text):
            found = _BEGUN.search(text)
            return min(first, found.start()) if found else first
        return first

    def whole(self, text: str) -> tuple[int, int]:
        """Where the first secret that is known stands in `text`, the longest there; behind its end where none does."""
        found = min(
            ((at, -len(secret)) for secret in self._hidden if (at := text.find(secret)) >= 0),
            default=(len(text), 0),
        )
        return found[0], found[0] - found[1]

    def _value(self, variable: str) -> str:
        secret = self._environ.get(variable, "").strip()
        file = self._environ.get(f"{variable}_FILE", "").strip()
        if secret or not file:
            return secret
        with Path(file).expanduser().open("rb") as opened:
            held = opened.read(LARGEST + 1)
        if len(held) > LARGEST:
            raise ValueError
        return held.decode().strip()

    def _add(self, secret: str) -> None:
        if secret in self._known:
            return
        self._known.add(secret)
        forms = {form for one in self._known for form in (one, quote(one, safe="")) if len(form) >= SHORTEST}
        self._hidden = tuple(sorted(forms, key=len, reverse=True))


class Veil:
    """Hides secrets in a text that comes in pieces, also one that two pieces share.

    The end of a piece is held back while it may be the beginning of a secret. A token of an unknown secret is
    held from where its shape is recognised on.
    """

    __slots__ = ("_held", "_secrets")

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held = ""

    def feed(self, piece: str) -> str:
        """What may be shown now, "" where nothing may."""
        text, shown = self._held + piece, ""
        while True:
            cut = self._secrets.begun(text)
            start, end = self._secrets.whole(text)
            if start >= cut:  # there is none, or it may yet turn out to be a longer one
                break
            shown += self._secrets.hide(text[:start]) + MASK
            text = text[end:]
        self._held = text[cut:]
        return shown + self._secrets.hide(text[:cut])

    def rest(self) -> str:
        """The text has ended: what was held back."""
        held, self._held = self._held, ""
        return self._secrets.hide(held)


def _suspect(text: str) -> bool:
    for beginning in _BEGINNINGS:  # noqa: SIM110 - each piece of a reply passes here: half the time of any()
        if beginning in text:
            return True
    return False


def is_variable(text: str) -> bool:
    """Whether `text` can be the name of an environment variable (and so is no secret by mistake)."""
    return _VARIABLE.fullmatch(text) is not None
