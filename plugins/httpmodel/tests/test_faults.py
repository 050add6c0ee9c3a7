"""Statuses and headers of a model server, in words for people (X2: nothing of the server's leaks)."""

from __future__ import annotations

import json
import re

import pytest

from hermes_httpmodel.faults import refused, retry_after

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"retry-after": "3"}, 3.0, id="seconds"),
        pytest.param({"retry-after": "0.5"}, 0.5, id="a fraction"),
        pytest.param({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0, id="a date"),
        pytest.param({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, 0.0, id="a date that is over"),
        pytest.param({"retry-after-ms": "250", "retry-after": "3"}, 0.25, id="milliseconds"),
        pytest.param({"retry-after": "-1"}, None, id="negative"),
        pytest.param({"retry-after": "nan"}, None, id="no number"),
        pytest.param({"retry-after": "inf"}, None, id="for ever"),
        pytest.param({"retry-after": "soon"}, None, id="a word"),
        pytest.param({"retry-after": ""}, None, id="empty"),
    ],
)
def test_what_a_server_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("status", "code", "message", "text", "retryable"),
    [
        pytest.param(400, None, "boom", r"refused the request \(status 400\)", False, id="400"),
        pytest.param(
            400, "context_length_exceeded", "boom", "too long for the model.*/new", False, id="long by code"
        ),
        pytest.param(400, None, "boom: the available context size", "too long", False, id="long by message"),
        pytest.param(
            400, None, "boom: name is too long", "refused the request", False, id="another thing too long"
        ),
        pytest.param(401, None, "boom", "API key.*api_key_env", False, id="401"),
        pytest.param(402, None, "boom", "no credit", False, id="402"),
        pytest.param(403, None, "boom", "API key", False, id="403"),
        pytest.param(404, None, "boom", "^The model server does not know this model", False, id="404"),
        pytest.param(408, None, "boom", "too much to do", True, id="408"),
        pytest.param(413, None, "boom", "too long for the model", False, id="413"),
        pytest.param(422, None, "boom", "refused the request", False, id="422"),
        pytest.param(429, None, "boom", "too much to do", True, id="429"),
        pytest.param(429, "insufficient_quota", "boom", "no credit", False, id="429 without credit"),
        pytest.param(500, None, "boom", "fault of its own", True, id="500"),
        pytest.param(503, None, "boom", "fault of its own", True, id="503"),
        pytest.param(529, None, "boom", "fault of its own", True, id="529"),
        pytest.param(529, "overloaded_error", "boom", "too much to do", True, id="529 overloaded"),
        pytest.param(
            400, None, "boom: your credit balance is too low", "no credit", False, id="400 without credit"
        ),
        pytest.param(301, None, "boom", "another address", False, id="301"),
    ],
)
def test_each_status_says_what_it_means(
    status: int, code: str | None, message: str, text: str, retryable: bool
) -> None:
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    error = refused(status, {}, body, "http://host/v1 for model 'm'", NOW)
    shown = str(error)
    assert re.search(text, shown)
    assert error.retryable is retryable
    assert "boom" not in shown
    assert "host" not in shown
    assert f"status {status} from http://host/v1 for model 'm'" in str(error.__cause__)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"<html>", id="html"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'{"error": "boom"}', id="text"),
        pytest.param(b'{"error": null}', id="null"),
        pytest.param(b'{"detail": [1]}', id="detail"),
        pytest.param(b'{"error": {"message": null}}', id="no message"),
    ],
)
def test_a_body_of_any_form_is_no_trouble(body: bytes) -> None:
    assert refused(500, {"retry-after": "2"}, body, "x", NOW).retry_after == 2.0


def test_what_a_server_says_about_a_key_is_not_even_the_cause() -> None:
    error = refused(401, {}, b'{"error": {"message": "Incorrect API key: sk-abc"}}', "x", NOW)
    assert "sk-abc" not in str(error)
    assert "sk-abc" not in str(error.__cause__)
