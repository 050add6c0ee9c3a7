"""`hermes init`: asks what a run needs, checks it for real, and writes `hermes.toml`."""

from __future__ import annotations

import argparse
import itertools
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hermes_core.cli.common import debugging, print_line
from hermes_core.errors import HermesError

if TYPE_CHECKING:
    from hermes_core.adapter import Form, KnownCommand
    from hermes_core.checks import Question, Setup
    from hermes_core.cli.asking import Asker

NAME: tuple[str, ...] = ("init",)
HELP = "ask for model, platforms and owner, check them, and write hermes.toml"

_HEAD: Final = (
    "# Written by `hermes init`. `hermes config show` lists every key.\n"
    "# Secrets stand in the environment, and here only the names of their variables.\n\n"
)
_VARIABLES: Final = "hermes.env"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--file", metavar="FILE", default="hermes.toml", help="what to write (default: ./hermes.toml)"
    )
    parser.add_argument(
        "--yes", action="store_true", help="ask nothing: take the defaults and what --set says"
    )
    parser.add_argument("--offline", action="store_true", help="check nothing that needs the network")


def run(options: argparse.Namespace) -> int:
    """Ask, check, write. Nothing is written before the end; what a file says that is there already is kept."""
    from hermes_core.cli.asking import Defaults, Terminal
    from hermes_core.cli.logs import log_nowhere

    if not options.yes and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise HermesError(
            "hermes init asks questions, and this is no terminal.", "Take the defaults: hermes init --yes"
        )
    if not debugging(options):
        log_nowhere()
    file = Path(options.file)
    asker: Asker = Defaults() if options.yes else Terminal()
    there = file.exists()
    if there and options.yes:
        raise HermesError(f"{file} is there already, and is left as it is.", "Name another one: --file FILE")
    keep = f"{file} is there already. Keep what it says, and ask for the rest?"
    if there and not asker.yes(keep, default=True):
        print_line("Nothing was changed.")
        return 0
    form = _Form(asker, _begun(file if there else None, options), options)
    while True:
        form.ask()
        if form.well() or (not options.yes and asker.yes("Write it all the same? No asks again.", False)):
            break
        if options.yes:
            raise HermesError(
                "What is said to be BROKEN would not run; nothing was written.",
                "Correct it; --offline leaves out what needs the network.",
            )
    form.write(file, replace=there)
    return 0


class _Form:
    """What is to be written: `tables` for the config, `secrets` by the name of their variable."""

    def __init__(self, asker: Asker, tables: dict[str, Any], options: argparse.Namespace) -> None:
        self._asker = asker
        self._options = options
        self.tables = tables
        self.secrets: dict[str, str] = {}
        self._owners: dict[str, str] = {}

    # -- asking

    def ask(self) -> None:
        """All questions; what was answered before is the default."""
        setups, commands, people = self._setups()
        models = {one.name: one for one in setups if one.table == "model"}
        model = self.tables.setdefault("model", {})
        known = sorted({"demo", *models, *([model["provider"]] if "provider" in model else [])})
        print_line("\nThe model. demo is a built-in stand-in that needs nothing.")
        model["provider"] = self._asker.choice("Which provider", known, model.get("provider", "demo"))
        if model["provider"] in models:
            self._set_up(models[model["provider"]], model, commands)
        for setup in setups:
            if setup.table == "adapters":
                print_line(f"\n{setup.title}.")
                section = self.tables.setdefault("adapters", {}).setdefault(setup.name, {"enabled": True})
                self._set_up(setup, section, commands)
                self._owner(setup, people.get(setup.name))

    def _setups(self) -> tuple[list[Setup], tuple[KnownCommand, ...], dict[str, Form | None]]:
        """What the chosen packages want to know, the commands, and by platform what user ids look like.

        A package is loaded only when it was chosen (P4).
        """
        import asyncio

        from hermes_core.adapter import KnownCommand
        from hermes_core.config import Config
        from hermes_core.plugins import load

        chosen = self._chosen()
        plugins = load(Config.of({"plugins": {name: {"enabled": True} for name in chosen}}))
        for info in plugins.infos.values():
            if info.enabled and info.problem:
                print_line(f"{info.name} cannot be used: {info.problem}")
            if info.name in chosen:
                for table, names in (
                    ("adapters", info.adapters),
                    ("plugins", () if info.adapters else (info.name,)),
                ):
                    for name in names:
                        self.tables.setdefault(table, {}).setdefault(name, {})["enabled"] = True
        given = asyncio.run(plugins.each("hermes_setup"))
        commands = tuple(
            KnownCommand(one.name, one.help, one.usage, one.aliases) for one in plugins.commands.all()
        )
        people = {name: factory.people for name, factory in plugins.adapters.items()}
        return [setup for brought in given for setup in brought or ()], commands, people

    def _chosen(self) -> list[str]:
        from importlib.metadata import entry_points

        from hermes_core.config import DEFAULT_PACKAGES

        on = {key.partition(".")[2] for key, default in DEFAULT_PACKAGES.items() if default}
        chosen = []
        off = sorted(
            (one for one in entry_points(group="hermes") if one.name not in on), key=lambda one: one.name
        )
        if off:
            names = ", ".join(one.name for one in off)
            print_line(f"Packages that are installed here and off by default: {names}.")
        for point in off:
            about = point.dist.metadata["Summary"] if point.dist is not None else ""
            given = [self.tables.get(table, {}).get(point.name) for table in ("adapters", "plugins")]
            before = any(one is not None and one.get("enabled", True) for one in given)
            if self._asker.yes(f"Use {point.name} ({about or 'no description'})?", default=before):
                chosen.append(point.name)
            else:
                for table in ("adapters", "plugins"):
                    self.tables.get(table, {}).pop(point.name, None)
        return chosen

    def _set_up(self, setup: Setup, section: dict[str, Any], commands: tuple[KnownCommand, ...]) -> None:
        plain = [one for one in setup.questions if not one.variable]
        for question in plain:
            if question.asked(section):
                there = self.tables.setdefault(question.section, {}) if question.section else section
                self._plain(question, there)
        answers = {key: str(value) for key, value in section.items()}
        for other in {one.section for one in plain if one.section}:
            answers |= {f"{other}.{key}": str(value) for key, value in self.tables.get(other, {}).items()}
        if guide := setup.guide(answers, commands):
            print_line(guide)
        for question in setup.questions:
            if question.variable and question.asked(section):
                self._secret(question, section)
            elif question.variable:
                section.pop(question.key, None)

    def _plain(self, question: Question, section: dict[str, Any]) -> None:
        default = str(section.get(question.key, question.default))
        if question.choices:
            answer = self._asker.choice(question.text, question.choices, default)
        else:
            answer = self._asker.text(
                question.text, default, needed=not question.optional, form=question.form
            )
        if answer:
            section[question.key] = answer
        else:
            section.pop(question.key, None)

    def _secret(self, question: Question, section: dict[str, Any]) -> None:
        variable = section.get(question.key, question.variable)
        known = variable in self.secrets or bool(os.environ.get(variable))
        hint = f"; {variable} is set, Enter keeps it" if known else ""
        needed = not (known or question.optional or self._options.yes)
        answer = self._asker.secret(f"{question.text}{hint}", needed=needed)
        if answer:
            self.secrets[variable] = answer
        if answer or known or not question.optional:
            section[question.key] = variable
        else:
            section.pop(question.key, None)

    def _owner(self, setup: Setup, form: Form | None) -> None:
        print_line(
            f"Who is the owner of this agent? {setup.person}." if setup.person else "Who is the owner?"
        )
        person = self._asker.text("Your user id there; empty: decide later, see `hermes pair`", form=form)
        owners: list[str] = self.tables.setdefault("access", {}).setdefault("owners", [])
        if person:
            mine = self._owners.get(setup.name)  # the answer of the last time
            owners[:] = [one for one in owners if one not in (mine, f"{setup.name}:{person}")]
            owners.append(f"{setup.name}:{person}")
            self._owners[setup.name] = owners[-1]

    # -- checking

    def well(self) -> bool:
        """Check what was answered, as `hermes doctor` does; whether nothing is broken.

        Where nobody is asked, a secret may still be unset: what has to be set is said in the end.
        """
        import asyncio

        from hermes_core.checks import Level
        from hermes_core.cli.checkup import Result, checkup, patience
        from hermes_core.cli.doctor import gathered, lines
        from hermes_core.config import Config
        from hermes_core.errors import ConfigError

        print_line("\nChecking …")
        try:
            config = Config.of(self.tables, {**os.environ, **self.secrets})
        except ConfigError as error:
            print_line(f"BROKEN  {error}")
            return False

        async def look() -> list[Result]:
            checks, faults = await gathered(config, offline=self._options.offline)
            with patience(checks):
                return [*await checkup(checks), *faults]

        results = asyncio.run(look())
        for line in lines(results):
            print_line(config.secrets.hide(line))
        print_line()
        return all(one.level is not Level.BROKEN or (one.unset and self._options.yes) for one in results)

    # -- writing

    def write(self, file: Path, *, replace: bool) -> None:
        """The config and, where a secret was typed and that is wanted, a file that only this user can read."""
        import tomli_w

        from hermes_core.cli.files import write_new

        text = _HEAD + tomli_w.dumps({name: table for name, table in self.tables.items() if table})
        if replace:
            before = _aside(file)
            print_line(f"What was there, with its comments, is kept in {before}")
        write_new(file, text, 0o644, replace=replace)
        print_line(f"Written: {file}")
        variables = file.with_name(_VARIABLES)
        keep = f"Keep the secrets that you typed in {variables}, readable by you alone?"
        kept = bool(self.secrets) and self._asker.yes(keep, default=True) and self._keep(variables)
        missing = sorted(self._variables() - set(os.environ) - set(self.secrets if kept else ()))
        if missing:
            print_line(f"Set before the start: {', '.join(missing)}")
        self._next(file)

    def _keep(self, variables: Path) -> bool:
        """Whether they are kept now."""
        import shlex

        from hermes_core.cli.files import write_new

        there = variables.exists()
        if there and not self._asker.yes(f"{variables} is there already. Replace it?", default=False):
            print_line("It is left as it is.")
            return False
        text = "".join(f"{name}={shlex.quote(value)}\n" for name, value in sorted(self.secrets.items()))
        write_new(variables, text, 0o600, replace=there)
        print_line(f"Written: {variables}; read it before the start: set -a; . ./{variables}; set +a")
        return True

    def _variables(self) -> set[str]:
        """The variables that the config names."""
        found: set[str] = set()

        def walk(table: dict[str, Any]) -> None:
            for key, value in table.items():
                if isinstance(value, dict):
                    walk(value)
                elif key.endswith("_env") and value:
                    found.add(value)

        walk(self.tables)
        return found

    def _next(self, file: Path) -> None:
        option = "" if file == Path("hermes.toml") else f" --config {file}"
        start = "run" if self.tables.get("adapters") else "chat"
        print_line(f"Start it: hermes {start}{option}")


def _begun(file: Path | None, options: argparse.Namespace) -> dict[str, Any]:
    """The tables of the file that is there, and over them those of `--set`.

    `ConfigError` for what no question could put right, said of the place where it stands.
    """
    from hermes_core.cli.common import overrides
    from hermes_core.config import Config
    from hermes_core.config.sources import read_file

    tables: dict[str, Any] = {}
    if file is not None:
        Config.load(file, {})
        tables = read_file(file)
    given = _given(options.set, tables)
    Config.of({}, os.environ, overrides(options))
    Config.of(given)
    return given


def _aside(file: Path) -> Path:
    """A copy of the file beside it, under the first name that is free; as readable as the file itself."""
    from hermes_core.cli.files import write_new

    numbers = (f".{number}" if number else "" for number in itertools.count())
    copy = next(
        one for number in numbers if not (one := file.with_name(f"{file.name}.before{number}")).exists()
    )
    write_new(copy, file.read_text(encoding="utf-8-sig"), stat.S_IMODE(file.stat().st_mode), replace=False)
    return copy


def _given(settings: list[str], tables: dict[str, Any]) -> dict[str, Any]:
    """`tables` with those of `--set`; a value is TOML where it can be read as that, else a text."""
    import tomllib

    for setting in settings:
        key, equals, value = setting.partition("=")
        *path, last = key.strip().split(".")
        if not equals or not path or not all((*path, last)):
            raise HermesError(f"--set {setting[:60]}: this is no setting.", "Write --set section.key=value.")
        table = tables
        for part in path:
            inner = table.setdefault(part, {})
            if not isinstance(inner, dict):
                inner = table[part] = {}
            table = inner
        try:
            table[last] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            table[last] = value
    return tables
