"""The `hermes` command as people call it: real processes, their output and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hermes_core


class Done:
    """What a finished process left."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        self.code = process.returncode
        self.out = process.stdout
        self.err = process.stderr


def hermes(folder: Path, *arguments: str, **environ: str) -> Done:
    """Run the command in `folder`, with a home of its own and none of this process's settings."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES", "XDG_"))}
    own |= {
        "HOME": str(folder),
        # the package under test, wherever this test runs from
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(Path(hermes_core.__file__).parents[1]), own.get("PYTHONPATH")])
        ),
    }
    return Done(
        subprocess.run(
            [sys.executable, "-m", "hermes_core", *arguments],
            cwd=folder,
            env=own | environ,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    )


def test_the_version_is_the_packages_own(tmp_path: Path) -> None:
    done = hermes(tmp_path, "--version")
    assert (done.code, done.out, done.err) == (0, f"hermes {hermes_core.__version__}\n", "")


def test_the_version_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    done = hermes(tmp_path, "--version", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in done.err.splitlines()}
    assert "hermes_core.cli.run" in loaded
    assert (
        loaded & {"asyncio", "msgspec", "pluggy", "platformdirs", "tomllib", "logging", "hermes_core.config"}
        == set()
    )


def test_the_help_names_every_command(tmp_path: Path) -> None:
    done = hermes(tmp_path, "--help")
    assert done.code == 0
    assert [word for word in ("run", "chat", "config", "plugins", "--version") if word not in done.out] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["COMMAND", "hermes --help"]),
        (["chta"], ["'chta'", "hermes chat?"]),
        (["zzz"], ["'zzz'", "run, chat, config, plugins"]),
        (["--verison"], ["'--verison'"]),
        (["config", "shwo"], ["'shwo'", "hermes config show?"]),
        (["run", "--cofnig", "x"], ["hermes run: '--cofnig'", "hermes run --help"]),
        (["run", "extra"], ["'extra'"]),
        (["chat", "--name"], ["--name", "hermes chat --help"]),
        (["run", "--log-level", "loud"], ["--log-level", "'loud'"]),
        (["config", "show", "--set", "model.name"], ["--set model.name", "section.key=value"]),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_two_lines_and_code_2(
    tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    done = hermes(tmp_path, *arguments)
    assert (done.code, done.out) == (2, "")
    assert [word for word in words if word not in done.err] == []
    assert len(done.err.splitlines()) <= 2


@pytest.mark.parametrize(
    "command", [["run"], ["chat"], ["config", "show"], ["plugins", "list"]], ids=" ".join
)
def test_a_bad_config_names_key_file_and_nearest_word_in_every_command(
    tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "hermes.toml").write_text('[model]\nprovidr = "demo"\n')
    done = hermes(tmp_path, *command)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        'hermes: hermes.toml: there is no key "providr" in [model].',
        'Did you mean "provider"?',
    ]


@pytest.mark.parametrize("how", ["--debug", "HERMES_DEBUG"])
def test_a_traceback_comes_only_where_it_is_asked_for(tmp_path: Path, how: str) -> None:
    arguments, environ = (["--debug"], {}) if how == "--debug" else ([], {how: "1"})
    done = hermes(tmp_path, "config", "show", "--set", "model.x=1", *arguments, **environ)
    assert done.code == 2
    assert "Traceback" in done.err
    assert done.err.splitlines()[-2].startswith("hermes: command line: ")


def test_a_config_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    done = hermes(tmp_path, "config", "show", "--config", "gone.toml")
    assert done.code == 2
    assert "gone.toml" in done.err
    assert "--config" in done.err


def test_the_config_is_shown_with_the_origin_of_each_value(tmp_path: Path) -> None:
    (tmp_path / "hermes.toml").write_text(
        '[model]\nname = "small"\nbase_url = "http://me:hush@host/v1"\napi_key_env = "MY_KEY"\n'
        '[conversation]\nquiet = "2s"\n[adapters.telegram]\ntoken_env = "TG"\nmode = "polling"\n'
    )
    done = hermes(
        tmp_path,
        *("config", "show", "--set", "http.port=0"),
        HERMES__CONVERSATION__QUIET="3s",
        MY_KEY="sk-top-secret",
    )
    lines = {key: rest for key, _, rest in (line.partition(" = ") for line in done.out.splitlines())}
    assert (done.code, done.err) == (0, "")
    assert lines["model.name"].split() == ['"small"', "#", "file", "hermes.toml"]
    assert lines["conversation.quiet"].split() == ["3.0", "#", "environment", "HERMES__CONVERSATION__QUIET"]
    assert lines["http.port"].split() == ["0", "#", "command", "line"]
    assert lines["conversation.busy"].split() == ['"interrupt"', "#", "default"]
    assert lines["adapters.telegram.mode"].split() == ['"polling"', "#", "file", "hermes.toml"]
    assert lines["model.api_key_env"].split()[0] == '"MY_KEY"'
    assert lines["model.base_url"].split()[0] == '"http://***@host/v1"'
    assert "hush" not in done.out
    assert "sk-top-secret" not in done.out


def test_the_config_is_shown_as_json(tmp_path: Path) -> None:
    done = hermes(tmp_path, "config", "show", "--json", HERMES__RUNTIME__DATA_DIR="/somewhere")
    settings = {one["key"]: one for one in json.loads(done.out)}
    assert settings["runtime.data_dir"] == {
        "key": "runtime.data_dir",
        "value": "/somewhere",
        "origin": "environment HERMES__RUNTIME__DATA_DIR",
    }
    assert settings["conversation.busy"]["value"] == "interrupt"
    assert settings["access.allow"] == {"key": "access.allow", "value": [], "origin": "default"}


def test_the_second_word_of_a_group_may_be_left_out(tmp_path: Path) -> None:
    assert hermes(tmp_path, "config").out == hermes(tmp_path, "config", "show").out != ""
    assert json.loads(hermes(tmp_path, "config", "--json").out)


def test_the_data_folder_is_the_users_and_not_another_programs(tmp_path: Path) -> None:
    done = hermes(tmp_path, "config", "show", "--json")
    folder = next(one["value"] for one in json.loads(done.out) if one["key"] == "runtime.data_dir")
    assert Path(folder).is_relative_to(tmp_path)
    assert Path(folder).name == "hermes-switchboard"
    assert list(tmp_path.iterdir()) == [], "showing makes nothing"


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = subprocess.run(
            [sys.executable, "-m", "hermes_core", "config", "show"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(Path(hermes_core.__file__).parents[1])},
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    finally:
        os.close(writing)
    assert (process.returncode, process.stderr) == (0, "")


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = hermes(tmp_path, "chat", "--set", f"runtime.data_dir={tmp_path}/file/data")
    assert done.code == 2
    assert f"{tmp_path}/file/data" in done.err
    assert len(done.err.splitlines()) == 2


@pytest.mark.parametrize("traces", [True, False], ids=["with tracebacks", "without"])
def test_a_secret_that_was_read_is_in_no_line_of_the_log(tmp_path: Path, traces: bool) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import logging\n"
        "from hermes_core.cli.logs import log_to_stderr\n"
        "from hermes_core.config import LogSettings, Secrets\n"
        "secrets = Secrets({'KEY': 'sk-Zq81-x'})\n"
        f"log_to_stderr(LogSettings(), secrets, {traces})\n"
        "secrets.read('model.api_key_env', 'KEY')\n"
        "try:\n"
        "    raise ValueError('key sk-Zq81-x refused')\n"
        "except ValueError:\n"
        "    logging.getLogger('hermes.x').exception('sent %s', 'sk-Zq81-x')\n"
        "logging.getLogger('hermes.x').info('not shown')\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        env=os.environ | {"PYTHONPATH": str(Path(hermes_core.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert "ERROR hermes.x: sent ***" in done.stderr
    assert ("ValueError: key *** refused" in done.stderr) is traces
    assert "Zq81" not in done.stderr
    assert "not shown" not in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[plugins.memory]\nmax_char = 7\n", ['no key "max_char" in [plugins.memory]', '"max_chars"']),
        ("[adapters.terminal]\nhistory = 7\n", ["adapters.terminal.history must be true or false"]),
        ("[plugins.nowhere]\nenabled = true\n", ["'nowhere'", "no such plugin is installed"]),
    ],
)
def test_config_show_refuses_what_a_start_refuses(tmp_path: Path, text: str, said: list[str]) -> None:
    (tmp_path / "hermes.toml").write_text(text)
    shown, started = hermes(tmp_path, "config", "show"), hermes(tmp_path, "chat")
    assert (shown.code, shown.out, shown.err) == (2, "", started.err)
    for words in said:
        assert words in shown.err


def test_a_run_names_every_token_that_is_missing_of_all_its_platforms(tmp_path: Path) -> None:
    (tmp_path / "hermes.toml").write_text("[adapters.telegram]\n[adapters.slack]\n[adapters.discord]\n")
    done = hermes(tmp_path, "run")
    assert done.code == 2, done.err
    for name in ("TELEGRAM_BOT_TOKEN", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "DISCORD_BOT_TOKEN"):
        assert f"environment variable {name} is not set" in done.err
        assert f"{name}=…" in done.err
    assert " out." not in done.err


def test_x1_a_run_says_whom_of_access_no_platform_can_have_and_runs(tmp_path: Path) -> None:
    people = 'access.owners=["telegrm:42", "telegram:42", "terminal:ann"]'
    done = hermes(tmp_path, "run", "--set", "adapters.terminal.enabled=true", "--set", people)
    assert done.code == 0, done.err
    assert 'access.owners: "telegrm:42" is nobody: there is no platform' in done.err
    assert done.err.count("is nobody") == 1
