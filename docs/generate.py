"""Writes the parts of the documentation that are made from the code.

    python docs/generate.py            write them
    python docs/generate.py --check    only say which pages are not up to date; exit 1 if there are any

A page has a place for such a part between two comments, `<!-- made by docs/generate.py: NAME -->` and
`<!-- end -->`. What stands between them is replaced; everything else on the page is for people to write.
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hermes_core import hookspecs, inbox
from hermes_core.adapter import Features
from hermes_core.config import Config
from hermes_core.messages import Role
from hermes_core.plugins import Plugins, load
from hermes_core.tools import Tool

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = tuple(sorted((ROOT / "docs").rglob("*.md")))
_PLACE: Final = re.compile(r"(<!-- made by docs/generate\.py: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_WIDTH: Final = 110
_FOR: Final = {Role.USER: "everybody who is served", Role.ADMIN: "owners and admins", Role.OWNER: "owners"}


# ---- hooks


def hooks() -> str:
    """Every hook in the order of `hookspecs`: signature, verb, limit, what it is for, who uses it."""
    users = dict(_plugins())
    return "\n".join(_hook(name, users) for name in _hook_names())


def _hook_names() -> list[str]:
    return [name for name in vars(hookspecs) if name.startswith("hermes_")]


def _hook(name: str, users: dict[str, str]) -> str:
    function = getattr(hookspecs, name)
    verb = hookspecs.verbs[name]
    used = (
        ", ".join(link for link, code in users.items() if re.search(rf"def {name}\(", code)) or "nobody yet"
    )
    text = re.sub(r" ?\bVerb: \w+\.(?: |$)?", " ", inspect.getdoc(function) or "", flags=re.MULTILINE)
    text = "\n".join(line.strip() for line in text.splitlines()).strip()
    return (
        f"## {name}\n\n```python\n{signature(name, function)}\n```\n\n{text}\n\n"
        f"- Verb: **{verb.name}**, at most {verb.limit:g} s for each plugin\n- Used by: {used}\n"
    )


def signature(name: str, function: Callable[..., Any]) -> str:
    """`def name(…) -> …: ...` with annotations as they are written, broken as ruff breaks lines."""
    declared = inspect.signature(function)
    given = ", ".join(f"{one.name}: {one.annotation}" for one in declared.parameters.values())
    before, after = f"def {name}(", f") -> {declared.return_annotation}: ..."
    whole = f"{before}{given}{after}"
    return whole if len(whole) <= _WIDTH else f"{before}\n    {given}\n{after}"


def _plugins() -> Iterator[tuple[str, str]]:
    """Every plugin of this repository: a link to its page, and its code."""
    for folder, project in _projects("*/*"):
        modules = sorted(folder.glob("hermes_*.py")) + sorted(folder.glob("hermes_*/*.py"))
        code = "\n".join(module.read_text(encoding="utf-8") for module in modules)
        for name in project.get("entry-points", {}).get("hermes", {}):
            yield f"[{name}](../../{folder.relative_to(ROOT).as_posix()}/README.md)", code


def _projects(pattern: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folders that match and are packages, with what their `pyproject.toml` says."""
    for file in sorted(ROOT.glob(f"{pattern}/pyproject.toml")):
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project")
        if project is not None:
            yield file.parent, project


# ---- packages


def packages() -> str:
    """The packages of this repository that are more than examples, each with its page and its own description."""
    lines = ["| package | what it is |", "|---|---|"]
    for folder, project in (*_projects("adapters/*"), *_projects("plugins/*")):
        about = re.sub(r"^Hermes[^:]*: ", "", project["description"])
        place = folder.relative_to(ROOT).as_posix()
        lines.append(f"| [{place}](../{place}/README.md) | {about[:1].upper()}{about[1:]} |")
    return "\n".join(lines) + "\n"


# ---- the inbox


def inbox_diagram() -> str:
    """The table as a picture."""
    return f"```mermaid\n{inbox.diagram()}```\n"


def inbox_table() -> str:
    """The table as one table for each phase; signals with the same answer share their rows."""
    return "\n".join(_phase(phase) for phase in inbox.Phase)


def _phase(phase: inbox.Phase) -> str:
    lines = [f"### {phase.value}\n", "| what happens | only if | what is done | then |", "|---|---|---|---|"]
    same: dict[tuple[inbox.Row, ...], list[str]] = {}
    for (at, signal), rows in inbox.TABLE.items():
        if at is phase:
            same.setdefault(rows, []).append(f"`{signal.value}`")
    for rows, signals in same.items():
        for number, row in enumerate(rows):
            what = ", ".join(signals) if number == 0 else "otherwise"
            guard = "" if row.guard.__name__ == "always" else row.guard.__name__
            done = ", ".join(action.__name__ for action in row.actions) or "nothing"
            then = "stays" if row.to is phase else row.to.value
            lines.append(f"| {what} | {_words(guard)} | {_words(done)} | {then} |")
    return "\n".join(lines) + "\n"


def inbox_words() -> str:
    """What the words of the tables mean: guards and actions, in the order in which they appear."""
    functions: dict[str, str] = {}
    for rows in inbox.TABLE.values():
        for row in rows:
            for one in (row.guard, *row.actions):
                functions[one.__name__] = " ".join((inspect.getdoc(one) or "").split())
    del functions["always"]
    return "\n".join(f"- **{_words(name)}**: {text}" for name, text in functions.items()) + "\n"


def _words(name: str) -> str:
    return name.replace("_", " ")


# ---- the house


def floors() -> str:
    """The floors from the top down, as import-linter checks them, each module with its sentence."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    contract = next(one for one in settings["contracts"] if one["type"] == "layers")
    lines = ["| floor | module | what it is |", "|---|---|---|"]
    for number, layer in reversed(list(enumerate(reversed(contract["layers"])))):
        lines.extend(
            f"| {number} | `{name.strip()}` | {_sentence(name.strip())} |" for name in layer.split("|")
        )
    lines.extend(f"| – | `{name}` | {_sentence(name)} |" for name in contract["exhaustive_ignores"])
    return "\n".join(lines) + "\n"


def rooms() -> str:
    """What the modules that are packages have inside."""
    packages = sorted(file.parent for file in (ROOT / "hermes_core").glob("*/**/__init__.py"))
    return "\n".join(_rooms(package) for package in packages)


def _rooms(package: Path) -> str:
    names = sorted(file.stem for file in package.glob("*.py") if file.stem != "__init__")
    here = ".".join(package.relative_to(ROOT / "hermes_core").parts)
    lines = [f"**{here}**\n"]
    lines.extend(f"- `{here}.{name}`: {_sentence(f'{here}.{name}')}" for name in names)
    return "\n".join(lines) + "\n"


def _sentence(module: str) -> str:
    """The first line of its docstring, without its name in front."""
    path = ROOT / "hermes_core" / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = re.match(r'"""(.*?)(?:"""|\n\n|\Z)', file.read_text(encoding="utf-8"), re.DOTALL)
    text = " ".join(found[1].split()) if found else ""
    text = re.sub(r"^[A-Z][\w-]*(?: [a-z]+)*: ", "", text)
    return text[:1].upper() + text[1:]


# ---- jobs


def job_diagram() -> str:
    """The life of a job as a picture."""
    from hermes_core.jobs import machine

    return f"```mermaid\n{machine.diagram()}```\n"


# ---- metrics


def metrics() -> str:
    """Every metric with its type and its meaning."""
    from hermes_core.http.metrics import FAMILIES

    lines = ["| metric | type | what it says |", "|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {help_} |" for name, (kind, help_) in FAMILIES.items()]
    return "\n".join(lines) + "\n"


# ---- tools


def tools() -> str:
    """Every tool of the shipped plugins, as a model sees it."""
    from hermes_demo.plugin import DemoPlugin, DemoSettings
    from hermes_files.plugin import FilesPlugin, FilesPluginSettings
    from hermes_jobs.plugin import JobsPlugin
    from hermes_memory.plugin import MemoryPlugin, MemorySettings
    from hermes_shell.plugin import ShellPlugin, ShellSettings

    plugins = Plugins(Config())  # the default model is the demo model, which brings tools
    plugins.add("demo", DemoPlugin(DemoSettings()))
    plugins.add("files", FilesPlugin(FilesPluginSettings(folders=(Path("files"),))))
    plugins.add("jobs", JobsPlugin())
    plugins.add("memory", MemoryPlugin(MemorySettings()))
    plugins.add("shell", ShellPlugin(ShellSettings()))
    return "\n".join(
        _tool(info.name, plugins.tools[name]) for info in plugins.infos.values() for name in info.tools
    )


def _tool(plugin: str, tool: Tool) -> str:
    lines = [
        f"### {tool.name}\n",
        f"{tool.description}\n",
        f"- Plugin: [{plugin}](../../plugins/{plugin}/README.md)",
        f"- For: {_FOR[tool.role]}",
        f"- Kind: {tool.kind.value}; deadline {tool.deadline:g} s",
        f"- Asks a person first: {'yes' if tool.approval is not None else 'no'}",
        f"- After a crash: {'run again' if tool.idempotent else 'not run again; the model is told'}",
    ]
    if tool.schema["properties"]:
        lines.extend(("", "| argument | type | default | meaning |", "|---|---|---|---|"))
    for name, field in tool.schema["properties"].items():
        default = f"`{field['default']}`" if "default" in field else "required"
        kind = field.get("type") or " or ".join(one["type"] for one in field["anyOf"])
        lines.append(f"| `{name}` | {kind} | {default} | {field.get('description', '')} |")
    return "\n".join(lines) + "\n"


# ---- platforms

_SHOWN: Final = {
    "max_text": "longest message",
    "drafts": "a reply grows while it is written",
    "status": "shows that the agent works",
    "receipts": "shows what becomes of a message that waits",
    "lookup": "can be asked whether a reply arrived",
    "once": "takes the same reply only once",
    "edits": "tells of edited messages",
    "deletes": "tells of deleted messages",
    "threads": "threads",
    "native_replies": "replies to a message",
    "local": "only whoever sits at the machine",
    "downloads": "files to the agent",
    "max_file": "files from the agent",
    "buttons": "buttons",
    "registers": "offers the commands while people type",
    "catches_up": "hands in what was written meanwhile",
    "unattended": "nobody is there to be asked",
}


def platforms() -> str:
    """What each adapter declares that it can do, as one table."""
    declared = dict(_declared())
    lines = [f"| | {' | '.join(declared)} |", "|---" * (len(declared) + 1) + "|"]
    for name in Features.__struct_fields__:
        cells = [_can(name, getattr(features, name)) for features in declared.values()]
        lines.append(f"| {_SHOWN[name]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _can(name: str, value: Any) -> str:
    if name == "max_text":
        return "any" if value is None else f"{value:,}"
    if name == "max_file" and value >= 1024**5:
        return "any size"
    if name == "max_file" and value:
        binary = value % 1024**2 == 0
        return f"up to {value // 1024**2} MiB" if binary else f"up to {value / 1000**2:g} MB"
    return "yes" if value else "–"


def _declared() -> Iterator[tuple[str, Features]]:
    """The features of every adapter in this repository, as it is with the settings that it comes with."""
    from hermes_terminal.chat import ChatAdapter
    from hermes_terminal.pipe import PipeAdapter

    yield "terminal", ChatAdapter.features
    yield "pipe", PipeAdapter.features
    names = {folder.name for folder, _ in _projects("adapters/*")} - {"terminal"}
    secrets = ("DISCORD_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_BOT_TOKEN", "TELEGRAM_BOT_TOKEN")
    with TemporaryDirectory() as folder:
        tables: dict[str, Any] = {
            "runtime": {"data_dir": folder},
            "adapters": {name: {"enabled": True} for name in names},
        }
        loaded = load(Config.of(tables, dict.fromkeys(secrets, "1:none")))
        for name in sorted(names):
            yield name, loaded.adapters[name].open({"data_dir": Path(folder)}).features


# ---- testing


def public_modules() -> str:
    """The modules of the core that plugins may import."""
    from hermes_core.testing.review_code import PUBLIC

    lines = ["| module | what it is |", "|---|---|"]
    lines.extend(f"| `hermes_core.{name}` | {_sentence(name)} |" for name in sorted(PUBLIC))
    return "\n".join(lines) + "\n"


PARTS: Final[dict[str, Callable[[], str]]] = {
    "floors": floors,
    "hooks": hooks,
    "inbox-diagram": inbox_diagram,
    "inbox-table": inbox_table,
    "inbox-words": inbox_words,
    "job-diagram": job_diagram,
    "metrics": metrics,
    "packages": packages,
    "public-modules": public_modules,
    "platforms": platforms,
    "rooms": rooms,
    "tools": tools,
}


def rendered(page: str) -> str:
    """The text of a page with all its made parts as they should be; KeyError for a part that nobody makes."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{PARTS[place[2]]()}\n{place[3]}", page)


def main(arguments: list[str]) -> int:
    """Write or check; gives the exit code."""
    stale = []
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        made = rendered(page)
        if made != page:
            stale.append(path.relative_to(ROOT).as_posix())
            if "--check" not in arguments:
                path.write_text(made, encoding="utf-8")
    verb = "not up to date" if "--check" in arguments else "written"
    sys.stdout.writelines(f"{verb}: {name}\n" for name in stale)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
