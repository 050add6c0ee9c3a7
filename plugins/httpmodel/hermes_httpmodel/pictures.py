"""The pictures of a request: read from the files of its conversation, and bounded."""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from typing import Final, TypeAlias

from hermes_core.errors import HermesError
from hermes_core.file import IMAGES
from hermes_core.messages import Attachment, Said
from hermes_core.models import Request

__all__ = ["Pictures", "pictures"]

log = logging.getLogger("hermes.model")

LARGEST: Final = 3_700_000  # bytes: Anthropic takes 5 MB in base64, the smallest limit of the known providers
MOST: Final = 20  # pictures in one request: the newest ones; OpenAI and Anthropic take more

Pictures: TypeAlias = Mapping[Attachment, str]
"""What is to be shown, in base64. A picture that is not in it stands in the text by its name only."""


async def pictures(request: Request) -> Pictures:
    """The newest pictures of the request that can be had; what cannot be had is logged and left out."""
    found: dict[Attachment, str] = {}
    attached = [one for item in request.items if isinstance(item, Said) for one in item.attachments]
    for one in reversed(attached):
        if len(found) == MOST:
            break
        if one.media_type not in IMAGES or one in found or (one.size or 0) > LARGEST:
            continue
        try:
            content = await request.files.read(one)
        except HermesError as error:
            log.warning("a picture is not shown to the model: %s", error)
            continue
        if len(content) <= LARGEST:
            found[one] = base64.b64encode(content).decode()
    return found
