"""Webhook: what Slack sends to our own server: the signature first (X3), then what the body says."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import msgspec

from hermes_core.route import Problem, Request, Response, json_response
from hermes_slack.intake import Intake
from hermes_slack.limits import SIGNATURE_WINDOW

__all__ = ["answer", "read", "verified"]

Headers = Mapping[str, Sequence[str]]


def verified(secret: str, headers: Headers, body: bytes, now: float) -> bool:
    """Whether Slack signed exactly this body, within the last five minutes. Takes the same time for any answer.

    `headers` have names in lower case and every value; one that is there twice is not trusted.
    """
    stamps = headers.get("x-slack-request-timestamp", ())
    signatures = headers.get("x-slack-signature", ())
    if len(stamps) != 1 or len(signatures) != 1:
        return False
    stamp = stamps[0]
    if not (stamp.isascii() and stamp.isdecimal() and len(stamp) < 16):
        return False
    expected = "v0=" + hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    fits = hmac.compare_digest(expected.encode(), signatures[0].encode("utf-8", "replace"))
    return fits and abs(now - int(stamp)) <= SIGNATURE_WINDOW


def read(headers: Headers, body: bytes) -> tuple[str, dict[str, Any]]:
    """The kind of a verified request, as Socket Mode names it, and its payload; `Problem` for what is neither."""
    kind = next(iter(headers.get("content-type", ())), "")
    try:
        if kind.startswith("application/x-www-form-urlencoded"):
            form = {
                name: values[0] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()
            }
            if "payload" in form:
                return "interactive", msgspec.json.decode(form["payload"], type=dict[str, Any])
            return ("slash_commands" if "command" in form else "unknown"), dict(form)
        payload = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, ValueError) as error:
        raise Problem(400, "The body cannot be read.") from error
    if payload.get("type") == "url_verification":
        return "url_verification", payload
    return "events_api", payload


async def answer(request: Request, secret: str, intake: Intake | None, now: float) -> Response:
    """Answer one request. It is taken once the message is kept: Slack gets its 200 after the commit (D1).

    `StoreError` comes through: the server says 503, and Slack delivers again (D7).
    """
    if not verified(secret, request.headers, request.body, now):
        raise Problem(401, "The signature is missing, wrong or too old.")
    kind, payload = read(request.headers, request.body)
    if kind == "url_verification":
        return json_response(200, {"challenge": str(payload.get("challenge", ""))})
    if intake is None:
        raise Problem(503, "The agent is not connected yet.", headers={"Retry-After": "5"})
    kept = asyncio.Event()
    await intake.take(kind, payload, kept.set)
    return Response(200)
