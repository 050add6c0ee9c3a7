"""One environment for all tests here, emptied for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .world import World


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    yield shared_world
    shared_world.clear()
