"""Push: how the fake Slack delivers over HTTP: signed, as JSON or as a form, with the headers of a retry."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

import aiohttp

from hermes_core.testing.platforms.slack_rules import form

__all__ = ["pushed", "signed"]

FORM = "application/x-www-form-urlencoded"


def signed(secret: str, body: bytes, at: float | None, kind: str) -> dict[str, str]:
    """The headers of a signed request."""
    stamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256)
    return {
        "content-type": kind,
        "x-slack-request-timestamp": stamp,
        "x-slack-signature": f"v0={digest.hexdigest()}",
    }


async def pushed(url: str, secret: str, envelope: Mapping[str, Any]) -> bool:
    """Deliver what would be this envelope over Socket Mode; whether it was acknowledged (200 within 3 s)."""
    payload = envelope["payload"]
    match envelope["type"]:
        case "events_api":
            body, kind = json.dumps(payload).encode(), "application/json"
        case "interactive":
            body, kind = form({"payload": json.dumps(payload)}), FORM
        case _:
            body, kind = form(payload), FORM
    headers = signed(secret, body, None, kind)
    if "retry_attempt" in envelope:
        headers["x-slack-retry-num"] = str(envelope["retry_attempt"])
        headers["x-slack-retry-reason"] = str(envelope["retry_reason"])
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3.0)) as session,
            session.post(url, data=body, headers=headers) as response,
        ):
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
