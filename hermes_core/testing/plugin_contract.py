"""PluginContract: the suite that decides whether a plugin is right (P5).

    from hermes_core.testing.plugin_contract import PluginContract

    class TestContract(PluginContract):
        pass

It is about the project in which the test stands. The fixture `config` may give the settings that the
plugin needs; the checks are those of `hermes_core.testing.review`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hermes_core.config import Config
from hermes_core.errors import PackageError
from hermes_core.testing.package import packages
from hermes_core.testing.review import CHECKS, Subject

__all__ = ["PluginContract"]


class PluginContract:
    """Every check is a test; what it finds is the reason of its failure."""

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
