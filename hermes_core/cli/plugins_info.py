"""`hermes plugins info`: everything that is known about one plugin."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from hermes_core.cli.common import load_config, overrides, print_json, print_line

if TYPE_CHECKING:
    import importlib.metadata

    from hermes_core.config import Config
    from hermes_core.packages import Look

NAME: tuple[str, ...] = ("plugins", "info")
HELP = "show version, author, requirements, what it registers, its config keys, and problems"

__all__ = ["HELP", "NAME", "arguments", "print_registered", "run"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", metavar="NAME", help="the plugin, or the package that brings it")
    parser.add_argument("--json", action="store_true", help="as JSON: one object")


def run(options: argparse.Namespace) -> int:
    """Print what the package says of itself, and what loading it in a process of its own shows."""
    config = load_config(options)
    from hermes_core.packages import look
    from hermes_core.packages.remove import installed_as, plugin_of

    package = installed_as(options.name)
    name = plugin_of(package, options.name)
    seen = look(name, options.config, overrides(options))
    facts = _facts(config, name, package, seen)
    if options.json:
        print_json(facts)
        return 0
    print_line(f"{name} {facts['version']}: {facts['summary'] or 'no summary'}")
    print_line(f"    package: {facts['package']}")
    for key in ("author", "license", "home"):
        if facts[key]:
            print_line(f"    {key}: {facts[key]}")
    if facts["requires"]:
        print_line(f"    requires: {', '.join(facts['requires'])}")
    print_line(f"    state: {'enabled' if facts['enabled'] else 'off'}{facts['because']}")
    print_registered(seen)
    for one in seen.keys:
        print_line(f"    key: {one.name} = {one.default if one.default is not None else '(needed)'}")
    for problem in facts["problems"]:
        print_line(f"    problem: {problem}")
    return 0


def print_registered(seen: Look) -> None:
    """What a plugin brings, one line for each kind."""
    from hermes_core.approvals import ANY, KINDS

    for kind in KINDS:
        names = [one for one in seen.registers.get(kind, ()) if one not in seen.async_tools]
        if names:
            any_ = "any (known when the server starts)"
            print_line(f"    {kind}: {', '.join(any_ if one == ANY else one for one in names)}")
        if kind == "tools" and seen.async_tools:
            print_line(f"    async tools: {', '.join(seen.async_tools)}")


def _facts(config: Config, name: str, package: importlib.metadata.Distribution, seen: Look) -> dict[str, Any]:
    said = {**package.metadata.json}
    enabled = config.enabled(name)
    more = config.approvals.beyond(name, seen.registers) if enabled else []
    unapproved = config.unapproved(name, seen.registers) if enabled else []
    problems = [config.secrets.hide(one) for one in (seen.problem, seen.taken) if one]
    if unapproved:
        problems.append(f"it registers more than was approved: {', '.join(unapproved)}")
    return {
        "name": name,
        "package": package.name,
        "version": package.version,
        "summary": said.get("summary", ""),
        "author": said.get("author") or said.get("author_email") or "",
        "license": said.get("license_expression") or said.get("license") or "",
        "home": said.get("home_page") or next(iter(said.get("project_url") or []), ""),
        "requires": list(package.requires or ()),
        "enabled": enabled and not unapproved,
        "because": _because(config, name, bool(more)),
        "registers": {kind: list(names) for kind, names in seen.registers.items()},
        "keys": {key.name: key.default for key in seen.keys},
        "problems": problems,
    }


def _because(config: Config, name: str, more: bool) -> str:
    place = config.place(f"plugins.{name}.enabled") or config.place(f"adapters.{name}.enabled")
    if place:
        return f", by {place}"
    if name in config.approvals.plugins:
        return ", by hermes plugins" + (" enable, for less" if more else "")
    return ""
