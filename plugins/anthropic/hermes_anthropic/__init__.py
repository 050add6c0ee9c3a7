"""Hermes plugin: models behind the Anthropic Messages API."""
