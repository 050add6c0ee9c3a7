"""Secrets: read from the environment or from files, and taken out of everything that is shown or kept (X2).

What is hidden: every value that was read as a secret, what the variables hold that a key `*_env` of the config
names, and texts with the shape of well-known tokens, whosever they are (`veil`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from hermes_core.errors import ConfigError, SecretUnset
from hermes_core.veil import Mask

__all__ = ["Secrets", "is_variable"]

LARGEST: Final = 65_536  # bytes of a file with a secret

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
_USUAL_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,79}")
_SECRET_NAME: Final = re.compile(r"(?:^|_)(?:TOKEN|KEY|SECRET|CREDENTIAL)S?$|PASSWORD|PASSWD", re.IGNORECASE)


class Secrets(Mask):
    """Reads secrets from an environment, and takes them out of what is shown, kept or logged (X2).

    `origins` says for a dotted key where its value stands, for the error that names a missing one.
    """

    __slots__ = ("_environ", "_known", "_origins")

    def __init__(
        self,
        environ: Mapping[str, str] = MappingProxyType({}),
        origins: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._environ = environ
        self._origins = origins
        self._known: set[str] = set()
        super().__init__()

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
        return self._read(key, variable, can_be_left_out=key in self._origins)

    def _read(self, key: str, variable: str, *, can_be_left_out: bool) -> str | None:
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
        raise SecretUnset(
            f"{head}the environment variable {shown} is not set.",
            f"Set it before the start (export {variable}=…){f', or take {key} out' if can_be_left_out else ''}."
            if shown == variable
            else f"{key} must be the name of a variable that is set before the start.",
            (variable,) if shown == variable else (),
        )

    def need_each(self, wanted: Mapping[str, str]) -> list[str]:
        """`need` for each key and its variable; one `SecretUnset` names all that are not set."""
        found, unset = [], []
        for key, variable in wanted.items():
            try:
                found.append(self.need(key, variable))
            except SecretUnset as error:
                unset.append(error)
        if unset:
            raise SecretUnset.together(unset)
        return found

    def need(self, key: str, variable: str) -> str:
        """`read` for what cannot be done without: `ConfigError` also where the config names no variable."""
        secret = self._read(key, variable, can_be_left_out=False)
        if secret is None:
            raise ConfigError(
                f"{key} is empty.",
                f"Write the name of the variable that holds it: {key.rpartition('.')[2]} = …",
            )
        return secret

    def know(self, variables: Iterable[str]) -> None:
        """Hide what these variables hold, as far as they are set, though nobody has read it yet."""
        for variable in variables:
            try:
                secret = self._value(variable)
            except (OSError, ValueError):
                continue  # who reads it is told
            if secret:
                self._add(secret)

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
        self._hide(form for one in self._known for form in (one, quote(one, safe="")))


def is_variable(text: str) -> bool:
    """Whether `text` can be the name of an environment variable (and so is no secret by mistake)."""
    return _VARIABLE.fullmatch(text) is not None
