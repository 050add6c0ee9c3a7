"""Config: precedence, origins, and errors that name the key, the place and the nearest right word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.config import Config, Duration, ModelSettings, Secrets, duration
from hermes_core.errors import ConfigError
from hermes_core.messages import When


class Settings(msgspec.Struct, frozen=True):
    """What a plugin would declare."""

    approval: str = "ask"
    limit: Duration = 60.0
    programs: tuple[str, ...] = ()
    token_env: str = ""
    labels: dict[str, str] = {}
    secrets: Secrets = msgspec.field(default_factory=Secrets)


class Needed(msgspec.Struct, frozen=True):
    """A plugin's settings with a key that must be there."""

    url: str


def origin(config: Config, key: str) -> str:
    return next(one.origin for one in config.origins() if one.key == key)


# ---- durations (E9)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30m", 1800.0),
        ("1h30m", 5400.0),
        ("90s", 90.0),
        ("90", 90.0),
        (90, 90.0),
        (1.5, 1.5),
        ("1.5h", 5400.0),
        ("2d", 172800.0),
        (" 5M ", 300.0),
        (0, 0.0),
        ("0s", 0.0),
    ],
)
def test_a_duration_is_read(value: object, seconds: float) -> None:
    assert duration(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "m",
        "30x",
        "-5s",
        "30m1h",
        "1h1h",
        "1 h",
        "nan",
        "inf",
        "1e3",
        -1,
        float("nan"),
        float("inf"),
        10**400,
        True,
        None,
        [],
        "9" * 400,
    ],
    ids=lambda value: repr(value)[:12],
)
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a duration is written"):
        duration(value)


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_duration_is_the_sum_of_its_parts(days: int, hours: int, minutes: int, seconds: int) -> None:
    expected = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s")]
    text = "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"
    assert duration(text) == duration(expected) == duration(str(expected)) == expected


@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_a_plain_refusal(text: str) -> None:
    try:
        seconds = duration(text)
    except ValueError as error:
        assert "a duration is written" in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert seconds >= 0


# ---- finding the file


def test_no_file_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    config = Config.load(environ={})
    assert config.file is None
    assert config.model.provider == "demo"
    assert config.model.secret() is None


def test_files_are_found_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, users = tmp_path / "here", tmp_path / "home" / "hermes-switchboard"
    for folder in (here, users):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (users / "hermes.toml").write_text('model.name = "users"')
    assert Config.load(environ={}).model.name == "users"
    (here / "hermes.toml").write_text('model.name = "here"')
    assert Config.load(environ={}).model.name == "here"
    (tmp_path / "variable.toml").write_text('model.name = "variable"')
    environ = {"HERMES_CONFIG": str(tmp_path / "variable.toml")}
    assert Config.load(environ=environ).model.name == "variable"
    (tmp_path / "named.toml").write_text('model.name = "named"')
    assert Config.load(tmp_path / "named.toml", environ=environ).model.name == "named"


@pytest.mark.parametrize("by", ["--config", "$HERMES_CONFIG"])
def test_a_named_file_must_be_there(tmp_path: Path, by: str) -> None:
    missing = tmp_path / "missing.toml"
    path, environ = (missing, {}) if by == "--config" else (None, {"HERMES_CONFIG": str(missing)})
    with pytest.raises(ConfigError) as caught:
        Config.load(path, environ)
    assert str(missing) in caught.value.message
    assert by in caught.value.message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'[model]\nname = "a\n', ["hermes.toml, line 2", "Illegal character"]),
        (b"[model]\nname = \n", ["hermes.toml, line 2", "Invalid value"]),
        (b"[model]\n[model]\n", ["hermes.toml, line 2", "twice"]),
        (b'[model]\nname = "\xff"\n', ["hermes.toml, line 2", "UTF-8"]),
        (b"[model", ["hermes.toml, at its end"]),
    ],
    ids=["open string", "no value", "twice", "not utf-8", "cut"],
)
def test_a_broken_file_names_the_line(tmp_path: Path, content: bytes, words: list[str]) -> None:
    file = tmp_path / "hermes.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        Config.load(file, environ={})
    assert [word for word in words if word not in caught.value.message] == []


def test_a_folder_is_no_config_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Config.load(tmp_path, environ={})


def test_a_mark_of_the_byte_order_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "hermes.toml"
    file.write_bytes(b'\xef\xbb\xbfmodel.name = "x"')
    assert Config.load(file, environ={}).model.name == "x"


def test_a_path_in_the_file_is_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "hermes.toml"
    file.write_text('[runtime]\ndata_dir = "data"')
    assert Config.load(file, environ={}).runtime.data_dir == tmp_path / "data"
    assert Config.load(file, environ={}, overrides={"runtime.data_dir": "x"}).runtime.data_dir == Path("x")


class Places(msgspec.Struct, frozen=True):
    """Each way in which a setting can be of paths."""

    one: Path | None = None
    many: tuple[Path, ...] = ()
    more: list[Path] = []
    each: frozenset[Path] = frozenset()


def test_paths_in_a_list_are_read_like_one_path(tmp_path: Path) -> None:
    file = tmp_path / "hermes.toml"
    file.write_text(
        f'[plugins.places]\none = "x"\nmany = ["x", "/y"]\nmore = ["~/z"]\neach = ["{tmp_path}/w"]\n'
    )
    found = Config.load(file, environ={}).section("plugins", "places", Places)
    assert found.one == tmp_path / "x"
    assert found.many == (tmp_path / "x", Path("/y"))
    assert found.more == [Path.home() / "z"]
    assert found.each == frozenset({tmp_path / "w"})
    typed = Config.load(file, {}, overrides={"plugins.places.many": "x, /y"}).section(
        "plugins", "places", Places
    )
    assert typed.many == (Path("x"), Path("/y"))
    for wrong in ('"/x"', "[1]", '[""]'):
        file.write_text(f"[plugins.places]\nmany = {wrong}\n")
        with pytest.raises(ConfigError, match="many must be a list of paths"):
            Config.load(file, environ={}).section("plugins", "places", Places)


# ---- precedence and origins

_NAMES = st.none() | st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=5)


@given(_NAMES, _NAMES, _NAMES)
def test_the_highest_layer_wins_and_is_named(
    file: str | None, variable: str | None, line: str | None
) -> None:
    config = Config.of(
        {} if file is None else {"model": {"name": file}},
        {} if variable is None else {"HERMES__MODEL__NAME": variable},
        {} if line is None else {"model.name": line},
    )
    layers = [
        (line, "command line"),
        (variable, "environment HERMES__MODEL__NAME"),
        (file, "file (in memory)"),
        ("", "default"),
    ]
    assert (config.model.name, origin(config, "model.name")) == next(
        one for one in layers if one[0] is not None
    )


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("HERMES__MODEL__TIMEOUT", "1m30s", "model.timeout", 90.0),
        ("HERMES__STEER__SKIP_PENDING", "yes", "steer.skip_pending", True),
        ("HERMES__AFTER__ENABLED", "Off", "after.enabled", False),
        ("HERMES__HTTP__PORT", "0", "http.port", 0),
        ("HERMES__CONVERSATION__BUSY", "queue", "conversation.busy", When.QUEUE),
        ("HERMES__ACCESS__ALLOW", "a:1, b:*", "access.allow", ("a:1", "b:*")),
        ("HERMES__ACCESS__ALLOW", '["a:1,2"]', "access.allow", ("a:1,2",)),
        ("HERMES__ACCESS__ALLOW", "", "access.allow", ()),
        ("HERMES__JOBS__CALLBACKS__SECRET_ENV", "KEY", "jobs.callbacks.secret_env", "KEY"),
        ("HERMES__MODEL__NAME", "5", "model.name", "5"),
        ("HERMES__ADAPTERS__TELEGRAM__TOKEN_ENV", "KEY", "adapters.telegram.token_env", "KEY"),
    ],
)
def test_a_variable_is_read_as_the_type_of_its_key(variable: str, text: str, key: str, value: object) -> None:
    settings = {one.key: one.value for one in Config.of({}, {variable: text}).origins()}
    assert settings[key] == value


def test_a_variable_finds_a_package_whose_name_has_a_dash() -> None:
    config = Config.of({"plugins": {"my-plugin": {}}}, {"HERMES__PLUGINS__MY_PLUGIN__APPROVAL": "never"})
    assert config.section("plugins", "my-plugin", Settings).approval == "never"


def test_variables_of_other_programs_are_left_alone() -> None:
    assert Config.of({}, {"HERMES_DEBUG": "1", "HERMESX__Y": "z", "PATH": "/"}).named() == ()


def test_every_value_has_an_origin_and_no_key_comes_twice() -> None:
    settings = Config.of({"adapters": {"web": {"enabled": True, "busy": "queue"}}}).origins()
    assert len({one.key for one in settings}) == len(settings) > 30
    assert {one.origin for one in settings} == {"default", "file (in memory)"}


# ---- errors


@pytest.mark.parametrize(
    ("tables", "environ", "overrides", "words"),
    [
        ({"model": {"timeot": 1}}, {}, {}, ["(in memory)", "timeot", "[model]", '"timeout"']),
        ({"modle": {"name": "x"}}, {}, {}, ["modle", "Did you mean [model]?"]),
        ({"zzzz": 1}, {}, {}, ["zzzz", "There are:", "conversation"]),
        ({"jobs": {"callbacks": {"secretenv": "A"}}}, {}, {}, ["[jobs.callbacks]", '"secret_env"']),
        ({}, {"HERMES__MODEL__NMAE": "x"}, {}, ["HERMES__MODEL__NMAE", "HERMES__MODEL__NAME?"]),
        ({}, {"HERMES__MODLE__NAME": "x"}, {}, ["Did you mean HERMES__MODEL__NAME?"]),
        ({}, {"HERMES__MODEL": "x"}, {}, ["must be a table", "HERMES__MODEL__KEY"]),
        ({}, {"HERMES__MODEL__": "x"}, {}, ["HERMES__MODEL__:", "HERMES__SECTION__KEY"]),
        ({}, {}, {"model.nmae": "x"}, ["command line", "nmae", '"name"']),
        ({}, {}, {"model.": "x"}, ["command line", "--set section.key=value"]),
        ({"model": {"timeout": "fast"}}, {}, {}, ["model.timeout", "a duration", '"fast"']),
        ({"model": {"timeout": -1}}, {}, {}, ["model.timeout", "a duration", "-1"]),
        ({"model": {"timeout": {"a": 1}}}, {}, {}, ["model.timeout", "not a table"]),
        ({"model": {"name": 5}}, {}, {}, ["model.name must be text, not 5"]),
        ({"model": "demo"}, {}, {}, ["model must be a table", "[model]"]),
        (
            {"conversation": {"busy": "quue"}},
            {},
            {},
            ["one of interrupt, queue, steer, followup", '"queue"?'],
        ),
        ({"conversation": {"busy": "event"}}, {}, {}, ["conversation.busy", "one of"]),
        ({"conversation": {"max_steps": 0}}, {}, {}, ["a whole number of at least 1", "0"]),
        ({"conversation": {"max_steps": 2.5}}, {}, {}, ["a whole number", "2.5"]),
        ({"after": {"enabled": "yes"}}, {}, {}, ["after.enabled must be true or false"]),
        ({}, {"HERMES__AFTER__ENABLED": "perhaps"}, {}, ["true or false", "perhaps"]),
        ({"http": {"port": 65536}}, {}, {}, ["from 0 to 65535"]),
        ({"interrupt": {"keep": "nothin"}}, {}, {}, ["finished, nothing", '"nothing"']),
        ({"access": {"allow": "telegram:1"}}, {}, {}, ["access.allow must be a list"]),
        ({"access": {"allow": ["42"]}}, {}, {}, ["access.allow", "platform:user id", "'42'"]),
        ({"access": {"owners": ["telegram:*"]}}, {}, {}, ["access.owners", "one person"]),
        ({"access": {"admins": ["telegram:*"]}}, {}, {}, ["access.admins", "one person"]),
        ({"access": {"admins": ["*"]}}, {}, {}, ["access.admins", "platform:user id", "'*'"]),
        ({"adapters": {"web": True}}, {}, {}, ["adapters.web must be a table"]),
        ({"adapters": 1}, {}, {}, ["adapters must be a table"]),
        ({"adapters": {"web": {"enabled": "yes"}}}, {}, {}, ["adapters.web.enabled must be true or false"]),
        ({"adapters": {"web": {"busy": "now"}}}, {}, {}, ["adapters.web.busy", "one of"]),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) and value else "",
)
def test_what_is_wrong_is_named_with_what_would_be_right(
    tables: dict[str, Any], environ: dict[str, str], overrides: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.of(tables, environ, overrides)
    assert [word for word in words if word not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


# ---- secrets (X2)


@pytest.mark.parametrize(
    "key", ["api_key", "token", "bot_token", "signing_secret", "password", "Authorization", "apikey"]
)
@pytest.mark.parametrize("where", ["section", "open table", "list of tables", "variable", "command line"])
def test_a_secret_in_the_config_is_refused_and_never_shown(key: str, where: str) -> None:
    secret = "sk-Zq81"
    given_as: dict[str, tuple[dict[str, Any], dict[str, str], dict[str, str]]] = {
        "section": ({"model": {key: secret}}, {}, {}),
        "open table": ({"plugins": {"x": {"deep": {key: secret}}}}, {}, {}),
        "list of tables": ({"plugins": {"x": {"servers": [{key: secret}]}}}, {}, {}),
        "variable": ({}, {f"HERMES__PLUGINS__X__{key.upper()}": secret}, {}),
        "command line": ({}, {}, {f"plugins.x.{key}": secret}),
    }
    with pytest.raises(ConfigError) as caught:
        Config.of(*given_as[where])
    assert key.lower() in str(caught.value).lower()
    assert "_env" in caught.value.advice
    assert secret not in str(caught.value)


def test_a_platforms_token_in_the_config_is_sent_to_the_variable_that_the_platform_reads() -> None:
    for table, variable in (("adapters", "TELEGRAM_BOT_TOKEN"), ("plugins", "TELEGRAM_TOKEN")):
        with pytest.raises(ConfigError, match=f'token_env = "{variable}"'):
            Config.of({table: {"telegram": {"token": "42:secret"}}})


def test_a_secret_where_the_name_of_a_variable_belongs_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        Config.of({"model": {"api_key_env": "sk-Zq81"}})
    assert "name of an environment variable" in caught.value.message
    assert "Zq81" not in str(caught.value)


def test_a_secret_is_read_from_the_environment_of_the_start() -> None:
    config = Config.of({"model": {"api_key_env": "MY_KEY"}}, {"MY_KEY": " sk-secret\n"})
    assert config.model.secret() == "sk-secret"
    assert "sk-secret" not in f"{config!r} {config.model!r} {config.origins()}"


@pytest.mark.parametrize("environ", [{}, {"MY_KEY": ""}, {"MY_KEY": "  "}], ids=["unset", "empty", "blank"])
def test_a_missing_secret_names_key_place_and_variable(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.of({"model": {"api_key_env": "MY_KEY"}}, environ).model.secret()
    assert [
        word for word in ("(in memory)", "model.api_key_env", "MY_KEY") if word not in caught.value.message
    ] == []


def test_a_missing_variable_whose_name_may_be_a_secret_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        ModelSettings(api_key_env="a8f5f167f44f4964").secret()
    assert "a8f5f167f44f4964" not in str(caught.value)


def test_what_was_read_is_hidden_in_texts() -> None:
    secrets = Secrets({"A": "abcdef", "B": "abcdefgh", "C": "abc"})
    assert secrets.hide("abcdef") == "abcdef", "nothing was read yet"
    assert [secrets.read("x", name) for name in "ABC"] == ["abcdef", "abcdefgh", "abc"]
    assert secrets.hide("1 abcdefgh 2 abcdef 3 abc") == "1 *** 2 *** 3 abc"


# ---- packages


@pytest.mark.parametrize(
    ("tables", "environ", "name", "enabled"),
    [
        ({}, {}, "terminal", True),
        ({}, {}, "shell", False),
        ({}, {}, "stranger", False),
        ({"plugins": {"shell": {"approval": "never"}}}, {}, "shell", False),
        ({"plugins": {"shell": {"enabled": True}}}, {}, "shell", True),
        ({"plugins": {"demo": {"enabled": False}}}, {}, "demo", False),
        ({"adapters": {"telegram": {"token_env": "X"}}}, {}, "telegram", True),
        ({"plugins": {"stranger": {}}}, {}, "stranger", True),
        ({"adapters": {"x": {"enabled": True}}, "plugins": {"x": {"enabled": False}}}, {}, "x", False),
        ({}, {"HERMES__PLUGINS__SHELL__ENABLED": "true"}, "shell", True),
        (
            {"adapters": {"telegram": {"enabled": False, "token_env": "TOKEN"}}},
            {"TOKEN": "1:2", "HERMES__ADAPTERS__TELEGRAM__TOKEN_ENV": "TOKEN"},
            "telegram",
            False,
        ),
    ],
    ids=[
        "default on",
        "default off",
        "installed only",
        "off though named",
        "written on",
        "written off",
        "named",
        "empty table",
        "off beats on",
        "variable",
        "a token does not beat off",
    ],
)
def test_a_package_is_enabled_by_what_is_written(
    tables: dict[str, Any], environ: dict[str, str], name: str, enabled: bool
) -> None:
    assert Config.of(tables, environ).enabled(name) is enabled


def test_a_package_is_required_only_where_that_is_written() -> None:
    config = Config.of({"plugins": {"a": {"required": True}, "b": {}}})
    assert [config.required(name) for name in "abc"] == [True, False, False]


def test_an_adapter_may_have_its_own_conversation_settings() -> None:
    config = Config.of(
        {"conversation": {"quiet": 2}, "adapters": {"telegram": {"busy": "queue", "catch_up": "2h"}}},
        {"HERMES__ADAPTERS__TELEGRAM__MAX_STEPS": "7"},
    )
    telegram, slack = config.conversation("telegram"), config.conversation("slack")
    assert (telegram.busy, telegram.quiet, telegram.catch_up, telegram.max_steps) == (
        When.QUEUE,
        2.0,
        7200.0,
        7,
    )
    assert slack == config.conversation() == config.talk
    assert (slack.busy, slack.quiet, slack.max_steps) == (When.INTERRUPT, 2.0, 50)


def test_a_plugin_reads_its_section_as_its_own_type() -> None:
    config = Config.of(
        {"plugins": {"x": {"enabled": True, "limit": "2m", "labels": {"a": "b"}, "token_env": "T"}}},
        {"HERMES__PLUGINS__X__PROGRAMS": "ls, cat", "T": "secret-1"},
    )
    settings = config.section("plugins", "x", Settings)
    assert (settings.limit, settings.labels, settings.programs) == (120.0, {"a": "b"}, ("ls", "cat"))
    assert settings.secrets.read("plugins.x.token_env", settings.token_env) == "secret-1"
    assert config.section("plugins", "absent", Settings) == Settings(secrets=config.secrets)


def test_an_adapter_does_not_see_the_keys_of_the_conversation() -> None:
    config = Config.of({"adapters": {"x": {"busy": "queue", "quiet": 1, "approval": "never"}}})
    assert config.section("adapters", "x", Settings).approval == "never"


@pytest.mark.parametrize(
    ("table", "given_keys", "settings", "words"),
    [
        ("plugins", {"aproval": "x"}, Settings, ["(in memory)", "aproval", "[plugins.x]", '"approval"']),
        ("plugins", {"busy": "queue"}, Settings, ['"busy"', "There are:"]),
        ("adapters", {"bussy": "queue"}, Settings, ["[adapters.x]", '"busy"']),
        ("plugins", {"limit": []}, Settings, ["plugins.x.limit", "a duration"]),
        ("plugins", {"labels": {"a": 1}}, Settings, ["plugins.x.labels must be a table"]),
        ("plugins", {}, Needed, ["plugins.x.url is needed", "It must be text"]),
    ],
    ids=["unknown", "no conversation key", "nearest conversation key", "type", "inner type", "needed"],
)
def test_a_plugins_section_is_checked_as_well_as_the_cores(
    table: str, given_keys: dict[str, Any], settings: type[msgspec.Struct], words: list[str]
) -> None:
    config = Config.of({table: {"x": given_keys}})
    with pytest.raises(ConfigError) as caught:
        config.section(table, "x", settings)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1"])
def test_what_is_no_duration_is_shown_as_it_was_written(tmp_path: Path, value: str) -> None:
    (tmp_path / "hermes.toml").write_text(f"[conversation]\nquiet = {value}\n")
    with pytest.raises(ConfigError) as caught:
        Config.load(tmp_path / "hermes.toml", {})
    assert caught.value.message.endswith(
        f'conversation.quiet must be a duration such as "30m", "90s" or a number of seconds, not {value}.'
    )
