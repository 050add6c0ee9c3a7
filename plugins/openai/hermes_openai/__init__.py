"""Hermes plugin: models behind any server that speaks the OpenAI chat completions API."""
