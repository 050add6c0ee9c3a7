"""Fixtures: the pytest plugin `hermes`, there where Hermes is installed. It loads nothing until it is used.

    async def test_it(hermes):
        assert await hermes("/greet Ada") == "Hello, Ada!"

`hermes` is a whole runtime around a platform and a model in memory, with the plugins of the project that
the test belongs to: those that its `pyproject.toml` names in the group `hermes`. A coroutine test that
asks for it runs in virtual time, so it needs no other plugin and waits for nothing. `@pytest.mark.hermes`
sets it up: `plugins=[…]` for others, `config={…}` with tables as in `hermes.toml`, `model=[…]` for what the
model says, `real_time=True` for tests with sockets, processes or threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hermes_core.testing.kit import Hermes

__all__ = ["hermes", "pytest_configure", "pytest_pyfunc_call", "recorded"]


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        "hermes(plugins=None, config=None, model=(), real_time=False): how the fixture `hermes` is set up",
    )


@pytest.fixture
def hermes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hermes]:
    """A runtime with the plugins of this project; `await hermes("text")` gives what is answered."""
    from hermes_core.testing.kit import Hermes, project_plugins

    mark = request.node.get_closest_marker("hermes")
    given = dict(mark.kwargs) if mark is not None else {}
    plugins = given.pop("plugins", None)
    made = Hermes(tmp_path, project_plugins(request.path) if plugins is None else plugins, **given)
    yield made
    assert not made.running, "the test ended, and `hermes` still runs: make the test a coroutine function"


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Callable[[str], Iterator[Any]]:
    """Gives the payloads of a recording by its name in the folder `recorded` beside the test."""
    from hermes_core.testing.recorded import payloads

    return lambda name: payloads(request.path.parent / "recorded" / name)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test that has our `hermes`: in virtual time, and with the runtime closed at its end."""
    used: Any = pyfuncitem.funcargs.get("hermes")
    if type(used).__module__ != "hermes_core.testing.kit":
        return None
    test = inspect.unwrap(pyfuncitem.obj)  # plugins for coroutines have wrapped it already
    if not inspect.iscoroutinefunction(test):
        return None
    if inspect.ismethod(pyfuncitem.obj) or (pyfuncitem.cls is not None and not inspect.ismethod(test)):
        test = test.__get__(pyfuncitem.instance)
    names = inspect.signature(test).parameters
    used.run(test(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
