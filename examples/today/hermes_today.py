"""Tells the model what day it is: at the start of a conversation, and when the day has changed."""

import datetime
from collections.abc import Callable

from hermes_core.hookspecs import Injection, hookimpl
from hermes_core.messages import Said


class TodayPlugin:
    def __init__(self, today: Callable[[], datetime.date] = datetime.date.today) -> None:
        self._today = today

    @hookimpl
    def hermes_injections(self, past: tuple[Said, ...]) -> list[Injection]:
        text = f"Today is {self._today():%A, %d %B %Y}."
        told = [one.text for one in past if one.author == "Date"]
        return [] if told[-1:] == [text] else [Injection("Date", text)]
