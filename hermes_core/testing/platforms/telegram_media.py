"""What the Bot API makes of a file that a bot sends, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hermes_core.testing.platforms.telegram_rules import Refusal, check_text
from hermes_core.testing.platforms.telegram_wire import Upload

__all__ = ["MAX_DOWNLOAD", "MAX_UPLOAD", "checked_caption", "content"]

MAX_DOWNLOAD: Final = 20 * 1024 * 1024
MAX_UPLOAD: Final = 50 * 1024 * 1024
MAX_CAPTION: Final = 1024
MAX_PHOTO: Final = 10 * 1024 * 1024
_PICTURES: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF")


def content(kind: str, parameters: Mapping[str, Any], file_id: str, largest: int) -> dict[str, Any]:
    """The fields of a message with this "photo" or "document"; `Refusal` for one that is not taken."""
    upload = parameters.get(kind)
    if not isinstance(upload, Upload):
        raise Refusal(400, f"Bad Request: there is no {kind} in the request")
    size = len(upload.content)
    if size > largest:
        raise Refusal(413, "Request Entity Too Large")
    if size == 0:
        raise Refusal(400, "Bad Request: file must be non-empty")
    kept: dict[str, Any] = {"file_id": file_id, "file_unique_id": file_id, "file_size": size}
    if kind == "photo":
        if size > MAX_PHOTO:
            raise Refusal(400, "Bad Request: file is too big for a photo")
        if not upload.content.startswith(_PICTURES):
            raise Refusal(400, "Bad Request: IMAGE_PROCESS_FAILED")
        fields: dict[str, Any] = {"photo": [{**kept, "width": 90, "height": 90}]}
    else:
        fields = {"document": {**kept, "file_name": upload.name, "mime_type": upload.media_type}}
    caption, entities = checked_caption(parameters)
    if caption:
        fields |= {"caption": caption, "caption_entities": entities}
    return fields


def checked_caption(parameters: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Caption and entities as they are kept; a file may have none."""
    caption = parameters.get("caption")
    if not caption:
        return "", []
    if len(caption) > MAX_CAPTION:
        raise Refusal(400, "Bad Request: message caption is too long")
    return check_text(caption, parameters.get("caption_entities"))
