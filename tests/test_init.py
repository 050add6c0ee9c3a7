"""`hermes init` as people meet it: at a real terminal, against a strict Telegram and Slack; and without one."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pexpect
import pytest

import hermes_core
from hermes_core.cli.files import write_new
from hermes_core.config import DEFAULT_PACKAGES, Config
from hermes_core.errors import HermesError
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_core.testing.platforms.telegram import TelegramServer
from tests.test_cli import hermes

WRONG = "42:wrong-and-secret"


class Person:
    """Somebody at a terminal."""

    def __init__(self, folder: Path, *words: str) -> None:
        own = {name: one for name, one in os.environ.items() if not name.startswith("HERMES")}
        own = {name: one for name, one in own.items() if not name.endswith(("_TOKEN", "_SECRET", "_KEY"))}
        own |= {"HOME": str(folder), "PYTHONPATH": str(Path(hermes_core.__file__).parents[1]), "TERM": "dumb"}
        settings = ("--set", f"runtime.data_dir={folder / 'data'}")
        self.child: Any = pexpect.spawn(
            sys.executable,
            ["-m", "hermes_core", "init", *settings, *words],
            cwd=str(folder),
            env=own,
            encoding="utf-8",
            timeout=30,
            dimensions=(40, 200),
        )
        self.seen = ""

    def asked(self, question: str) -> None:
        self.child.expect_exact(question)
        self.seen += self.child.before + self.child.after

    def answers(self, question: str, answer: str) -> None:
        self.asked(question)
        self.child.sendline(answer)

    def types_unseen(self, question: str, secret: str) -> None:
        """A secret is typed once the terminal shows nothing of it."""
        self.asked(question)
        assert self.child.waitnoecho(10)
        self.child.sendline(secret)

    def packages(self, *wanted: str) -> None:
        on = {key.partition(".")[2] for key, default in DEFAULT_PACKAGES.items() if default}
        for name in sorted({point.name for point in entry_points(group="hermes")} - on):
            self.answers(f"Use {name} (", "y" if name in wanted else "n")

    def ends(self, code: int = 0) -> None:
        self.child.expect(pexpect.EOF)
        self.seen += self.child.before
        self.child.close()
        assert self.child.exitstatus == code, self.seen


async def at_a_terminal(meet: Callable[[], None]) -> None:
    await asyncio.to_thread(meet)


async def test_a_bot_is_set_up_checked_and_written_and_a_wrong_token_is_said_so(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:

        def meet() -> None:
            person = Person(tmp_path, "--set", f"adapters.telegram.base_url={telegram.base_url}")
            person.packages("telegram")
            person.answers("Which provider", "")
            person.asked("@BotFather")
            person.types_unseen("The bot's token", WRONG)
            person.answers("Your user id there", "hello")
            person.answers("It is a number", "41")
            person.asked("Telegram does not accept the token")
            person.answers("Write it all the same?", "n")
            person.packages("telegram")
            person.answers("Which provider", "")
            person.types_unseen("TELEGRAM_BOT_TOKEN is set, Enter keeps it", telegram.token)
            person.answers("Your user id there", "42")
            person.asked("the bot is @hermes_bot")
            person.answers("Keep the secrets", "y")
            person.asked("Start it: hermes run")
            person.ends()
            assert WRONG not in person.seen
            assert telegram.token not in person.seen

        await at_a_terminal(meet)
        text = (tmp_path / "hermes.toml").read_text()
        assert telegram.token not in text
        assert tomllib.loads(text) == {
            "runtime": {"data_dir": str(tmp_path / "data")},
            "model": {"provider": "demo"},
            "adapters": {
                "telegram": {
                    "base_url": telegram.base_url,
                    "enabled": True,
                    "token_env": "TELEGRAM_BOT_TOKEN",
                }
            },
            "access": {"owners": ["telegram:42"]},
        }
        variables = tmp_path / "hermes.env"
        assert variables.read_text() == f"TELEGRAM_BOT_TOKEN={telegram.token}\n"
        assert stat.S_IMODE(variables.stat().st_mode) == 0o600
        done = await asyncio.to_thread(hermes, tmp_path, "doctor", TELEGRAM_BOT_TOKEN=telegram.token)
        assert done.code == 0, done.out


async def test_slack_gets_its_manifest_before_its_tokens_are_asked_for(tmp_path: Path) -> None:
    async with FakeSlack() as slack:

        def meet() -> None:
            person = Person(tmp_path, "--set", f"adapters.slack.base_url={slack.base_url}")
            person.packages("slack")
            person.answers("Which provider", "demo")
            person.answers("How it is reached", "")
            person.asked('"display_information"')
            person.asked('"/stop"')
            person.types_unseen("The Bot User OAuth Token", slack.bot_token)
            person.types_unseen("The App-Level Token", slack.app_token)
            person.answers("Your user id there", "")
            person.asked("over Socket Mode")
            person.asked("Written: hermes.toml")
            person.answers("Keep the secrets", "n")
            person.asked("Set before the start: SLACK_APP_TOKEN, SLACK_BOT_TOKEN")
            person.ends()

        await at_a_terminal(meet)
    config = Config.of(tomllib.loads((tmp_path / "hermes.toml").read_text()))
    assert config.enabled("slack")
    assert config.access.owners == ()
    assert not (tmp_path / "hermes.env").exists()


async def test_slack_over_http_is_asked_for_its_address_and_secret_and_can_be_run(tmp_path: Path) -> None:
    async with FakeSlack() as slack:

        def meet() -> None:
            person = Person(tmp_path, "--set", f"adapters.slack.base_url={slack.base_url}")
            person.packages("slack")
            person.answers("Which provider", "demo")
            person.answers("How it is reached", "http")
            person.answers("The public address", "agent.example.org")
            person.answers("It is an address with https", "https://agent.example.org/")
            person.asked('"url": "https://agent.example.org/slack/events"')
            person.types_unseen("The Bot User OAuth Token", slack.bot_token)
            person.types_unseen("The Signing Secret", slack.signing_secret)
            person.answers("Your user id there", "")
            person.asked("over HTTP")
            person.answers("Keep the secrets", "n")
            person.asked("Set before the start: SLACK_BOT_TOKEN, SLACK_SIGNING_SECRET")
            person.ends()
            assert "App-Level" not in person.seen
            assert "YOUR.HOST" not in person.seen

        await at_a_terminal(meet)
        written = tomllib.loads((tmp_path / "hermes.toml").read_text())
        assert written["http"] == {"public_url": "https://agent.example.org/"}
        assert written["adapters"]["slack"] == {
            "base_url": slack.base_url,
            "enabled": True,
            "mode": "http",
            "bot_token_env": "SLACK_BOT_TOKEN",
            "signing_secret_env": "SLACK_SIGNING_SECRET",
        }
        keys = {"SLACK_BOT_TOKEN": slack.bot_token, "SLACK_SIGNING_SECRET": slack.signing_secret}
        done = await asyncio.to_thread(hermes, tmp_path, "doctor", "--set", "http.port=0", **keys)
        assert done.code == 0, done.out


def test_without_a_terminal_slack_over_http_needs_its_address(tmp_path: Path) -> None:
    http = ("init", "--yes", "--offline", "--set", "adapters.slack.mode=http")
    done = hermes(tmp_path, *http)
    assert (done.code, "The public address" in done.err, "--set" in done.err) == (1, True, True)
    done = hermes(tmp_path, *http, "--set", "http.public_url=agent.example.org")
    assert (done.code, "an address with https" in done.err) == (1, True)
    assert not (tmp_path / "hermes.toml").exists()
    done = hermes(tmp_path, *http, "--set", "http.public_url=https://agent.example.org")
    assert done.code == 0, done.err
    assert "Set before the start: SLACK_BOT_TOKEN, SLACK_SIGNING_SECRET" in done.out


def test_a_model_server_that_is_not_there_is_said_so_and_one_may_go_on(tmp_path: Path) -> None:
    person = Person(tmp_path)
    person.packages()
    person.answers("Which provider", "openai")
    person.answers("The model's name", "small")
    person.answers("The server's address", "http://127.0.0.1:9/v1")
    person.types_unseen("The API key", "")
    person.asked("BROKEN  model")
    person.answers("Write it all the same? No asks again. [y/N]", "y")
    person.asked("Start it: hermes chat")
    person.ends()
    model = Config.of(tomllib.loads((tmp_path / "hermes.toml").read_text())).model
    assert (model.provider, model.name, model.base_url, model.api_key_env) == (
        "openai",
        "small",
        "http://127.0.0.1:9/v1",
        "",
    )


def test_the_end_of_the_input_leaves_everything_as_it_was(tmp_path: Path) -> None:
    person = Person(tmp_path)
    person.asked("Use ")
    person.child.sendeof()
    person.ends(1)
    assert "nothing was written" in person.seen
    assert not (tmp_path / "hermes.toml").exists()


def test_what_a_file_says_that_is_there_is_kept_and_the_file_itself_lies_beside(tmp_path: Path) -> None:
    file = tmp_path / "hermes.toml"
    mine = (
        '# mine\n[model]\nprovider = "demo"\n[conversation]\nbusy = "queue"\n[access]\nowners = ["terminal:ann"]\n'
        "[plugins.shell]\nenabled = true\n"
    )
    file.write_text(mine)
    file.chmod(0o600)
    for copy in ("hermes.toml.before", "hermes.toml.before.1"):
        was = file.read_text()
        person = Person(tmp_path)
        person.answers("hermes.toml is there already. Keep what it says", "")
        person.packages("shell")
        person.answers("Which provider", "")
        person.asked(f"kept in {copy}")
        person.ends()
        assert (tmp_path / copy).read_text() == was
        assert stat.S_IMODE((tmp_path / copy).stat().st_mode) == 0o600 or copy.endswith("1")
    assert tomllib.loads(file.read_text()) == tomllib.loads(mine) | {
        "runtime": {"data_dir": str(tmp_path / "data")}
    }


def test_a_file_that_is_there_stays_where_somebody_says_so_and_where_nobody_is_asked(tmp_path: Path) -> None:
    (tmp_path / "hermes.toml").write_text("# mine\n")
    person = Person(tmp_path)
    person.answers("hermes.toml is there already. Keep what it says", "n")
    person.asked("Nothing was changed.")
    person.ends()
    done = hermes(tmp_path, "init", "--yes")
    assert done.code == 1
    assert "is left as it is" in done.err
    assert (tmp_path / "hermes.toml").read_text() == "# mine\n"


def test_without_a_terminal_it_takes_the_defaults_where_it_is_told_to_and_else_nothing(
    tmp_path: Path,
) -> None:
    asked = hermes(tmp_path, "init")
    assert asked.code == 1
    assert "hermes init --yes" in asked.err
    assert list(tmp_path.iterdir()) == []
    settings = ("--set", "http.port=0", "--set", 'access.allow=["telegram:*"]', "--set", "model.name=small")
    done = hermes(tmp_path, "init", "--yes", "--file", "own/my.toml", *settings)
    assert done.code == 0, done.err
    assert tomllib.loads((tmp_path / "own/my.toml").read_text()) == {
        "http": {"port": 0},
        "access": {"allow": ["telegram:*"]},
        "model": {"provider": "demo", "name": "small"},
    }
    assert "hermes chat --config own/my.toml" in done.out
    assert hermes(tmp_path, "config", "show", "--config", "own/my.toml").code == 0


def test_a_chosen_platform_whose_token_is_not_set_is_written_with_what_to_set(tmp_path: Path) -> None:
    done = hermes(tmp_path, "init", "--yes", "--offline", "--set", "adapters.telegram.enabled=true")
    assert done.code == 0, done.err
    assert "Set before the start: TELEGRAM_BOT_TOKEN" in done.out
    assert "not written yet" in done.out
    done = hermes(
        tmp_path,
        "doctor",
        "--offline",
        "--set",
        "adapters.telegram.enabled=true",
        TELEGRAM_BOT_TOKEN="42:abc",
    )
    assert "its settings fit; the platform was not asked" in done.out
    assert "no check of its own" not in done.out
    written = tomllib.loads((tmp_path / "hermes.toml").read_text())
    assert written["adapters"] == {"telegram": {"enabled": True, "token_env": "TELEGRAM_BOT_TOKEN"}}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("acess.owners=telegram:42", 'command line: there is no section "acess".'),
        ("conversation.busy=que", 'Did you mean "queue"?'),
        ("adapters.telegram.tokn_env=A", 'there is no key "tokn_env"'),
        ("model.provider=gpt", "gpt"),
        ("adapters.slack.mode=htp", "There are: socket, http."),
    ],
)
def test_nothing_is_written_that_could_not_run_where_nobody_is_asked(
    tmp_path: Path, setting: str, said: str
) -> None:
    done = hermes(tmp_path, "init", "--yes", "--set", setting)
    assert done.code != 0, done.out
    assert said in done.out + done.err
    assert "Start it" not in done.out
    assert not (tmp_path / "hermes.toml").exists()


def test_what_stands_wrongly_in_a_file_is_said_before_the_first_question(tmp_path: Path) -> None:
    (tmp_path / "hermes.toml").write_text("[acess]\n")
    person = Person(tmp_path)
    person.answers("hermes.toml is there already. Keep what it says", "")
    person.asked('there is no section "acess"')
    person.ends(2)
    assert (tmp_path / "hermes.toml").read_text() == "[acess]\n"


def test_a_file_that_came_meanwhile_is_not_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "hermes.toml"
    path.write_text("# of somebody else\n")
    with pytest.raises(HermesError, match="is there already"):
        write_new(path, "new", 0o600, replace=False)
    assert [one.name for one in tmp_path.iterdir()] == ["hermes.toml"]
    assert path.read_text() == "# of somebody else\n"
    write_new(path, "new", 0o600, replace=True)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)
