"""The model against llmock, a server that somebody else wrote to break clients of this API."""

from __future__ import annotations

from typing import ClassVar

from hermes_httpmodel.llmock_contract import LlmockContract


class TestLlmock(LlmockContract):
    place: ClassVar[str] = "/v1"
    busy: ClassVar[dict[int, str]] = {503: "fault of its own"}
