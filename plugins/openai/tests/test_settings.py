"""What `[model]` must say for this provider, and that nothing heavy is loaded before."""

from __future__ import annotations

from hermes_httpmodel.settings_contract import SettingsContract
from hermes_openai.model import OpenAIModel
from hermes_openai.plugin import OpenAIPlugin


class TestSettings(SettingsContract):
    provider = "openai"
    variable = "OPENAI_API_KEY"
    module = "hermes_openai.plugin"
    plugin = OpenAIPlugin
    model = OpenAIModel
