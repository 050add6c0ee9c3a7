"""Real servers for the model: our own scripted one, and llmock as a process of its own."""

from __future__ import annotations

from hermes_httpmodel.fixtures import llmock_process, mock, opening, server
from hermes_openai.model import open_model

__all__ = ["llmock_process", "mock", "open_", "server"]

open_ = opening("openai", open_model)
