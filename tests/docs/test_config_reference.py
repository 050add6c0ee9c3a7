"""`docs/reference/config.md` has every key of the config, with its true default, and no other."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hermes_core.config import DEFAULT_PACKAGES, PACKAGE_KEYS, SECTIONS, Config
from hermes_core.config.check import check_value, keys
from hermes_core.config.sources import Given

PAGE = (Path(__file__).parents[2] / "docs/reference/config.md").read_text(encoding="utf-8")


def tables() -> dict[str, list[list[str]]]:
    """The rows of the table below each heading, cells without back-quotes; heads and rulers left out."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in PAGE.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ").replace("`", "")
        elif line.startswith("| `"):
            cells = [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]
            found.setdefault(heading, []).append(cells)
    return found


def fields(settings: type[msgspec.Struct], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, field in keys(settings).items():
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from fields(field.type, (*path, name))
        else:
            yield (*path, name), field


KEYS = {
    ".".join(path): field for name, settings in SECTIONS.items() for path, field in fields(settings, (name,))
}
DOCUMENTED = {
    f"{heading[1:-1]}.{row[0]}": row
    for heading, rows in tables().items()
    if re.fullmatch(r"\[[a-z.]+\]", heading)
    for row in rows
}


def test_every_key_is_documented_and_every_documented_key_exists() -> None:
    assert list(DOCUMENTED) == list(KEYS)


def test_every_documented_default_is_the_true_one() -> None:
    wrong = {}
    for key, (_, _, default, _) in DOCUMENTED.items():
        if key == "runtime.data_dir":  # depends on the machine
            continue
        given = Given(tomllib.loads(f"value = {default}")["value"], "the page")
        if check_value(tuple(key.split(".")), given, KEYS[key].type) != KEYS[key].default:
            wrong[key] = default
    assert wrong == {}


def test_every_key_has_a_type_and_a_meaning() -> None:
    assert [
        key for key, row in DOCUMENTED.items() if len(row) != 4 or not row[1] or not row[3].endswith(".")
    ] == []


def test_the_keys_and_defaults_of_packages_are_documented() -> None:
    rows = tables()["[adapters.NAME] and [plugins.NAME]"]
    assert [row[0] for row in rows if len(row) == 3] == list(PACKAGE_KEYS)
    assert {row[0]: row[1] == "on" for row in rows if len(row) == 2} == DEFAULT_PACKAGES


def test_the_example_is_a_config() -> None:
    example = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    config = Config.of(tomllib.loads(example[1]))
    assert config.model.provider == "openai"
    assert config.enabled("shell")
