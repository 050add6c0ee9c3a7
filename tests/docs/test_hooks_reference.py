"""`docs/reference/hooks.md` has every hook, with its exact signature, verb and limit, and somebody who uses it."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from hermes_core import hookspecs

PAGE = (Path(__file__).parents[2] / "docs/reference/hooks.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (hermes_\w+)\n(.*?)(?=^## |^<!-- end)", PAGE, re.MULTILINE | re.DOTALL))
SOURCE = {
    one.name: one
    for one in ast.parse(inspect.getsource(hookspecs)).body
    if isinstance(one, ast.FunctionDef) and one.name.startswith("hermes_")
}

each_hook = pytest.mark.parametrize("hook", list(SOURCE))


def test_every_hook_has_a_section_in_the_order_of_the_source() -> None:
    assert list(SECTIONS) == list(SOURCE)
    assert set(SOURCE) == set(hookspecs.verbs)


@each_hook
def test_the_signature_on_the_page_is_that_of_the_source(hook: str) -> None:
    shown = re.search(r"```python\n(.+?)\n```", SECTIONS[hook], re.DOTALL)
    assert shown is not None
    written = ast.parse(shown[1]).body[0]
    assert isinstance(written, ast.FunctionDef)
    assert written.name == hook
    assert ast.dump(written.args) == ast.dump(SOURCE[hook].args)
    assert written.returns is not None
    assert ast.dump(written.returns) == ast.dump(SOURCE[hook].returns or ast.Constant(None))


@each_hook
def test_verb_and_limit_on_the_page_are_those_that_hold(hook: str) -> None:
    verb = hookspecs.verbs[hook]
    assert f"- Verb: **{verb.name}**, at most {verb.limit:g} s for each plugin\n" in SECTIONS[hook]


@each_hook
def test_the_docstring_of_a_hook_names_its_own_verb_and_limit(hook: str) -> None:
    text = inspect.getdoc(getattr(hookspecs, hook)) or ""
    verb = hookspecs.verbs[hook]
    assert f"Verb: {verb.name}." in text
    for limit in re.findall(r"limit ([\d.]+) s", text):
        assert float(limit) == verb.limit


@each_hook
def test_somebody_uses_the_hook(hook: str) -> None:
    used = re.search(r"^- Used by: (.+)$", SECTIONS[hook], re.MULTILINE)
    assert used is not None
    assert "README.md" in used[1]
