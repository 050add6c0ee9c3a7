"""Answers a frequent question without asking the model: quick, free, and the same every time."""

import msgspec

from hermes_core.hookspecs import Answer, hookimpl
from hermes_core.messages import Entry


class CatchAllSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[plugins.catch_all]`: the words that must all be in a message, and what is answered then."""

    words: tuple[str, ...] = ("opening", "hours")
    answer: str = "We are open from nine to five, Monday to Friday."


class CatchAllPlugin:
    Settings = CatchAllSettings

    def __init__(self, settings: CatchAllSettings) -> None:
        self.settings = settings

    @hookimpl
    def hermes_message(self, entry: Entry) -> Answer | None:
        text = entry.text.lower()
        return Answer(self.settings.answer) if all(word in text for word in self.settings.words) else None
