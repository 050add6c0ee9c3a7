"""Document: the calls of the Job API as OpenAPI operations; `tests/http` holds them against a real server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hermes_core.job import JobState

__all__ = ["RESULT", "START", "STATUS", "STOP"]

_Node = Mapping[str, Any]

_STATE: Final[_Node] = {"type": "string", "enum": [state.value for state in JobState]}
_MOMENT: Final[_Node] = {"type": ["string", "null"], "format": "date-time"}
_ID: Final[_Node] = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "minLength": 1},
}
_KEY: Final[_Node] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "A text of the caller's own that names this start, bare or as a quoted string. "
    "The same key with the same body gives the same job.",
    # without a type: every text is one, also what looks like a number or a list
    "schema": {"pattern": r'^([!#-+\--~]{1,255}|"([ !#-\[\]-~]|\\["\\]){1,253}")$'},
}
_CURSOR: Final[_Node] = {
    "name": "cursor",
    "in": "query",
    "description": "Where to read on: `next_cursor` of the page before; 0 or nothing is the beginning. "
    "With a cursor also what the job put out before its end, or before it was stopped.",
    "schema": {"type": "string", "pattern": "^[0-9]{0,18}$"},
}
_KNOWN: Final[_Node] = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The ETag of an earlier answer; anything else is as good as nothing.",
    "schema": {},
}
_LOCATION: Final[_Node] = {"description": "Where to look at the job.", "schema": {"type": "string"}}
_RETRY: Final[_Node] = {
    "description": "Seconds after which to look again; while the job has not ended.",
    "schema": {"type": "integer"},
}


def _object(properties: _Node, optional: tuple[str, ...] = (), **more: Any) -> _Node:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties, **more}


def _answer(description: str, schema: _Node, **headers: _Node) -> _Node:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "description": description,
        "headers": given,
        "content": {"application/json": {"schema": schema}},
    }


def _problem(description: str, **headers: _Node) -> _Node:
    return {
        "description": description,
        "headers": {name.replace("_", "-"): value for name, value in headers.items()},
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


_UNKNOWN: Final = _problem("There is no such job.")
_ACCEPTED: Final = _object({"job_id": {"type": "string"}, "status": _STATE})
_BODY: Final = _object(
    {
        "tool": {
            "type": "string",
            "minLength": 1,
            "maxLength": 64,
            "description": "The async tool, without `start_`.",
        },
        "arguments": {"type": "object", "default": {}},
        "deadline": {
            "description": 'Time after which the job is stopped: "30m", "1h30m", or seconds.',
            "anyOf": [
                {"type": "string", "pattern": "^[1-9][0-9]{0,4}[smh]?$"},
                {"type": "number", "exclusiveMinimum": 0, "maximum": 31622400},
                {"type": "null"},
            ],
            "default": None,
        },
        "depends_on": {
            "description": "Ids of jobs that must be done before this one begins.",
            "type": "array",
            "maxItems": 100,
            "items": {"type": "string", "minLength": 1, "maxLength": 64},
            "default": [],
        },
        "callback_url": {
            "description": "Is called once the job has ended, signed as Standard Webhooks say.",
            "type": ["string", "null"],
            "format": "uri",
            "maxLength": 2048,
            "default": None,
        },
    },
    ("arguments", "deadline", "depends_on", "callback_url"),
    additionalProperties=False,
)
_JOB: Final = _object(
    {
        "job_id": {"type": "string"},
        "tool": {"type": "string"},
        "status": _STATE,
        "progress": _object(
            {
                "fraction": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
                "text": {"type": "string"},
            }
        ),
        "summary": {"type": "string", "description": "One line about how it ended."},
        "depends_on": {"type": "array", "items": {"type": "string"}},
        "stop_requested": {"type": "boolean"},
        "runs": {"type": "integer", "description": "How often it was begun: more than once after restarts."},
        "created_at": {"type": "string", "format": "date-time"},
        "started_at": _MOMENT,
        "ended_at": _MOMENT,
        "deadline_at": {"type": "string", "format": "date-time"},
        "output_removed_at": _MOMENT,
    }
)
_PAGE: Final = _object(
    {
        "job_id": {"type": "string"},
        "status": _STATE,
        "output": {"type": "string"},
        "next_cursor": {"type": "string"},
        "more": {"type": "boolean", "description": "There is more to read at once."},
        "cut_bytes": {"type": "integer", "description": "Bytes of the output that were not kept."},
    }
)

_EXAMPLE: Final = {"tool": "command", "arguments": {"command": "echo hello"}, "deadline": "30m"}

START: Final[_Node] = {
    "operationId": "startJob",
    "summary": "Start a job, or find the one with the same key.",
    "parameters": [_KEY],
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": _BODY, "example": _EXAMPLE}},
    },
    "responses": {
        "202": {
            **_answer(
                "The job is kept, and will be done.", _ACCEPTED, Location=_LOCATION, Retry_After=_RETRY
            ),
            "links": {
                name: {"operationId": name, "parameters": {"id": "$response.body#/job_id"}}
                for name in ("getJob", "getJobResult", "stopJob")
            },
        },
        "400": _problem("No key, or no JSON."),
        "409": _problem("The first request with this key is being accepted.", Retry_After=_RETRY),
        "413": _problem("The body is too large."),
        "415": _problem("The body is no JSON."),
        "422": _problem("The body does not fit, or the key belongs to another body."),
    },
}
STATUS: Final[_Node] = {
    "operationId": "getJob",
    "summary": "A job as it stands.",
    "parameters": [_ID, _KNOWN],
    "responses": {
        "200": _answer("The job.", _JOB, ETag={"schema": {"type": "string"}}, Retry_After=_RETRY),
        "304": {"description": "It is as it was."},
        "404": _UNKNOWN,
    },
}
RESULT: Final[_Node] = {
    "operationId": "getJobResult",
    "summary": "Its output, a page at a time.",
    "parameters": [_ID, _CURSOR],
    "responses": {
        "200": _answer("A page.", _PAGE, Retry_After=_RETRY),
        "404": _UNKNOWN,
        "409": _problem("It is not done, and nothing can be read yet or without a cursor."),
        "410": _problem("Its output was removed."),
        "422": _problem("No cursor of this server."),
    },
}
STOP: Final[_Node] = {
    "operationId": "stopJob",
    "summary": "Ask for its end.",
    "parameters": [_ID],
    "responses": {
        "202": _answer("It is asked for.", _ACCEPTED, Location=_LOCATION, Retry_After=_RETRY),
        "404": _UNKNOWN,
        "409": _problem("It has ended; `job_status` says how."),
    },
}
