"""Check: whether Discord knows the bot, for `hermes doctor` and `hermes init`; and what they ask for."""

from __future__ import annotations

from typing import Any, Final

from hermes_core.checks import Finding, Level, Question, Setup
from hermes_core.config import masked
from hermes_core.errors import ConfigError, HermesError, first_cause

__all__ = ["SETUP", "check"]

_API: Final = "https://discord.com/api/v10"
_TIMEOUT: Final = 10.0  # seconds for one call
_CONTENT: Final = 1 << 18 | 1 << 19  # the application may read message content: verified, or not verified yet

SETUP: Final = Setup(
    "discord",
    "Discord",
    (Question("token_env", "The bot's token", variable="DISCORD_BOT_TOKEN"),),
    guide=lambda answers, commands: (
        "At https://discord.com/developers/applications make an application. On its page Bot: Reset Token\n"
        "gives the token, and Message Content Intent must be on. To invite the bot, make an address on the page\n"
        "OAuth2 with the scopes bot and applications.commands, and the permissions View Channels, Send Messages,\n"
        "Send Messages in Threads, Read Message History, Add Reactions and Attach Files."
    ),
    person="In Discord: Settings, Advanced, Developer Mode; then a right click on your name, Copy User ID",
)


async def check(token: str, base_url: str, variable: str, message_content: bool) -> Finding:
    """Ask Discord who the bot is, and whether it may read what people write."""
    import aiohttp

    root = (base_url or _API).rstrip("/")
    headers = {"Authorization": f"Bot {token}"}
    try:
        async with aiohttp.ClientSession(
            headers=headers, timeout=aiohttp.ClientTimeout(total=_TIMEOUT)
        ) as session:
            me = await _get(session, f"{root}/users/@me", variable)
            application = await _get(session, f"{root}/oauth2/applications/@me", variable)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise HermesError(
            f"Discord cannot be asked at {masked(root)}: {first_cause(error)}.",
            "Is the network there, and is adapters.discord.base_url right?",
        ) from error
    said = f"the bot is {me.get('username')}"
    if message_content and not int(application.get("flags") or 0) & _CONTENT:
        return Finding(
            f"{said}, and its Message Content Intent is off: it cannot connect",
            "Turn it on, on the page Bot at https://discord.com/developers/applications; or set"
            " adapters.discord.message_content = false, and it reads only what mentions it.",
            Level.BROKEN,
        )
    return Finding(said)


async def _get(session: Any, url: str, variable: str) -> dict[str, Any]:
    async with session.get(url) as answer:
        if answer.status in (401, 403):
            raise ConfigError(
                f"Discord does not accept the token in {variable}.",
                "The application's page Bot makes a new one: Reset Token.",
            )
        if answer.status != 200:
            raise HermesError(f"Discord answers with status {answer.status}.", "Try again later.")
        found: Any = await answer.json(content_type=None)
        return found if isinstance(found, dict) else {}
