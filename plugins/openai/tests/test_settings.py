"""What `[model]` must say for this provider, and that nothing heavy is loaded before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hermes_core.config import ModelSettings, Secrets
from hermes_core.errors import ConfigError
from hermes_core.models import ModelFactory
from hermes_openai.model import OpenAIModel, open_model
from hermes_openai.plugin import OpenAIPlugin


def settings(
    name: str = "m", base_url: str = "", key: str = "", timeout: float = 1.0, **environ: str
) -> ModelSettings:
    """Settings as `[model]` would give them in this environment."""
    return ModelSettings("openai", name, base_url, key, timeout, secrets=Secrets(environ))


def test_the_plugin_offers_the_provider_openai() -> None:
    (factory,) = OpenAIPlugin().hermes_models()
    assert isinstance(factory, ModelFactory)
    assert factory.provider == "openai"
    assert isinstance(factory.open(settings(base_url="http://127.0.0.1:1/v1")), OpenAIModel)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param(settings(name=" ", base_url="http://h/v1"), r"\[model\] name", id="no name"),
        pytest.param(settings(), "OPENAI_API_KEY is not set", id="OpenAI without a key"),
        pytest.param(settings(key="MINE"), "MINE", id="a key that is named and not set"),
        pytest.param(settings(base_url="127.0.0.1:80"), r"\[model\] base_url", id="no scheme"),
        pytest.param(settings(base_url="http://"), r"\[model\] base_url", id="no host"),
        pytest.param(settings(base_url="http://h:port/v1"), r"\[model\] base_url", id="no address"),
        pytest.param(settings(base_url="ftp://h/v1"), r"\[model\] base_url", id="another scheme"),
        pytest.param(settings(base_url="http://h", timeout=0.0), r"\[model\] timeout", id="no time"),
        pytest.param(settings(key="MINE", MINE="a b"), "holds no API key", id="a key of two words"),
        pytest.param(
            settings(key="MINE", MINE="ключ"), "holds no API key", id="a key that no header can hold"
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(given: ModelSettings, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        open_model(given)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(settings(OPENAI_API_KEY="k"), id="OpenAI with its own variable"),
        pytest.param(settings(key="MINE", MINE="k"), id="OpenAI with another variable"),
        pytest.param(settings(base_url="http://h/v1/"), id="a server that wants no key"),
        pytest.param(settings(base_url="https://h/v1", key="MINE", MINE="k"), id="a server that wants one"),
    ],
)
def test_what_is_enough_is_enough(given: ModelSettings) -> None:
    assert isinstance(open_model(given), OpenAIModel)


def test_loading_the_plugin_does_not_load_httpx() -> None:
    code = "import sys, hermes_openai.plugin; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
