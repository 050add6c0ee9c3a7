"""Document: the OpenAPI description of what is served, made of the routes that serve it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import hermes_core
from hermes_core.route import Route

__all__ = ["describe"]

_PROBLEM: Final = {
    "type": "object",
    "description": "RFC 9457. Further members say more about some problems.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
_ANY_PROBLEM: Final = {
    "description": "What is wrong, and what to do.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def describe(routes: Iterable[Route], *, token: bool) -> dict[str, Any]:
    """The document; `token`: callers must send one."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if not route.operation:
            continue
        operation = dict(route.operation)
        operation["responses"] = {**operation.get("responses", {}), "default": _ANY_PROBLEM}
        if token and not route.open:
            operation["security"] = [{"token": []}]
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    components: dict[str, Any] = {"schemas": {"Problem": _PROBLEM}}
    if token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hermes", "version": hermes_core.__version__},
        "paths": paths,
        "components": components,
    }
