"""Texts on their way to a platform: drafts that grow and become replies, their order, and what outlives a crash.

An adapter says how its texts look and makes the calls; everything in between is here, the same for every platform.
"""

from __future__ import annotations

from hermes_core.writing.journal import Draft, Journal
from hermes_core.writing.room import Writing
from hermes_core.writing.values import Calls, Content, Doubt, Find, Gone, Place, Say, Style

__all__ = [
    "Calls",
    "Content",
    "Doubt",
    "Draft",
    "Find",
    "Gone",
    "Journal",
    "Place",
    "Say",
    "Style",
    "Writing",
]
