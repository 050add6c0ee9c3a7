"""The pages are true: links lead somewhere, code runs, configs load, transcripts show what the program says."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from hermes_core.cli.parser import parse
from hermes_core.config import Config

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *DOCS,
    *sorted(ROOT.glob("examples/**/README.md")),
    *sorted(ROOT.glob("plugins/*/README.md")),
    *sorted(ROOT.glob("adapters/*/README.md")),
]
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))
FENCE = re.compile(
    r"^(?:<!-- (?P<mark>runs|file: (?P<file>\S+)) -->\n)?(?P<fence>`{3,})(?P<kind>\w*)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CHANGES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|(?<=passed in )\d+\.\d+s")


class Block(NamedTuple):
    """A fenced block: what it is, and whether it is to be run or stands for a file."""

    kind: str
    text: str
    runs: bool
    file: str


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    for found in FENCE.finditer(page.read_text(encoding="utf-8")):
        yield Block(found["kind"], found["text"], found["mark"] == "runs", found["file"] or "")


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings."""
    found = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in found}


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Relative links: as written, the file that is meant, and the anchor."""
    for target in LINK.findall(prose(page)):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield target, (page.parent / path).resolve() if path else page, anchor


def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


each_page = pytest.mark.parametrize("page", PAGES, ids=name)


# ---- links


@each_page
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = [
        target
        for target, path, anchor in links(page)
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path))
    ]
    assert broken == []


@each_page
def test_no_link_leaves_the_repository(page: Path) -> None:
    assert [target for target, path, _ in links(page) if not path.is_relative_to(ROOT)] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    reached: set[Path] = set()
    ahead = [ROOT / "docs/index.md"]
    while ahead:
        page = ahead.pop()
        if page not in reached:
            reached.add(page)
            ahead.extend(path for _, path, _ in links(page) if path.suffix == ".md")
    assert [name(page) for page in PAGES if page not in reached and page != ROOT / "README.md"] == []


def test_the_readme_leads_to_the_index() -> None:
    assert ROOT / "docs/index.md" in {path for _, path, _ in links(ROOT / "README.md")}


# ---- words


@each_page
def test_no_page_names_a_place_on_the_machine_of_its_author(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"(?:/work|/home|/root|/Users|/tmp)/[\w.-]*", text) == []


@each_page
def test_every_page_has_one_title_and_no_overlong_line_of_prose(page: Path) -> None:
    lines = prose(page).splitlines()
    assert len([line for line in lines if line.startswith("# ")]) == 1
    assert lines[0].startswith("# ")
    long = [line for line in lines if len(line) > 125 and not line.startswith(("|", "- "))]
    assert long == []


# ---- code


@each_page
def test_python_compiles(page: Path) -> None:
    for block in blocks(page):
        if block.kind == "python":
            ast.parse(block.text)


@each_page
def test_toml_is_a_config_that_loads_or_a_package(page: Path) -> None:
    for block in blocks(page):
        if block.kind == "toml":
            tables = tomllib.loads(block.text)
            if "project" not in tables:
                Config.of(tables)


def commands(page: Path) -> Iterator[list[str]]:
    """The calls of `hermes` that a page shows, as words."""
    for block in blocks(page):
        if block.kind in ("sh", "console"):
            for line in block.text.splitlines():
                typed = line.removeprefix("$ ") if block.kind == "console" else line
                if block.kind == "sh" or line.startswith("$ "):
                    for found in re.finditer(r"(?:^|\| )(?:\S+=\S+ )*hermes ([^|<>#]+)", typed):
                        yield found[1].split()


@each_page
def test_every_call_of_hermes_exists(page: Path) -> None:
    for words in commands(page):
        command, _ = parse(words)
        assert list(command.NAME[: len(words)]) == words[: len(command.NAME)]


def test_pages_show_calls_and_this_test_sees_them() -> None:
    seen = {words[0] for page in PAGES for words in commands(page)}
    assert seen >= {"chat", "config", "doctor", "pair", "plugins"}


# ---- what runs


def environment(folder: Path) -> dict[str, str]:
    """A place with nothing in it but the program: `hermes`, `scripts/run`, and the examples as installed packages."""
    programs, packages = folder / "programs", folder / "packages"
    (folder / "here/scripts").mkdir(parents=True)
    programs.mkdir()
    pytest_ = "pytest -p no:simcord -p no:cacheprovider "
    for path, words in (
        (programs / "hermes", "hermes_core "),
        (programs / "pytest", pytest_),
        (folder / "here/scripts/run", "hermes_core chat "),
    ):
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -m {words}"$@"\n')
        path.chmod(0o755)
    _installed(packages, "hermes-tally", {"hermes": {"tally": "hermes_tally.plugin:TallyPlugin"}})
    _installed(packages, "kit", {"pytest11": {"hermes": "hermes_core.testing.fixtures"}})
    for example in EXAMPLES:
        points = tomllib.loads((example / "pyproject.toml").read_text())["project"]["entry-points"]["hermes"]
        _installed(packages, example.name, {"hermes": points})
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join(map(str, (packages, folder / "here/tally", *EXAMPLES))),
        "HERMES__PLUGINS__DEMO__PACE": "0",
    }


def _installed(packages: Path, name: str, points: dict[str, dict[str, str]]) -> None:
    """What an installation leaves behind of a package."""
    info = packages / f"{name.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in its.items())
            for group, its in points.items()
        )
    )


def transcript(text: str) -> list[tuple[str, str]]:
    """Each command after a `$ ` with the lines that follow it."""
    parts = re.split(r"^\$ (.+)\n", text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(block.runs for block in blocks(page))], ids=name
)
def test_what_a_page_says_that_the_program_answers_is_what_it_answers(page: Path, tmp_path: Path) -> None:
    environ = environment(tmp_path)
    here = tmp_path / "here"

    def call(*words: str, code: int | None = 0) -> str:
        done = subprocess.run(
            words,
            cwd=here,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert code is None or done.returncode == code, done.stdout
        return done.stdout

    for block in blocks(page):
        if block.file:
            path = here / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.runs and block.kind == "python":
            call(sys.executable, "-W", "error", "-c", block.text)
        elif block.runs:
            assert block.kind == "console"
            for command, said in transcript(block.text):
                assert CHANGES.sub("TIME", call("sh", "-c", command, code=None)) == CHANGES.sub("TIME", said)


def test_the_plugin_of_the_tutorial_is_the_example() -> None:
    files = {
        block.file: block.text for block in blocks(ROOT / "docs/tutorial/your-first-agent.md") if block.file
    }
    written = [path for path in files if path.startswith("greet/")]
    assert written == ["greet/pyproject.toml", "greet/hermes_greet.py"]
    for path in written:
        assert files[path] == (ROOT / "examples" / path).read_text(encoding="utf-8")


def test_the_examples_that_the_pages_call_short_are_short() -> None:
    for module in ("greet/hermes_greet.py", "catch_all/hermes_catch_all.py"):
        assert len((ROOT / "examples" / module).read_text(encoding="utf-8").splitlines()) <= 25


# ---- what is made


@pytest.mark.parametrize("page", DOCS, ids=name)
def test_the_parts_that_are_made_from_the_code_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert generate().rendered(text) == text, "run: python docs/generate.py"


def test_every_part_that_can_be_made_stands_on_a_page() -> None:
    made = {
        part
        for page in DOCS
        for part in re.findall(r"made by docs/generate\.py: ([a-z-]+)", page.read_text())
    }
    assert made == set(generate().PARTS)


# ---- promises, and the house


def test_every_promise_names_tests_that_exist() -> None:
    page = (ROOT / "docs/explanation/what-is-promised.md").read_text(encoding="utf-8")
    files = [
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("plugins/*/tests/*.py"),
        *ROOT.glob("adapters/*/tests/*.py"),
        *ROOT.glob("examples/tests/*.py"),
        *ROOT.glob("hermes_core/testing/*.py"),
        *ROOT.glob("plugins/*/hermes_*/*_contract.py"),
    ]
    code = "\n".join(file.read_text(encoding="utf-8") for file in files)
    exist = set(re.findall(r"^ *(?:async )?def (test_\w+)\(", code, re.MULTILINE))
    assert sorted(set(re.findall(r"\btest_\w+", page)) - exist) == []
    rows = re.findall(r"^\| ([A-Z]\d+) \| .+ \| (.+) \|$", page, re.MULTILINE)
    assert [rule for rule, held in rows if "test_" not in held] == []


def test_the_promises_are_those_that_hold_today() -> None:
    page = (ROOT / "docs/explanation/what-is-promised.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| ([A-Z]\d+) \|", page, re.MULTILINE)
    groups = {
        "D": range(1, 10),
        "T": range(1, 8),
        "I": range(1, 12),
        "S": range(1, 5),
        "A": range(1, 10),
        "J": range(1, 14),
        "P": range(1, 6),
        "R": range(1, 5),
    }
    assert listed == [
        *(f"{letter}{number}" for letter, numbers in groups.items() for number in numbers),
        *("X1", "X2", "X3", "X4", "E12"),
    ]


def test_the_page_of_the_house_names_every_module() -> None:
    page = (ROOT / "docs/explanation/the-house.md").read_text(encoding="utf-8")
    core = ROOT / "hermes_core"
    modules = {
        ".".join(file.relative_to(core).with_suffix("").parts).removesuffix(".__init__")
        for file in core.rglob("*.py")
        if file != core / "__init__.py"
    }
    assert (
        sorted(module for module in modules if f"`{module}`" not in page and f"**{module}**" not in page)
        == []
    )
