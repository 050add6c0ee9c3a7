"""The bots of `platforms.py`: `bare` is the client library alone, `hermes` the whole house around it."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import warnings
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from hermes_core.cli.serving import lasting
from hermes_core.commands import Context, Rest, command
from hermes_core.config import Config
from hermes_core.hookspecs import Answer, hookimpl
from hermes_core.plugins import Plugins
from hermes_core.runtime import Runtime
from hermes_core.testing.model import ScriptedModel

COMMANDS = int(sys.argv[3]) if len(sys.argv) > 3 else 5


def ready() -> None:
    print("ready", flush=True)


# ---- the library alone, as its documentation shows it


async def bare_slack(place: dict[str, str]) -> None:
    from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
    from slack_bolt.async_app import AsyncApp
    from slack_sdk.web.async_client import AsyncWebClient

    app = AsyncApp(client=AsyncWebClient(place["token"], base_url=place["base_url"]))
    for number in range(COMMANDS):

        @app.command(f"/command{number}")
        async def command(ack: Any, command: dict[str, Any], say: Any) -> None:
            await ack()
            await say(command["text"])

    @app.event("message")
    async def other(event: dict[str, Any], say: Any) -> None:
        await say(event["text"])

    handler = AsyncSocketModeHandler(app, place["app"])
    await handler.connect_async()
    ready()
    await asyncio.Event().wait()


async def bare_telegram(place: dict[str, str]) -> None:
    from telegram.ext import ApplicationBuilder, CommandHandler, MessageHandler, filters

    builder = ApplicationBuilder().token(place["token"]).base_url(f"{place['base_url']}/bot")
    app = builder.concurrent_updates(256).build()

    async def command(update: Any, context: Any) -> None:
        await update.message.reply_text(" ".join(context.args))

    async def other(update: Any, context: Any) -> None:
        await update.message.reply_text(update.message.text)

    for number in range(COMMANDS):
        app.add_handler(CommandHandler(f"command{number}", command))
    app.add_handler(MessageHandler(filters.TEXT, other))
    await app.initialize()
    await app.start()
    await app.updater.start_polling(poll_interval=0.0)
    ready()
    await asyncio.Event().wait()


async def bare_discord(place: dict[str, str]) -> None:
    import discord
    from discord.ext import commands

    discord.http.Route.BASE = place["base_url"]
    from discord.gateway import DiscordWebSocket
    from yarl import URL

    DiscordWebSocket.DEFAULT_GATEWAY = URL(place["gateway_url"])
    intents = discord.Intents.default()
    intents.message_content = True
    bot = commands.Bot("/", intents=intents, help_command=None, guild_ready_timeout=0.1)

    def add(number: int) -> None:
        @bot.command(name=f"command{number}")
        async def command(context: Any, *, rest: str = "") -> None:
            await context.send(rest)

    for number in range(COMMANDS):
        add(number)

    @bot.event
    async def on_message(message: Any) -> None:
        if message.author.bot:
            return
        if message.content.startswith("/"):
            await bot.process_commands(message)
        else:
            await message.channel.send(message.content)

    @bot.event
    async def on_ready() -> None:
        ready()

    await bot.start(place["token"])


# ---- the whole house


async def hermes(platform: str, place: dict[str, str], folder: Path) -> None:
    class Echo:
        @hookimpl
        def hermes_commands(self) -> Iterable[Any]:
            def make(number: int) -> Any:
                @command(f"command{number}")
                async def one(context: Context, rest: Rest = Rest("")) -> str:
                    """Say it back."""
                    return rest

                return one

            return [make(number) for number in range(COMMANDS)]

        @hookimpl
        async def hermes_message(self, entry: Any) -> Answer:
            return Answer(entry.text)

    own: dict[str, Any] = {"base_url": place["base_url"]}
    environ = {"TOKEN": place["token"], "APP": place.get("app", "")}
    if platform == "slack":
        own |= {"bot_token_env": "TOKEN", "app_token_env": "APP"}
    elif platform == "telegram":
        own |= {"token_env": "TOKEN", "paced": False}
    else:
        own |= {"token_env": "TOKEN", "gateway_url": place["gateway_url"], "requests": 1e6}
    config = Config.of(
        {
            "runtime": {"data_dir": str(folder)},
            "model": {"provider": "scripted"},
            "access": {"allow": ["*"], "per_minute": 0},
            "adapters": {platform: own},
        },
        environ,
    )
    plugins = Plugins(config)
    made = getattr(import_module(f"hermes_{platform}.plugin"), f"{platform.title()}Plugin")
    plugins.add(platform, made(config.section("adapters", platform, made.Settings)))
    plugins.add("scripted", ScriptedModel())
    plugins.add("echo", Echo())
    async with Runtime(
        config, adapters=[platform], plugins=plugins, on_ready=lambda names: ready()
    ) as runtime:
        with lasting():  # as `hermes run` does
            await runtime.run()


def main() -> None:
    kind, platform, _, folder, place = sys.argv[1:6]
    logging.basicConfig(level=logging.ERROR)
    warnings.simplefilter("ignore", DeprecationWarning)
    known = json.loads(place)
    if kind == "hermes":
        asyncio.run(hermes(platform, known, Path(folder)))
    else:
        asyncio.run(
            {"slack": bare_slack, "telegram": bare_telegram, "discord": bare_discord}[platform](known)
        )


if __name__ == "__main__":
    main()
