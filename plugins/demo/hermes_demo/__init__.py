"""Hermes plugin: an offline stand-in for a model, so that everything can be tried without a key."""
