"""SettingsContract: what `[model]` must say for a provider, what it must not, and what is not loaded before, as tests.

    class TestSettings(SettingsContract):
        provider = "openai"
        variable = "OPENAI_API_KEY"
        ...

Nothing in the package imports this.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeAlias

import pytest

from hermes_core.config import ModelSettings, Secrets
from hermes_core.errors import ConfigError
from hermes_core.models import Model, ModelFactory

__all__ = ["SettingsContract", "Wrong"]

Wrong: TypeAlias = "tuple[ModelSettings, str]"
"""Settings, and what the error says of them."""


class SettingsContract:
    """Set the class variables.

    `plugin` makes the plugin, in the module `module`; `model` is what it opens. `variable` holds the key of the
    provider's own server, which wants one.
    """

    provider: ClassVar[str]
    variable: ClassVar[str]
    module: ClassVar[str]
    plugin: ClassVar[Callable[[], Any]]
    model: ClassVar[type[Model]]

    @classmethod
    def given(
        cls, name: str = "m", base_url: str = "", key: str = "", timeout: float = 1.0, **environ: str
    ) -> ModelSettings:
        """Settings as `[model]` would give them in this environment."""
        return ModelSettings(cls.provider, name, base_url, key, timeout, secrets=Secrets(environ))

    def opened(self, settings: ModelSettings) -> Model:
        """The model for these settings."""
        (factory,) = type(self).plugin().hermes_models()
        assert isinstance(factory, ModelFactory)
        assert factory.provider == self.provider
        return factory.open(settings)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Every setting is a case of its own."""
        if "said" in metafunc.fixturenames:
            cases = dict(self.wrong())
            metafunc.parametrize(("settings", "said"), cases.values(), ids=cases)
        elif "settings" in metafunc.fixturenames:
            enough = dict(self.enough())
            metafunc.parametrize("settings", enough.values(), ids=enough)

    def wrong(self) -> Iterator[tuple[str, Wrong]]:
        """Names and cases of settings that cannot be; a provider adds its own."""
        given, url = self.given, r"\[model\] base_url"
        yield "no name", (given(name=" ", base_url="http://h/v1"), r"\[model\] name")
        yield "without a key", (given(), self.variable)
        yield "a key that is named and not set", (given(key="MINE"), "MINE")
        yield "no scheme", (given(base_url="127.0.0.1:80"), url)
        yield "no host", (given(base_url="http://"), url)
        yield "no address", (given(base_url="http://h:port/v1"), url)
        yield "another scheme", (given(base_url="ftp://h/v1"), url)
        yield "no time", (given(base_url="http://h", timeout=0.0), r"\[model\] timeout")
        yield "a key of two words", (given(key="MINE", MINE="a b"), "holds no API key")
        yield "a key that no header can hold", (given(key="MINE", MINE="ключ"), "holds no API key")

    def enough(self) -> Iterator[tuple[str, ModelSettings]]:
        """Names and settings that will do."""
        given = self.given
        environ: dict[str, Any] = {self.variable: "k"}
        yield "the provider with its own variable", given(**environ)
        yield "the provider with another variable", given(key="MINE", MINE="k")
        yield "a server that wants no key", given(base_url="http://h/v1/")
        yield "a server that wants one", given(base_url="https://h/v1", key="MINE", MINE="k")

    def test_the_plugin_offers_its_provider(self) -> None:
        assert isinstance(self.opened(self.given(base_url="http://127.0.0.1:1/v1")), self.model)

    def test_what_is_missing_or_wrong_is_named(self, settings: ModelSettings, said: str) -> None:
        with pytest.raises(ConfigError, match=said):
            self.opened(settings)

    def test_what_is_enough_is_enough(self, settings: ModelSettings) -> None:
        assert isinstance(self.opened(settings), self.model)

    def test_loading_the_plugin_does_not_load_httpx(self) -> None:
        code = f"import sys, {self.module}; sys.exit('httpx' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
