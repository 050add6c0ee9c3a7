"""Commands: what people type with a slash, from text to a checked call of a handler.

A registry is a dict; finding a command is one lookup and reading its
arguments is linear in their length. `/echofoo` is not `/echo`; `/ECHO@bot a` is `/echo a`.
"""

from __future__ import annotations

from hermes_core.commands.declare import Command, command
from hermes_core.commands.parameters import Rest
from hermes_core.commands.registry import Context, Registry
from hermes_core.commands.text import parse, words
from hermes_core.commands.view import ConversationView, Entered, Snapshot

__all__ = [
    "Command",
    "Context",
    "ConversationView",
    "Entered",
    "Registry",
    "Rest",
    "Snapshot",
    "command",
    "parse",
    "words",
]
