"""Hermes in the terminal: an interactive chat, or one message per line over a pipe."""
