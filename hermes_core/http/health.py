"""Health: whether the server answers, and how each platform stands; open, so it says no more than that."""

from __future__ import annotations

from typing import Any, Final

from hermes_core.route import Request, Response, Route, json_response
from hermes_core.runtime import Runtime

__all__ = ["route"]

_STATES: Final = ["connecting", "up", "silent", "quiet", "down", "ended"]


def route(runtime: Runtime) -> Route:
    """`GET /health`: 200 whenever it is answered; `status` is "degraded" while a platform is not well (case 43)."""

    async def answer(request: Request) -> Response:
        pulses = runtime.services.pulses.values()
        told: dict[str, Any] = {"status": "ok" if all(pulse.well for pulse in pulses) else "degraded"}
        if pulses:
            told["platforms"] = {pulse.name: pulse.state for pulse in pulses}
        return json_response(200, told)

    return Route("GET", "/health", answer, _OPERATION, open=True)


_OPERATION: Final = {
    "operationId": "health",
    "summary": "Whether the server answers, and how each platform stands.",
    "responses": {
        "200": {
            "description": "It does.",
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["status"],
                        "properties": {
                            "status": {"enum": ["ok", "degraded"]},
                            "platforms": {
                                "type": "object",
                                "additionalProperties": {"enum": _STATES},
                            },
                        },
                    }
                }
            },
        }
    },
}
