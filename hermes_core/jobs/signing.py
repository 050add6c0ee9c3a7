"""Signing: the secret of callbacks, looked at before anything starts."""

from __future__ import annotations

import base64

from hermes_core.config import Config
from hermes_core.errors import ConfigError

__all__ = ["check_secret"]


def check_secret(config: Config) -> None:
    """`ConfigError` where `[jobs.callbacks]` names what is no secret: base64, after `whsec_` if that is there."""
    key = "jobs.callbacks.secret_env"
    secret = config.secret(key, config.jobs.callbacks.secret_env)
    if secret is None:
        return
    text = secret.removeprefix("whsec_")
    try:
        usable = bool(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except ValueError:
        usable = False
    if not usable:
        place = config.place(key)
        raise ConfigError(
            f"{place + ': ' if place else ''}{key}: what the variable holds is no secret of Standard Webhooks.",
            "It is whsec_ and base64: 24 to 64 random bytes.",
        )
