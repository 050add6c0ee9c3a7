"""`hermes plugins install`, `enable`, `disable`, `remove`: with the real pip, in a real environment (P4)."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import psutil
import pytest

from .test_interrupted import until
from .world import World, wheel

pytestmark = pytest.mark.slow

MARK = "from hermes_core.hookspecs import hookimpl\n"


def state(world: World) -> dict[str, dict[str, object]]:
    plugins: dict[str, dict[str, object]] = tomllib.loads((world.folder / "data/plugins.toml").read_text())[
        "plugins"
    ]
    return plugins


def test_p4_what_is_installed_is_listed_and_off_and_enabling_shows_what_it_registers(
    world: World, tmp_path: Path
) -> None:
    done = world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-greet", plugin="greet")))
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "hermes-greet 1.0 is installed: greet",
        "It is not enabled. To see what it registers, and enable it: hermes plugins enable greet",
    ]
    assert not (world.folder / "data/plugins.toml").exists()
    listed = {one["name"]: one for one in json.loads(world.hermes("plugins", "list", "--json").out)}
    assert listed["greet"]["version"] == "1.0"
    assert listed["greet"]["enabled"] is False
    assert listed["greet"]["commands"] == []
    unasked = world.hermes("plugins", "enable", "greet")
    assert (unasked.code, unasked.err.splitlines()[0]) == (2, "hermes: Nobody is here to be asked.")
    enabled = world.hermes("plugins", "enable", "greet", "--yes")
    assert enabled.out.splitlines() == [
        "greet 1.0 registers:",
        "    commands: greet",
        "    hooks: hermes_commands",
        "greet is enabled, from the next start on.",
    ]
    assert state(world)["greet"]["approved"] == {"commands": ["greet"], "hooks": ["hermes_commands"]}
    assert world.hermes("chat", typed="/greet\n").out == "hello\n"
    assert world.hermes("plugins", "enable", "greet").out == "greet is enabled already.\n"
    assert world.hermes("plugins", "enable", "busy").out == "busy is enabled already.\n"
    assert world.hermes("plugins", "disable", "greet").out == "greet is off, from the next start on.\n"
    assert "no command /greet" in world.hermes("chat", typed="/greet\n").out


def test_p2_that_a_command_is_taken_is_said_before_the_plugin_is_enabled(
    world: World, tmp_path: Path
) -> None:
    made = wheel(tmp_path, "hermes-greet", plugin="greet", commands=("greet", "help"))
    assert world.hermes("plugins", "install", str(made)).code == 0
    taken = "/help of plugin 'greet' is taken by plugin 'basics'."
    assert f"    problem: {taken}" in world.hermes("plugins", "info", "greet").out.splitlines()
    lines = world.hermes("plugins", "enable", "greet", "--yes").out.splitlines()
    assert lines[-2:] == [f"    left out: {taken}", "greet is enabled, from the next start on."]
    assert world.hermes("chat", typed="/greet\n").out == "hello\n"
    assert f"    problem: {taken}" in world.hermes("plugins", "info", "greet").out.splitlines()
    world.hermes("plugins", "disable", "greet")
    world.hermes("plugins", "disable", "basics")
    assert "left out" not in world.hermes("plugins", "enable", "greet", "--yes").out


def test_a_name_that_is_far_from_every_plugin_is_not_guessed(world: World) -> None:
    assert "Did you mean" not in world.hermes("plugins", "remove", "nope").err
    assert "Did you mean 'openai'?" in world.hermes("plugins", "remove", "opanai").err


def test_p4_a_later_version_that_registers_more_asks_again_and_does_not_run_until_then(
    world: World, tmp_path: Path
) -> None:
    world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-greet", plugin="greet")))
    world.hermes("plugins", "enable", "greet", "--yes")
    later = wheel(tmp_path, "hermes-greet", "2.0", plugin="greet", commands=("greet", "spy"))
    done = world.hermes("plugins", "install", str(later))
    assert done.out.splitlines() == [
        "hermes-greet 2.0 is installed (was 1.0): greet",
        "It registers more than was approved (command spy), and does not run until you",
        "have looked at that: hermes plugins enable greet",
    ]
    talk = world.hermes("chat", typed="/greet\n")
    assert "no command /greet" in talk.out
    assert talk.err == (
        "hermes: plugin greet: it registers more than was approved: command spy. "
        "To look at it and approve it: hermes plugins enable greet\n"
    )
    listed = {one["name"]: one for one in json.loads(world.hermes("plugins", "list", "--json").out)}
    assert listed["greet"]["enabled"] is False
    (world.folder / "hermes.toml").write_text("[plugins.greet]\nrequired = true\n")
    required = world.hermes("chat")
    assert required.code == 2
    assert "The required plugin 'greet' cannot be loaded: it registers more than was approved" in required.err
    (world.folder / "hermes.toml").unlink()
    again = world.hermes("plugins", "enable", "greet", "--yes")
    assert "    new since it was approved (1.0): command spy" in again.out.splitlines()
    assert world.hermes("chat", typed="/spy\n").out == "hello\n"


def test_a_plugin_brings_what_it_needs_and_what_changed_is_said(world: World, tmp_path: Path) -> None:
    wheel(world.links, "colours", "3.1")
    wheel(world.links, "hermes-greet", requires=["colours>=3"], plugin="greet")
    done = world.hermes("plugins", "install", "hermes-greet>=1")
    assert done.out.splitlines()[:2] == ["colours 3.1", "hermes-greet 1.0 is installed: greet"], done.err
    assert world.installed() == {"colours": "3.1", "hermes_greet": "1.0"}
    again = world.hermes("plugins", "install", "hermes-greet")
    assert again.out == "hermes-greet 1.0 is installed already.\n"
    assert world.hermes("plugins", "remove", "greet").out.endswith("What it needed is still installed.\n")
    assert world.installed() == {"colours": "3.1"}


@pytest.mark.parametrize(
    ("requires", "says"),
    [
        (
            ["colours>=2"],
            "hermes-two would change colours from 1.0 to 2.0, and hermes-one 1.0 needs colours<2.",
        ),
        (
            ["hermes-switchboard>=99"],
            "hermes-two 1.0 needs hermes-switchboard>=99, and this Hermes has hermes-switchboard 0.1.0.",
        ),
        (["nowhere"], "hermes-two 1.0: there is no package nowhere that fits, where pip looks for it."),
        (["tints"], "hermes-two would take shades from 2.0 to 1.0, which is a downgrade."),
        (["deep"], "hermes-switchboard"),
    ],
    ids=["breaks another plugin", "another Hermes", "needs what is not there", "a downgrade", "deeper"],
)
def test_what_would_break_something_is_refused_naming_both_before_anything_changes(
    world: World, tmp_path: Path, requires: list[str], says: str
) -> None:
    wheel(world.links, "colours", "1.0")
    wheel(world.links, "shades", "2.0")
    first = wheel(tmp_path, "hermes-one", requires=["colours<2", "shades"], plugin="one", commands=["one"])
    assert world.hermes("plugins", "install", str(first)).code == 0
    wheel(world.links, "colours", "2.0")
    wheel(world.links, "shades", "1.0")
    wheel(world.links, "tints", requires=["shades<2"])
    wheel(world.links, "deep", requires=["hermes-switchboard<0.1"])
    wheel(world.links, "hermes-switchboard", "0.0.9")
    before = world.files()
    second = wheel(tmp_path, "hermes-two", requires=requires, plugin="two", commands=["two"])
    done = world.hermes("plugins", "install", str(second))
    assert done.code == 1
    assert says in done.err
    assert "hermes-two" in done.err
    assert "Nothing was changed" in done.err or "nothing was changed" in done.err
    assert world.files() == before


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("hermes-nowhere", "hermes: hermes-nowhere: there is no package hermes-nowhere that fits"),
        ("./nowhere", "hermes: ./nowhere: there is no such folder, and it is no name of a package either."),
        ("empty", "hermes: empty: "),
        ("./empty", "hermes: ./empty: this folder is no Python package."),
        ("none.whl", "hermes: none.whl: there is no such file."),
        ("broken-1.0-py3-none-any.whl", "hermes: broken-1.0-py3-none-any.whl: the wheel is broken."),
        ("other-1.0-cp27-cp27m-win32.whl", "the wheel is for another Python or another system."),
        (
            "colours",
            "hermes: colours 1.0 is no plugin for Hermes: it has no entry point in the group “hermes”.",
        ),
        (
            "hermes-busy",
            "hermes: hermes-busy brings a plugin 'busy', and hermes-switchboard-busy has one of that name",
        ),
        ("git+file:///nowhere/at/all.git", "git does not give it: "),
        ("https://example.invalid/greet.zip", "this is no git URL."),
        ("-r", "there is no such folder"),
    ],
)
def test_what_cannot_be_installed_is_refused_in_plain_words_and_nothing_changes(
    world: World, what: str, says: str
) -> None:
    (world.folder / "empty").mkdir(exist_ok=True)
    (world.folder / "broken-1.0-py3-none-any.whl").write_bytes(b"PK\x03\x04 and then nothing")
    wheel(world.folder, "other", plugin="other").rename(world.folder / "other-1.0-cp27-cp27m-win32.whl")
    wheel(world.links, "colours")
    wheel(world.links, "hermes-busy", plugin="busy")
    before = world.files()
    done = world.hermes("plugins", "install", "--", what)
    assert done.code == 1, done.err
    assert says in done.err
    assert "Traceback" not in done.err
    assert world.files() == before
    assert not (world.folder / "data/plugins.toml").exists()


def test_a_downgrade_is_refused_unless_it_is_asked_for(world: World, tmp_path: Path) -> None:
    old, new = (wheel(tmp_path, "hermes-greet", version, plugin="greet") for version in ("1.0", "2.0"))
    world.hermes("plugins", "install", str(new))
    refused = world.hermes("plugins", "install", str(old))
    assert refused.code == 1
    assert "hermes-greet 2.0 is installed, and 1.0 is older." in refused.err
    assert world.installed() == {"hermes_greet": "2.0"}
    assert world.hermes("plugins", "install", "--allow-downgrade", str(old)).code == 0
    assert world.installed() == {"hermes_greet": "1.0"}


def test_what_others_need_and_what_comes_with_hermes_is_not_removed(world: World, tmp_path: Path) -> None:
    world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-one", plugin="one", commands=["one"])))
    needs = wheel(tmp_path, "hermes-two", requires=["hermes-one"], plugin="two", commands=["two"])
    assert world.hermes("plugins", "install", str(needs)).code == 0
    assert (
        "hermes-one cannot be removed: hermes-two 1.0 would no longer work."
        in world.hermes("plugins", "remove", "one").err
    )
    busy = world.hermes("plugins", "remove", "busy")
    assert busy.code == 1
    assert "hermes-switchboard-busy comes with Hermes and cannot be removed." in busy.err
    unknown = world.hermes("plugins", "remove", "twoo")
    assert unknown.err == "hermes: There is no plugin 'twoo' installed.\nDid you mean 'two'?\n"
    assert set(world.installed()) == {"hermes_one", "hermes_two"}


def test_removing_forgets_what_was_approved_and_refuses_what_the_config_enables(
    world: World, tmp_path: Path
) -> None:
    world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-greet", plugin="greet")))
    world.hermes("plugins", "enable", "greet", "--yes")
    (world.folder / "hermes.toml").write_text("[plugins.greet]\nenabled = true\n")
    refused = world.hermes("plugins", "remove", "greet")
    assert refused.code == 2
    assert "hermes.toml enables greet" in refused.err
    (world.folder / "hermes.toml").unlink()
    assert world.hermes("plugins", "remove", "hermes-greet").code == 0
    assert state(world) == {}


def test_enable_and_disable_do_not_go_against_what_is_written(world: World, tmp_path: Path) -> None:
    world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-greet", plugin="greet")))
    config = world.folder / "hermes.toml"
    config.write_text("[plugins.greet]\nenabled = false\n")
    refused = world.hermes("plugins", "enable", "greet", "--yes")
    assert refused.code == 2
    assert "hermes.toml says plugins.greet.enabled = false, and that goes before." in refused.err
    config.write_text("[plugins.greet]\nenabled = true\n")
    assert (
        "plugins.greet.enabled = true, and that goes before."
        in world.hermes("plugins", "disable", "greet").err
    )
    assert config.read_text() == "[plugins.greet]\nenabled = true\n", "nobody rewrites it"
    assert not (world.folder / "data/plugins.toml").exists()


def test_a_plugin_that_cannot_be_loaded_is_not_enabled_and_says_why(world: World, tmp_path: Path) -> None:
    for code, why in (
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("import os\nos._exit(3)\n", "loading it ended the process (exit code 3)"),
    ):
        broken = wheel(tmp_path, "hermes-greet", plugin="greet", code=code)
        world.hermes("plugins", "install", str(broken))
        done = world.hermes("plugins", "enable", "greet", "--yes")
        assert done.code == 1
        assert f"greet cannot be enabled: {why}" in done.err
    assert not (world.folder / "data/plugins.toml").exists()


def test_a_state_file_that_is_spoilt_stops_with_what_to_do_and_is_not_written_over(
    world: World, tmp_path: Path
) -> None:
    world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-greet", plugin="greet")))
    file = world.folder / "data/plugins.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("version = 1\n[plugins.gre")
    for words in (("plugins", "enable", "greet", "--yes"), ("plugins", "list"), ("chat",)):
        done = world.hermes(*words)
        assert done.code == 2
        assert "The file plugins.toml in the data folder cannot be read" in done.err
        assert "move it away" in done.err
    assert file.read_text() == "version = 1\n[plugins.gre"


def test_a_package_that_is_gone_is_a_problem_line_and_no_reason_not_to_start(
    world: World, tmp_path: Path
) -> None:
    world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-greet", plugin="greet")))
    world.hermes("plugins", "enable", "greet", "--yes")
    pip = [str(world.python), "-m", "pip", "uninstall", "--yes", "--quiet", "hermes-greet"]
    subprocess.run(pip, check=True, env=world.environ())
    listed = world.hermes("plugins", "list")
    assert (
        "problem: it is enabled, but its package hermes-greet is no longer installed. "
        "Install it again, or: hermes plugins disable greet"
    ) in listed.out
    assert world.hermes("chat", typed="/help\n").code == 0
    assert world.hermes("plugins", "disable", "greet").code == 0
    assert "greet" not in world.hermes("plugins", "list").out


def test_info_tells_what_is_known_also_of_one_that_is_off(world: World, tmp_path: Path) -> None:
    code = """
import msgspec
from hermes_core.hookspecs import hookimpl
class Settings(msgspec.Struct, frozen=True):
    place: str
    times: int = 3
class Plugin:
    Settings = Settings
    def __init__(self, settings): pass
    @hookimpl
    def hermes_turn_started(self): pass
"""
    said = {"Summary": "Greets people.", "Author": "Ann", "Home-page": "https://example.invalid/"}
    made = wheel(tmp_path, "hermes-greet", plugin="greet", code=code, metadata=said, requires=["msgspec"])
    world.hermes("plugins", "install", str(made))
    facts = json.loads(world.hermes("plugins", "info", "greet", "--json").out)
    assert facts["summary"] == "Greets people."
    assert facts["author"] == "Ann"
    assert facts["requires"] == ["msgspec"]
    assert facts["enabled"] is False
    assert facts["keys"] == {"place": None, "times": "3"}
    assert facts["problems"] == ["plugins.greet.place is needed. It must be text."]
    text = world.hermes("plugins", "info", "hermes-greet", "--set", "plugins.greet.place=here").out
    assert "    hooks: hermes_turn_started" in text.splitlines()
    assert "    key: place = (needed)" in text.splitlines()
    assert "problem" not in text


def test_a_plugin_that_hangs_or_leaves_processes_behind_does_not_hold_up_who_looks(
    world: World, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    code = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen(['sleep', '300'])\nopen({str(left)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(300)\n"
    )
    world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-greet", plugin="greet", code=code)))
    look = "from hermes_core.packages import look; print(look('greet', seconds=3).problem)"
    done = subprocess.run(
        [str(world.python), "-c", look],
        cwd=world.folder,
        env=world.environ(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "it did not load within 3 s\n"
    until(lambda: not psutil.pid_exists(int(left.read_text())), 10)


def test_no_secret_of_a_plugins_error_is_shown(world: World, tmp_path: Path) -> None:
    code = "raise RuntimeError('no access with sk-abcdefghijklmnopqrstuvwxyz0123456789')\n"
    world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-greet", plugin="greet", code=code)))
    for words in (("info", "greet"), ("info", "greet", "--json"), ("enable", "greet", "--yes")):
        done = world.hermes("plugins", *words)
        assert "no access with ***" in done.out + done.err
        assert "sk-abc" not in done.out + done.err


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import nothing_of_that_name\n", "cannot be loaded: ModuleNotFoundError"),
        (
            f"{MARK}class Plugin:\n    @hookimpl\n    def hermes_turn_ended(self, adress): pass\n",
            "adress",
        ),
    ],
    ids=["an import error", "one wrong keyword"],
)
def test_case_44_an_installed_plugin_that_cannot_be_loaded_stops_nothing_and_is_named(
    world: World, tmp_path: Path, code: str, why: str
) -> None:
    world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-greet", plugin="greet", code=code)))
    (world.folder / "hermes.toml").write_text("[plugins.greet]\nenabled = true\n")
    talk = world.hermes("chat", typed="count to 2\n", HERMES__PLUGINS__DEMO__PACE="0")
    assert (talk.code, talk.out) == (0, "1, 2. Done.\n")
    assert talk.err.startswith("hermes: plugin greet: ")
    assert why in talk.err
    listed = {one["name"]: one for one in json.loads(world.hermes("plugins", "list", "--json").out)}
    assert why in listed["greet"]["problem"]
    assert [one["name"] for one in listed.values() if one["problem"]] == ["greet"]
