"""Hermes: one agent on several chat platforms, and nothing that people write is lost.

The package is a house of floors; a module imports only from floors below its own
(`docs/explanation/the-house.md` draws them). Start with `messages` for the values,
`inbox` for the one idea, and `hookspecs` for what a plugin can do.
"""

__version__ = "0.1.0"
