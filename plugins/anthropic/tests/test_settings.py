"""What the config must say for this provider, and that nothing heavy is loaded before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hermes_anthropic.model import AnthropicModel, open_model
from hermes_anthropic.plugin import AnthropicPlugin, AnthropicSettings
from hermes_core.config import Config
from hermes_core.errors import ConfigError
from hermes_core.messages import Said, SaidKind
from hermes_core.models import Request
from hermes_core.testing.model_server import Answer, ModelServer, blocks
from hermes_httpmodel.settings_contract import SettingsContract, Wrong


def own(**table: Any) -> AnthropicSettings:
    """`[plugins.anthropic]` as it would be read."""
    return Config.of({"plugins": {"anthropic": table}}).section("plugins", "anthropic", AnthropicSettings)


class TestSettings(SettingsContract):
    provider = "anthropic"
    variable = "ANTHROPIC_API_KEY"
    module = "hermes_anthropic.plugin"
    model = AnthropicModel

    @staticmethod
    def plugin() -> AnthropicPlugin:
        return AnthropicPlugin(AnthropicSettings())

    def wrong(self) -> Iterator[tuple[str, Wrong]]:
        yield from super().wrong()
        written_out = self.given(base_url="https://api.anthropic.com/v1/")
        yield "the address written out", (written_out, "ANTHROPIC_API_KEY")
        yield "no name for Anthropic itself", (self.given(name="", ANTHROPIC_API_KEY="k"), "claude")
        yield "no key", (self.given(), "Anthropic wants an API key, and ANTHROPIC_API_KEY")


settings = TestSettings.given


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
