"""PluginContract: the suite that decides whether a plugin is right (P5).

    from hermes_core.testing.plugin_contract import PluginContract

    class TestContract(PluginContract):
        pass

It is about the project in which the test stands. The fixture `config` may give the settings that the
plugin needs; the checks are those of `hermes_core.testing.review`. Besides, every command is typed with odd
arguments, in a runtime in memory, so its handler runs; `untried` names those that must not:

    class TestContract(PluginContract):
        untried = ("deploy",)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from hermes_core.config import Config
from hermes_core.errors import PackageError
from hermes_core.testing.kit import Hermes
from hermes_core.testing.package import packages
from hermes_core.testing.review import CHECKS, Subject
from hermes_core.testing.review_commands import tried

__all__ = ["PluginContract"]


class PluginContract:
    """Every check is a test; what it finds is the reason of its failure."""

    untried: ClassVar[tuple[str, ...]] = ()

    @pytest.fixture
    def config(self) -> Config:
        """The config with which the plugin is made."""
        return Config()

    @pytest.fixture
    def subjects(self, request: pytest.FixtureRequest, config: Config) -> list[Subject]:
        """The plugins of the nearest folder with a `pyproject.toml`."""
        for folder in request.path.parents:
            if (folder / "pyproject.toml").is_file():
                return [Subject(one, config) for one in packages(str(folder))]
        raise PackageError(f"{request.path.name} stands in no project.", "Put it beside a pyproject.toml.")

    @pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
    def test_the_plugin(self, subjects: list[Subject], check: Callable[[Subject], Iterator[str]]) -> None:
        """What is found of each plugin of the project is nothing."""
        found = [f"{one.package.name}: {text}" for one in subjects for text in check(one)]
        assert found == []

    def test_its_commands_take_or_refuse_whatever_is_typed(
        self, subjects: list[Subject], config: Config, tmp_path: Path
    ) -> None:
        """No handler fails, or answers with nothing in a text, at arguments that its signature lets through."""
        found = [
            f"{one.package.name}: {finding.text}"
            for one in subjects
            for finding in tried(Hermes(tmp_path / one.package.name), one, config, self.untried)
        ]
        assert found == []
