"""What the config must say for this provider, and that nothing heavy is loaded before."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from hermes_anthropic.model import AnthropicModel, open_model
from hermes_anthropic.plugin import AnthropicPlugin, AnthropicSettings
from hermes_core.config import Config, ModelSettings, Secrets
from hermes_core.errors import ConfigError
from hermes_core.messages import Said, SaidKind
from hermes_core.models import ModelFactory, Request
from hermes_core.testing.model_server import Answer, ModelServer, blocks


def settings(name: str = "m", base_url: str = "", key: str = "", **environ: str) -> ModelSettings:
    """Settings as `[model]` would give them in this environment."""
    return ModelSettings("anthropic", name, base_url, key, 1.0, secrets=Secrets(environ))


def own(**table: Any) -> AnthropicSettings:
    """`[plugins.anthropic]` as it would be read."""
    return Config.of({"plugins": {"anthropic": table}}).section("plugins", "anthropic", AnthropicSettings)


def test_the_plugin_offers_the_provider_anthropic() -> None:
    (factory,) = AnthropicPlugin(AnthropicSettings()).hermes_models()
    assert isinstance(factory, ModelFactory)
    assert factory.provider == "anthropic"
    assert isinstance(factory.open(settings(base_url="http://127.0.0.1:1")), AnthropicModel)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param(settings(), "Anthropic wants an API key, and ANTHROPIC_API_KEY", id="without a key"),
        pytest.param(
            settings(base_url="https://api.anthropic.com/v1/"), "ANTHROPIC_API_KEY", id="written out"
        ),
        pytest.param(settings(name="", ANTHROPIC_API_KEY="k"), "claude", id="no name"),
    ],
)
def test_what_is_missing_is_named(given: ModelSettings, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        open_model(given)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(settings(ANTHROPIC_API_KEY="k"), id="Anthropic with its own variable"),
        pytest.param(settings(key="MINE", MINE="k"), id="Anthropic with another variable"),
        pytest.param(settings(base_url="http://h"), id="a server that wants no key"),
    ],
)
def test_what_is_enough_is_enough(given: ModelSettings) -> None:
    assert isinstance(open_model(given), AnthropicModel)


async def test_the_key_of_anthropic_is_sent_to_no_other_server(server: ModelServer) -> None:
    server.script(Answer(blocks({"type": "text", "text": "a"})))
    model = open_model(settings(base_url=server.base_url, ANTHROPIC_API_KEY="k"))
    async for _ in model.stream(Request("", (Said(SaidKind.MESSAGE, "hello"),))):
        pass
    await model.aclose()
    assert "x-api-key" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("table", "sent"),
    [
        pytest.param({}, {"max_tokens": 8192}, id="defaults"),
        pytest.param({"max_tokens": 100}, {"max_tokens": 100}, id="max_tokens"),
        pytest.param(
            {"thinking_tokens": 1024},
            {"max_tokens": 8192, "thinking": {"type": "enabled", "budget_tokens": 1024}},
            id="thinking_tokens",
        ),
        pytest.param(
            {"adaptive_thinking": True},
            {"max_tokens": 8192, "thinking": {"type": "adaptive"}},
            id="adaptive_thinking",
        ),
    ],
)
async def test_the_settings_of_the_plugin_are_sent(
    server: ModelServer, table: dict[str, Any], sent: dict[str, Any]
) -> None:
    server.script(Answer(blocks({"type": "text", "text": "a"})))
    (factory,) = AnthropicPlugin(own(**table)).hermes_models()
    model = factory.open(settings(base_url=server.base_url))
    async for _ in model.stream(Request("", (Said(SaidKind.MESSAGE, "hello"),))):
        pass
    await model.aclose()
    body = server.requests[0].body
    assert {key: body[key] for key in ("max_tokens", "thinking") if key in body} == sent


@pytest.mark.parametrize(
    ("table", "text"),
    [
        pytest.param({"max_tokens": 0}, "max_tokens", id="no tokens at all"),
        pytest.param({"thinking_tokens": 1000}, "at least 1024", id="less than the API takes"),
        pytest.param({"thinking_tokens": 8192}, "less than max_tokens", id="nothing left for the answer"),
        pytest.param({"thinking_tokens": 2000, "adaptive_thinking": True}, "not both", id="both"),
        pytest.param({"thinking": True}, "thinking_tokens", id="unknown"),
    ],
)
def test_settings_that_cannot_be_are_named(table: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        own(**table)


def test_loading_the_plugin_does_not_load_httpx() -> None:
    code = "import sys, hermes_anthropic.plugin; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
