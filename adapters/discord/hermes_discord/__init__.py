"""Hermes on Discord."""
