"""Check: the conformance kit on one plugin, as `hermes plugins check` runs it in a process of its own.

    python -m hermes_core.testing.check [--config FILE] [--set KEY=VALUE …] WHAT

Prints one JSON object: `plugins` (names), `findings` (objects with `plugin`, `check`, `text`) and
`problem` where nothing could be looked at. Of an adapter it also runs the project's tests that are an
`AdapterContract`, which needs pytest.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from hermes_core.config import Config
from hermes_core.errors import HermesError
from hermes_core.packages.scaffold import needed_for_tests
from hermes_core.testing.package import Package, packages
from hermes_core.testing.review import Subject, review

__all__ = ["main"]

_SECONDS: Final = 300.0  # for the tests of an adapter


def main(arguments: Sequence[str]) -> int:
    """Check, and print; gives 1 where something was found."""
    parser = argparse.ArgumentParser(prog="check")
    parser.add_argument("--config")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("what")
    options = parser.parse_args(arguments)
    answer: dict[str, Any] = {"plugins": [], "findings": [], "problem": None}
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what a plugin prints is not the answer
        try:
            overrides = dict(one.partition("=")[::2] for one in options.set)
            config = Config.load(options.config, overrides=overrides)
            for package in packages(options.what):
                answer["plugins"].append(package.name)
                answer["findings"].extend(_findings(package, config))
        except HermesError as error:
            answer["problem"] = str(error)
        out.write(msgspec.json.encode(answer))
        out.flush()
    os._exit(1 if answer["findings"] or answer["problem"] else 0)  # threads of a plugin are not waited for


def _findings(package: Package, config: Config) -> Iterator[dict[str, str]]:
    subject = Subject(package, msgspec.structs.replace(config, approvals=type(config.approvals)()))
    for one in review(subject):
        yield {"plugin": package.name, "check": one.check, "text": one.text}
    if subject.plugins.adapters:
        for text in _adapter(package):
            yield {"plugin": package.name, "check": "adapter", "text": text}


def _adapter(package: Package) -> Iterator[str]:
    """The project's own contract tests, run."""
    if package.folder is None:
        return  # installed without its tests
    contracts = [f"{file}::{name}" for file in package.tests() for name in _contracts(file)]
    if not contracts:
        yield "it brings an adapter, and none of its tests is an AdapterContract (hermes_core.testing)"
        return
    lacks, install = needed_for_tests("adapter")
    if lacks:
        yield f"its AdapterContract was not run, for want of {' and '.join(lacks)}. Install it: {install}"
        return
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "--no-header",
                "-p",
                "no:cacheprovider",
                "-rfE",
                *contracts,
            ],
            cwd=package.folder,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        yield f"its AdapterContract took longer than {_SECONDS:.0f} s"
        return
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if not failed and done.returncode:
        failed = [f"its AdapterContract was not run: {_reason(done.stdout + done.stderr)}"]
    yield from (line[:300] for line in failed)


def _reason(said: str) -> str:
    """Why pytest did not begin: its error where it says one, and with an unknown option what brings it."""
    errors = re.findall(
        r"^(?:ERROR: |INTERNALERROR> (?=[\w.]*(?:Error|Warning|Exception)\b))(.+)", said, re.MULTILINE
    )
    reason = errors[-1] if errors else (said.strip().splitlines() or ["pytest said nothing"])[-1]
    unknown = "Unknown config option" in reason
    return f"{reason} (is its pytest plugin installed here?)" if unknown else reason


def _contracts(file: Path) -> list[str]:
    """The test classes in a file that are an `AdapterContract`."""
    return [
        node.name
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).rpartition(".")[2] == "AdapterContract" for base in node.bases)
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
