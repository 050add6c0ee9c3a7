"""Owners: which files are a plugin's, however it is installed, and whose code stands in a frame."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import types
from pathlib import Path

import pytest

from hermes_core.plugins import within
from hermes_core.plugins.brought import Brought
from hermes_core.plugins.owners import Culprit, Owners, ground
from hermes_core.testing.virtual import run


def installed(
    folder: Path, *, record: str = "", project: Path | None = None
) -> importlib.metadata.EntryPoint:
    info = folder / "hermes_mine-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hermes-mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[hermes]\nmine = hermes_mine:plugin\n")
    (info / "RECORD").write_text(record)
    if project is not None:
        (info / "direct_url.json").write_text(
            json.dumps({"url": project.as_uri(), "dir_info": {"editable": True}})
        )
    [found] = importlib.metadata.distributions(path=[str(folder)])
    [point] = found.entry_points
    return point


def test_a_wheels_files_are_those_of_its_record_also_beside_its_package(tmp_path: Path) -> None:
    point = installed(
        tmp_path, record="hermes_mine.py,,\nmine_helper.py,,\nhermes_mine-1.dist-info/RECORD,,\n"
    )
    own = ground(None, point)
    assert own.holds(str(tmp_path / "mine_helper.py"))
    assert own.holds(str(tmp_path / "hermes_mine.py"))
    assert not own.holds(str(tmp_path / "other.py"))


def test_an_editable_projects_files_are_those_of_its_folder_but_not_what_is_installed_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "a project"
    (project / "src").mkdir(parents=True)
    own = ground(None, installed(tmp_path / "site", project=project))
    assert own.holds(str(project / "src" / "mine_helper.py"))
    assert not own.holds(str(tmp_path / "a project that is not it" / "x.py"))
    around = ground(None, installed(tmp_path / "more", project=Path(sys.prefix).parent))
    library = Path(pytest.__file__)
    assert not around.holds(str(library.resolve())), "a .venv inside of the project is nobody's own code"


def test_one_that_could_not_be_imported_has_its_files_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hermes_mine").mkdir()
    (tmp_path / "hermes_mine" / "__init__.py").write_text("import nothing_of_this_name")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    own = ground(None, installed(tmp_path / "site"))
    assert own.holds(str(tmp_path / "hermes_mine" / "deep" / "helper.py"))


# ---- frames


def frames(folder: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> dict[str, types.ModuleType]:
    """Modules of these texts, imported."""
    monkeypatch.syspath_prepend(str(folder))
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    importlib.invalidate_caches()
    for name in texts:
        sys.modules.pop(name, None)
    return {name: importlib.import_module(name) for name in texts}


def brought(plugin: object) -> Brought:
    return Brought("x", plugin, {}, (), (), (), (), ())


def test_a_librarys_code_counts_for_whoever_called_it_and_the_houses_for_the_house(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = frames(
        tmp_path,
        monkeypatch,
        owner_library="def call(function):\n    return function()\n",
        owner_mine="import sys, owner_library\n\ndef work():\n    return owner_library.call(sys._getframe)\n",
    )
    owners = Owners({"mine": brought(made["owner_mine"])}, {})
    assert owners.culprit(made["owner_mine"].work()) == Culprit(
        ("mine",), "owner_mine.py:4 in work", "owner_library.py:2 in call"
    )
    assert owners.culprit(made["owner_library"].call(sys._getframe)).plugins == ()

    async def inside() -> types.FrameType | None:
        return sys._getframe().f_back

    house = run(within(inside(), 1.0))
    assert house is not None
    assert owners.culprit(house).plugins == ()
    assert owners.culprit(house).place.startswith("limits.py:")


def test_two_plugins_of_one_module_are_told_apart_by_the_entry_that_led_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import sys\nfrom hermes_core.commands import command\n\n"
        "def deep():\n    return sys._getframe()\n\n"
        "@command('a', help='x')\ndef a(context):\n    return deep()\n\n"
        "@command('b', help='x')\ndef b(context):\n    return deep()\n"
    )
    module = frames(tmp_path, monkeypatch, owner_two=text)["owner_two"]
    loaded = {
        name: Brought(name, module, {}, (getattr(module, name),), (), (), (), ()) for name in ("a", "b")
    }
    owners = Owners(loaded, {})
    assert owners.culprit(module.a.handler(None)).plugins == ("a",)
    assert owners.culprit(module.b.handler(None)).plugins == ("b",)
    assert owners.culprit(module.deep()).plugins == ("a", "b"), "nobody can tell"
