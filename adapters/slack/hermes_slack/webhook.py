"""Webhook: what Slack sends to our own server: the signature first (X3), then what the body says."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import msgspec
from slack_bolt.app.async_app import AsyncApp

from hermes_core.route import Problem, Request, Response
from hermes_slack.app import dispatch
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


def read(headers: Headers, body: bytes) -> dict[str, Any]:
    """The payload of a verified request, of the shape that Socket Mode delivers; `Problem` for what is none."""
    kind = next(iter(headers.get("content-type", ())), "")
    try:
        if not kind.startswith("application/x-www-form-urlencoded"):
            return msgspec.json.decode(body, type=dict[str, Any])
        fields = parse_qs(body.decode(), keep_blank_values=True)
        form: dict[str, Any] = {name: values[0] for name, values in fields.items()}
        return msgspec.json.decode(form["payload"], type=dict[str, Any]) if "payload" in form else form
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise Problem(400, "The body cannot be read.") from error


async def answer(request: Request, secret: str, app: AsyncApp | None, now: float) -> Response:
    """Answer one request. It is taken once the message is kept: Slack gets its 200 after the commit (D1).

    503 where the disk does not take it: Slack delivers again (D7).
    """
    if not verified(secret, request.headers, request.body, now):
        raise Problem(401, "The signature is missing, wrong or too old.")
    payload = read(request.headers, request.body)
    if app is None:
        raise Problem(503, "The agent is not connected yet.", headers={"Retry-After": "5"})
    given = await dispatch(app, payload)
    if given.status != 200:
        raise Problem(503, "This cannot be kept at the moment.", headers={"Retry-After": "5"})
    kind = next(iter(given.headers.get("content-type", ())), "text/plain; charset=utf-8")
    return Response(200, given.body.encode(), {"Content-Type": kind})
