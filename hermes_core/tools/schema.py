"""Schema: from typed parameters to one plain JSON Schema object, and from a docstring to its texts."""

from __future__ import annotations

import inspect
import re
from typing import Annotated, Any, Final

import msgspec

from hermes_core.errors import HermesError

__all__ = ["arguments_type", "read_docstring", "schema_of"]

_SECTION: Final = re.compile(r"(?:Args|Arguments|Parameters):\s*$")
_ARGUMENT: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_REFERENCE: Final = "#/$defs/{name}"


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Description and parameter texts of a Google style docstring.

    The section `Args:` gives the texts, each a line `name: text` with deeper continuation lines;
    everything else is the description.
    """
    kept: list[str] = []
    texts: dict[str, str] = {}
    lines = inspect.cleandoc(text).splitlines()
    index = 0
    while index < len(lines):
        if not _SECTION.match(lines[index]):
            kept.append(lines[index])
            index += 1
            continue
        index += 1
        section: list[str] = []
        while index < len(lines) and (not lines[index].strip() or lines[index].startswith((" ", "\t"))):
            section.append(lines[index])
            index += 1
        texts.update(_arguments(section))
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return description, texts


def _arguments(section: list[str]) -> dict[str, str]:
    lines = inspect.cleandoc("\n".join(section)).splitlines()
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        match = None if line.startswith((" ", "\t")) else _ARGUMENT.match(line)
        if match:
            current = found.setdefault(match[1], [])
            current.append(match[2])
        else:
            current.append(line.strip())
    return {name: " ".join(filter(None, words)) for name, words in found.items()}


def arguments_type(
    name: str, parameters: list[tuple[str, Any, Any]], texts: dict[str, str]
) -> type[msgspec.Struct]:
    """A struct that takes exactly these arguments: triples of name, annotation and default.

    A default of `inspect.Parameter.empty` marks an argument that must be given.
    """
    fields: list[Any] = []
    for key, kind, default in parameters:
        typed = Annotated[kind, msgspec.Meta(description=texts[key])] if texts.get(key) else kind
        fields.append((key, typed) if default is inspect.Parameter.empty else (key, typed, default))
    try:
        made = msgspec.defstruct(name, fields, forbid_unknown_fields=True, kw_only=True, frozen=True)
        schema_of(made)
    except (TypeError, ValueError, NameError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise HermesError(
            f"Tool {name!r}: {reason}",
            "Annotate its parameters with str, int, float, bool, Literal, list, dict, an enum or a msgspec Struct.",
        ) from error
    return made


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of `kind` without references, which not every provider follows.

    `HermesError` for a type that contains itself.
    """
    (root,), parts = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    schema: dict[str, Any] = _inline(root, parts, ())
    schema.pop("title", None)
    schema.setdefault("required", [])
    return schema


def _inline(node: Any, parts: dict[str, Any], path: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inline(one, parts, path) for one in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in path:
            raise HermesError(
                f"Tool {path[0]!r}: the type {name!r} contains itself.",
                "Take it as dict[str, Any] and check it there.",
            )
        rest = {key: value for key, value in node.items() if key != "$ref"}
        node = {**parts[name], **rest}
        path = (*path, name)
        node.pop("title", None)
        if "type" not in node and all(isinstance(one, str) for one in node.get("enum", [None])):
            node["type"] = "string"
    return {
        key: value if key in ("default", "enum", "const", "examples") else _inline(value, parts, path)
        for key, value in node.items()
    }
