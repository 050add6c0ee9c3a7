"""Approvals: what `hermes plugins` keeps, who goes before it, and what becomes of a file that is spoilt (P4)."""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import msgspec
import pytest

from hermes_core import approvals
from hermes_core.approvals import FILE, Approval, Approvals, change, read
from hermes_core.commands import Command, Context, command
from hermes_core.config import Config
from hermes_core.errors import ConfigError, NotApproved
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Address
from hermes_core.plugins import Plugins
from hermes_core.runtime import Runtime
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import ScriptedModel
from hermes_core.testing.platform import FakePlatform

GREET = Approval(True, "hermes-greet", "1.0", {"commands": ("greet",), "hooks": ("hermes_commands",)})


class GreetPlugin:
    """Greets, and in a later version more."""

    def __init__(self, *more: str) -> None:
        self._names = ("greet", *more)

    @hookimpl
    def hermes_commands(self) -> list[Command]:
        def handler(context: Context) -> str:
            return "hello"

        return [command(name, help="Greet.")(handler) for name in self._names]


class WatchingPlugin(GreetPlugin):
    @hookimpl
    def hermes_turn_started(self, address: Address) -> None: ...


def config(folder: Path, written: str = "", **environ: str) -> Config:
    file = folder / "hermes.toml"
    file.write_text(f'[runtime]\ndata_dir = "{folder}"\n{written}')
    return Config.load(file, environ)


# ---- the file


def test_what_is_kept_is_read_back_and_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    change(folder, "greet", lambda old: GREET)
    change(folder, "busy", lambda old: Approval(False))
    assert read(folder).plugins == {"greet": GREET, "busy": Approval(False)}
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600
    change(folder, "busy", lambda old: None)
    assert read(folder).plugins == {"greet": GREET}


def test_without_a_file_nothing_is_approved(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == Approvals()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version = 1\n[plugins.gre", "The file plugins.toml in the data folder cannot be read"),
        ("version = 1\n[plugins.greet]\nenabled = 'perhaps'\n", "Expected `bool`"),
        ("[tool.other]\nx = 1\n", "unknown field `tool`"),
        ("version = 1\n[plugins.greet]\n", "missing required field `enabled`"),
        ("version = 2\n", "of version 2, and this program knows version 1"),
        ("\xff\xfe", "The file plugins.toml in the data folder cannot be read"),
    ],
)
def test_a_file_that_is_half_written_or_not_ours_is_refused_by_name_and_stays(
    tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / FILE).write_bytes(text.encode("latin-1"))
    for act in (lambda: read(tmp_path), lambda: change(tmp_path, "greet", lambda old: GREET)):
        with pytest.raises(ConfigError, match=says) as refused:
            act()
        assert str(tmp_path) in refused.value.message
        assert "away" in refused.value.advice
    assert (tmp_path / FILE).read_bytes() == text.encode("latin-1")


def test_what_a_writer_that_died_left_behind_is_not_in_the_way(tmp_path: Path) -> None:
    change(tmp_path, "greet", lambda old: GREET)
    (tmp_path / f"{FILE}.new").write_text("version = 1\n[plugins.gr")
    assert read(tmp_path).plugins == {"greet": GREET}
    change(tmp_path, "busy", lambda old: Approval(False))
    assert set(read(tmp_path).plugins) == {"busy", "greet"}


def test_a_change_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    change(tmp_path, "greet", lambda old: GREET)

    def fail(old: Approval | None) -> Approval:
        raise ConfigError("no")

    with pytest.raises(ConfigError):
        change(tmp_path, "greet", fail)
    assert read(tmp_path).plugins == {"greet": GREET}
    change(tmp_path, "greet", lambda old: None)  # the lock is free


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written: Not a directory") as refused:
        change(tmp_path / "file" / "data", "greet", lambda old: GREET)
    assert str(tmp_path / "file" / "data") in refused.value.message


def _add_many(folder: Path, first: int) -> None:
    for number in range(first, first + 20):
        change(folder, f"plugin{number}", lambda old: Approval(True))


def test_of_two_processes_that_change_it_at_once_neither_loses_anything(tmp_path: Path) -> None:
    start = multiprocessing.get_context("spawn")
    both = [start.Process(target=_add_many, args=(tmp_path, first)) for first in (0, 20)]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
        assert one.exitcode == 0
    assert len(read(tmp_path).plugins) == 40


# ---- who goes before whom


def test_what_is_written_goes_before_what_was_switched_and_that_before_the_defaults(tmp_path: Path) -> None:
    change(tmp_path, "greet", lambda old: GREET)
    change(tmp_path, "busy", lambda old: Approval(False))
    change(tmp_path, "shell", lambda old: Approval(True))
    plain = config(tmp_path)
    assert [plain.enabled(name) for name in ("greet", "busy", "shell", "steer", "other")] == [
        True,
        False,
        True,
        True,
        False,
    ]
    off = config(tmp_path, "[plugins.greet]\nenabled = false\n[plugins.busy]\nenabled = true\n")
    assert not off.enabled("greet")
    assert off.enabled("busy")
    assert not config(tmp_path, HERMES__PLUGINS__GREET__ENABLED="no").enabled("greet")


def test_a_plugin_that_was_switched_off_stays_off_where_the_config_only_has_settings_for_it(
    tmp_path: Path,
) -> None:
    change(tmp_path, "greet", lambda old: Approval(False))
    named = config(tmp_path, "[plugins.greet]\ntimes = 3\n")
    assert not named.enabled("greet")
    change(tmp_path, "greet", lambda old: None)
    assert config(tmp_path, "[plugins.greet]\ntimes = 3\n").enabled("greet")


def test_case_51_a_token_in_the_environment_beats_neither_enabled_false_nor_a_switch(tmp_path: Path) -> None:
    token = {"HERMES__ADAPTERS__TELEGRAM__TOKEN_ENV": "TELEGRAM_BOT_TOKEN", "TELEGRAM_BOT_TOKEN": "1:x"}
    change(tmp_path, "telegram", lambda old: Approval(True))
    assert not config(tmp_path, "[adapters.telegram]\nenabled = false\n", **token).enabled("telegram")
    change(tmp_path, "telegram", lambda old: Approval(False))
    assert not config(tmp_path, **token).enabled("telegram")


def test_the_config_shows_where_a_switch_stands(tmp_path: Path) -> None:
    change(tmp_path, "greet", lambda old: GREET)
    change(tmp_path, "busy", lambda old: Approval(False))
    shown = {one.key: one for one in config(tmp_path).origins()}
    assert shown["plugins.greet.enabled"].value is True
    assert shown["plugins.greet.enabled"].origin == f"file {tmp_path / FILE}"
    assert shown["plugins.busy.enabled"].value is False
    assert shown["plugins.busy.enabled"].origin == f"file {tmp_path / FILE}"
    assert shown["plugins.steer.enabled"].origin == "default"


# ---- a later version that registers more


def test_p4_a_plugin_that_registers_what_was_approved_or_less_is_loaded(tmp_path: Path) -> None:
    change(tmp_path, "greet", lambda old: GREET)
    plugins = Plugins(config(tmp_path))
    plugins.add("greet", GreetPlugin())
    assert plugins.commands.owner("greet") == "greet"


@pytest.mark.parametrize(
    ("plugin", "more"),
    [
        (GreetPlugin("spy", "peek"), "command spy, command peek"),
        (WatchingPlugin(), "hook hermes_turn_started"),
    ],
    ids=["commands", "a hook"],
)
def test_p4_a_later_version_that_registers_more_is_not_enabled_and_says_what_to_do(
    tmp_path: Path, plugin: object, more: str
) -> None:
    change(tmp_path, "greet", lambda old: GREET)
    plugins = Plugins(config(tmp_path))
    with pytest.raises(NotApproved) as refused:
        plugins.add("greet", plugin)
    assert refused.value.message == (
        f"plugin 'greet': it registers more than was approved: {more}. "
        "To look at it and approve it: hermes plugins enable greet"
    )
    assert plugins.commands.get("greet") is None, "nothing of it counts"
    assert not plugins.asks("hermes_turn_started")


def test_p4_who_enables_a_plugin_by_hand_is_not_asked(tmp_path: Path) -> None:
    change(tmp_path, "greet", lambda old: GREET)
    plugins = Plugins(config(tmp_path, "[plugins.greet]\nenabled = true\n"))
    plugins.add("greet", GreetPlugin("spy"))
    assert plugins.commands.get("spy") is not None


def test_p4_what_is_approved_while_the_program_runs_counts_for_what_is_loaded_anew(tmp_path: Path) -> None:
    change(tmp_path, "greet", lambda old: GREET)
    running = config(tmp_path)
    assert running.unapproved("greet", {"commands": ("greet", "spy")}) == ["command spy"]
    more = Approval(True, approved={"commands": ("greet", "spy")})
    change(tmp_path, "greet", lambda old: more)
    assert running.unapproved("greet", {"commands": ("greet", "spy")}) == []


async def test_an_adapter_that_was_enabled_is_served_without_a_section(tmp_path: Path) -> None:
    platform = FakePlatform()
    change(
        tmp_path,
        "fake",
        lambda old: Approval(True, approved={"adapters": ("fake",), "hooks": ("hermes_adapters",)}),
    )
    for switched, served in ((True, ["fake"]), (False, [])):
        settings = config(tmp_path, '[model]\nprovider = "scripted"\n')
        if not switched:
            settings = msgspec.structs.replace(settings, approvals=Approvals())
        plugins = Plugins(settings)
        plugins.add("fake", platform)
        plugins.add("scripted", ScriptedModel())
        runtime = Runtime(settings, plugins=plugins, store=MemoryStore())
        if served:
            async with runtime:
                assert list(runtime.services.adapters) == served
        else:
            with pytest.raises(ConfigError, match="names no adapter that is enabled"):
                await runtime.__aenter__()


def test_what_is_listed_is_sorted_and_has_no_empty_kinds() -> None:
    assert approvals.listed({"commands": ("b", "a"), "tools": ()}) == {"commands": ("a", "b")}
