"""The kit on plugins: what it finds is true, and ours pass it (P5)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from hermes_core.packages.scaffold import TEST_MODULES
from hermes_core.testing.package import packages
from hermes_core.testing.plugin_contract import PluginContract
from hermes_core.testing.review import CHECKS, Finding, Subject, review

ROOT = Path(__file__).parents[1]
OURS = sorted(
    file.parent
    for kind in ("plugins", "adapters")
    for file in ROOT.glob(f"{kind}/*/pyproject.toml")
    if "[project.entry-points.hermes]" in file.read_text()
)
TESTS_ELSEWHERE = {"jobs"}  # a part of the core: tests/jobs, tests/http

PROJECT = """
[project]
name = "hermes-checked"
version = "1"
description = "Something."
requires-python = ">=3.11"
dependencies = ["hermes-switchboard"]
[project.entry-points.hermes]
checked = "{module}:Plugin"
"""
GOOD = '''
import msgspec
from hermes_core.commands import Context, command
from hermes_core.hookspecs import hookimpl
from hermes_core.tools import tool


class Settings(msgspec.Struct, frozen=True):
    times: int = 1


class Plugin:
    Settings = Settings

    def __init__(self, settings: Settings) -> None: ...

    @hookimpl
    def hermes_commands(self):
        @command("checked")
        def checked(context: Context, n: int) -> str:
            """Check N times."""
            return "ok"
        return [checked]

    @hookimpl
    def hermes_tools(self):
        @tool
        async def count(n: int) -> int:
            """Count to N.

            Args:
                n: How far.
            """
            return n
        return [count]
'''
README = "# checked\n\n`/checked N`, the tool `count`, the key `times`.\n"


@pytest.fixture
def _paths() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("hermes_checked"):
            del sys.modules[name]


def write(folder: Path, code: str = GOOD, readme: str = README, project: str = PROJECT) -> Path:
    module = f"hermes_checked_{abs(hash(folder)):x}"
    (folder / "tests").mkdir()
    (folder / "tests/test_it.py").write_text("")
    (folder / "pyproject.toml").write_text(project.format(module=module))
    (folder / f"{module}.py").write_text(code)
    if readme:
        (folder / "README.md").write_text(readme)
    return folder


def found(folder: Path) -> list[Finding]:
    return [one for package in packages(str(folder)) for one in review(Subject(package))]


@pytest.mark.usefixtures("_paths")
def test_nothing_is_found_of_a_plugin_that_is_right(tmp_path: Path) -> None:
    assert found(write(tmp_path)) == []


ASYNC = "async def count(n: int) -> int:"


@pytest.mark.usefixtures("_paths")
@pytest.mark.parametrize(
    ("check", "old", "new", "says"),
    [
        ("loads", "import msgspec", "import nowhere_at_all", "No module named 'nowhere_at_all'"),
        ("loads", "hermes_tools", "hermes_toolz", "Did you mean hermes_tools?"),
        (
            "loads",
            "(self, settings: Settings) -> None: ...",
            "(self, settings): raise ValueError('no')",
            "ValueError: no",
        ),
        (
            "loads",
            "import msgspec",
            "import msgspec, warnings\nwarnings.warn('old', DeprecationWarning)",
            "warns: Depr",
        ),
        (
            "imports quietly",
            "import msgspec",
            "import msgspec\nprint('hello')",
            "importing it prints 'hello'",
        ),
        (
            "imports quietly",
            "import msgspec",
            "import msgspec, time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass",
            "of every start",
        ),
        (
            "imports quietly",
            "import msgspec",
            "import msgspec, threading\nthreading.Thread(target=threading.Event().wait, args=(2,)).start()",
            "starts 1 thread",
        ),
        ("settings", ", frozen=True", "", "Settings must be frozen"),
        ("settings", "times: int = 1", "token: str = ''", "token_env"),
        ("settings", "Settings = Settings", "Settings = dict", "Settings must be a msgspec Struct"),
        ("commands", "Check N times.", f"{'Check N times. ' * 10}", "platforms show 100"),
        (
            "commands",
            "class Plugin:",
            "class Odd:\n    def __init__(self, text): raise KeyError(text)\n\n\nclass Plugin:",
            "reading the arguments raised KeyError",
        ),
        ("tools", "Count to N.", "Count.", "says too little for a model"),
        ("tools", "                n: How far.\n", "", "the argument n is not described"),
        ("tools", "@tool\n", "@tool('Count')\n", "its name must be of a-z"),
        (
            "code",
            ASYNC,
            f"{ASYNC}\n            import time; time.sleep(n)",
            "time.sleep in the coroutine count",
        ),
        (
            "code",
            ASYNC,
            f"{ASYNC}\n            from time import sleep as nap; nap(n)",
            "time.sleep in the coroutine",
        ),
        (
            "code",
            "import msgspec",
            "import msgspec\nfrom hermes_core.router import Router",
            "hermes_core.router is not for",
        ),
        (
            "code",
            "import msgspec",
            "import msgspec\nfrom hermes_core.tools.declare import _kind",
            "is private",
        ),
        (
            "code",
            "            return n",
            "            try:\n                return n\n            except:\n                return 0",
            "catches everything, its cancellation too",
        ),
    ],
)
def test_what_is_wrong_is_found_in_words_by_its_check(
    tmp_path: Path, check: str, old: str, new: str, says: str
) -> None:
    code = GOOD.replace(old, new, 1)
    if "Odd" in new:
        code = code.replace("n: int) -> str", "n: Odd) -> str")
    assert code != GOOD
    hits = [one for one in found(write(tmp_path, code)) if says in one.text]
    assert [one.check for one in hits] == [check]


@pytest.mark.usefixtures("_paths")
@pytest.mark.parametrize(
    ("readme", "project", "says"),
    [
        ("", PROJECT, "there is no README.md"),
        (README.replace("/checked", "checked"), PROJECT, "README.md does not name the command /checked"),
        (README.replace("`count`", "counting"), PROJECT, "README.md does not name the tool count"),
        (README.replace("times", "time"), PROJECT, "README.md does not name the key times"),
        (README, PROJECT.replace('"hermes-switchboard"', ""), 'dependencies lack "hermes-switchboard"'),
        (README, PROJECT.replace('description = "Something."', ""), "does not say one line about it"),
        (README, PROJECT.replace('requires-python = ">=3.11"', ""), "does not say requires-python"),
        (README, PROJECT.replace("checked = ", '"Checked!" = '), "its name 'Checked!' must be of a-z"),
    ],
)
def test_what_a_package_does_not_say_is_found(tmp_path: Path, readme: str, project: str, says: str) -> None:
    assert says in " | ".join(one.text for one in found(write(tmp_path, readme=readme, project=project)))


def test_every_check_finds_something_in_some_test_above() -> None:
    marks = test_what_is_wrong_is_found_in_words_by_its_check.pytestmark  # type: ignore[attr-defined]
    table = next(mark for mark in marks if mark.name == "parametrize").args[1]
    assert {row[0] for row in table} | {"is a package", "is documented"} == set(CHECKS)


def check(*words: str, environ: dict[str, str] | None = None) -> tuple[int, str, str]:
    call = [sys.executable, "-m", "hermes_core", "plugins", "check", *words]
    done = subprocess.run(call, env=environ, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.usefixtures("_paths")
@pytest.mark.parametrize("folder", OURS, ids=lambda folder: folder.name)
def test_p5_our_own_plugins_pass(folder: Path) -> None:
    for package in packages(str(folder)):
        findings = review(Subject(package))
        if package.name in TESTS_ELSEWHERE:
            findings = [one for one in findings if "has no tests" not in one.text]
        assert findings == []


def test_the_command_prints_findings_and_fails_and_is_content_with_what_is_right(tmp_path: Path) -> None:
    folder = write(tmp_path, readme="")
    code, out, err = check(str(folder))
    assert (code, out, err) == (
        1,
        "checked: there is no README.md that says what it does\nchecked: 1 finding\n",
        "",
    )
    (folder / "README.md").write_text(README)
    assert check(str(folder)) == (0, "checked: all is well\n", "")
    code, out, _ = check("busy", "--json")
    assert (code, json.loads(out)) == (0, {"plugins": ["busy"], "findings": []})


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("nowhere", "there is no such folder, and no plugin of that name is installed."),
        (str(ROOT / "docs"), "this folder is no package: it has no pyproject.toml."),
        (str(ROOT / "plugins/httpmodel"), "this is no plugin"),
    ],
)
def test_what_cannot_be_checked_is_said(what: str, says: str) -> None:
    code, out, err = check(what)
    assert (code, out) == (1, "")
    assert says in err
    assert "Traceback" not in err


def test_a_plugin_that_ends_the_process_is_told_of(tmp_path: Path) -> None:
    code, _, err = check(str(write(tmp_path, "import os\nos._exit(5)\n")))
    assert (code, err) == (1, "hermes: Loading it ended the process (exit code 5).\n")


ADAPTER = """
from hermes_core.adapter import AdapterFactory
from hermes_core.hookspecs import hookimpl


class Plugin:
    @hookimpl
    def hermes_adapters(self):
        return [AdapterFactory("checked", dict)]
"""


CONTRACT = (
    "from hermes_core.testing.adapter_contract import AdapterContract\n"
    "class TestMine(AdapterContract):\n    pass\n"
)


@pytest.mark.slow
def test_an_adapter_is_held_to_its_contract(tmp_path: Path) -> None:
    folder = write(tmp_path, ADAPTER)
    assert "it brings an adapter, and none of its tests is an AdapterContract" in check(str(folder))[1]
    (folder / "tests/test_contract.py").write_text(CONTRACT)
    code, out, _ = check(str(folder))
    assert code == 1
    assert "checked: ERROR tests/test_contract.py::TestMine::" in out


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        (["pytest", "pytest_asyncio"], "for want of pytest and pytest-asyncio."),
        (["pytest_asyncio"], "for want of pytest-asyncio."),
    ],
    ids=["both", "one"],
)
def test_where_the_tests_of_an_adapter_cannot_run_it_is_said_what_to_install(
    tmp_path: Path, gone: list[str], words: str
) -> None:
    (tmp_path / "it").mkdir()
    folder = write(tmp_path / "it", ADAPTER)
    (folder / "tests/test_contract.py").write_text(CONTRACT)
    environ = without(tmp_path / "without", gone)
    code, out, _ = check(str(folder), environ=environ)
    assert code == 1
    install = f"Install it: {sys.executable} -m pip install 'hermes-switchboard[testing]'"
    assert f"checked: its AdapterContract was not run, {words} {install}" in out.splitlines()


def test_why_pytest_did_not_begin_is_said(tmp_path: Path) -> None:
    folder = write(tmp_path, ADAPTER)
    (folder / "tests/test_contract.py").write_text(CONTRACT)
    with (folder / "pyproject.toml").open("a") as file:
        file.write('[tool.pytest.ini_options]\naddopts = "--strict-config"\nnobody_knows = 1\n')
    assert "was not run: Unknown config option: nobody_knows (is its" in check(str(folder))[1]


@pytest.mark.parametrize(("group", "kind"), [("plugins", "plugin"), ("adapters", "adapter")])
def test_what_is_begun_says_which_packages_its_tests_need_where_they_lack(
    tmp_path: Path, group: str, kind: str
) -> None:
    call = [sys.executable, "-m", "hermes_core", group, "new", "pigeon"]
    said = {}
    for folder, gone in (("all", []), ("none", list(TEST_MODULES[kind]))):
        environ = without(tmp_path / f"without-{folder}", gone)
        (tmp_path / folder).mkdir()
        done = subprocess.run(
            call, cwd=tmp_path / folder, env=environ, capture_output=True, text=True, timeout=60, check=True
        )
        said[folder] = [line for line in done.stdout.splitlines() if " need " in line]
    names = " and ".join(TEST_MODULES[kind]).replace("_", "-")
    install = f"{sys.executable} -m pip install 'hermes-switchboard[testing]'"
    assert said == {"all": [], "none": [f"Its tests need {names}: {install}"]}


def test_the_extra_for_tests_brings_what_the_tests_of_each_kind_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = {Requirement(one).name for one in project["optional-dependencies"]["testing"]}
    for kind, modules in TEST_MODULES.items():
        template = ROOT / f"hermes_core/packages/templates/{kind}/pyproject.toml.txt"
        theirs = tomllib.loads(template.read_text())["project"]["optional-dependencies"]["test"]
        names = {Requirement(one).name for one in theirs}
        assert names == {one.replace("_", "-") for one in modules}
        assert names <= brought


def without(folder: Path, modules: list[str]) -> dict[str, str]:
    """The environment of a process that finds none of these modules."""
    folder.mkdir()
    lines = [f"sys.modules[{name!r}] = None\n" for name in modules]
    (folder / "sitecustomize.py").write_text("import sys\n" + "".join(lines))
    return {**os.environ, "PYTHONPATH": str(folder)}


class TestAuthorsGetTheSame(PluginContract):
    """The suite itself, on this repository's root, which is no plugin: only that it says so."""

    @pytest.fixture
    def subjects(self, tmp_path: Path, _paths: None) -> list[Subject]:
        return [Subject(one) for one in packages(str(write(tmp_path)))]
