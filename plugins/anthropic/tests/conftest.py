"""Real servers for the model: our own scripted one, and llmock as a process of its own."""

from __future__ import annotations

from hermes_anthropic.model import open_model
from hermes_httpmodel.fixtures import llmock_process, mock, opening, server

__all__ = ["llmock_process", "mock", "open_", "server"]

open_ = opening("anthropic", open_model)
