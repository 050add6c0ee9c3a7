"""Wheels: what a wheel says about itself, read without installing it."""

from __future__ import annotations

import configparser
import email.parser
import zipfile
from pathlib import Path

import msgspec

from hermes_core.errors import PackageError

__all__ = ["Wheel", "read_wheel"]


class Wheel(msgspec.Struct, frozen=True):
    """Name, version, requirements, and the names of the entry points in the group `hermes`."""

    file: Path
    name: str
    version: str
    requires: tuple[str, ...]
    plugins: tuple[str, ...]


def read_wheel(file: Path) -> Wheel:
    """`PackageError` for a file that is none."""
    try:
        with zipfile.ZipFile(file) as archive:
            infos = [one for one in archive.namelist() if one.count("/") == 1 and ".dist-info/" in one]
            metadata = next(one for one in infos if one.endswith("/METADATA"))
            points = next((one for one in infos if one.endswith("/entry_points.txt")), None)
            headers = email.parser.HeaderParser().parsestr(archive.read(metadata).decode("utf-8"))
            text = archive.read(points).decode("utf-8") if points else ""
    except (OSError, zipfile.BadZipFile, StopIteration, UnicodeDecodeError, KeyError) as error:
        raise PackageError(f"{file.name}: the wheel is broken.", "Build it or download it again.") from error
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names of plugins keep their case
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise PackageError(f"{file.name}: its entry points cannot be read.", "Build it again.") from error
    plugins = tuple(parser["hermes"]) if parser.has_section("hermes") else ()
    return Wheel(
        file,
        headers["Name"] or "",
        headers["Version"] or "",
        tuple(headers.get_all("Requires-Dist", [])),
        plugins,
    )
