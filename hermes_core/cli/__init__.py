"""The `hermes` command: reads the command line, runs one command, turns its errors into lines and codes.

Exit codes: 0 done; 1 a fault while running; 2 the config or the command line is wrong; 3 done, but not
everything was answered. Each command
is a module of its own and imports what it needs when it runs, so that `hermes --version` is quick.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from hermes_core.cli.common import debugging, unwritten
from hermes_core.cli.parser import parse
from hermes_core.errors import ConfigError, HermesError, Incomplete

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (by default this process's own); gives the exit code.

    Errors are one or two lines on stderr: what is wrong, and what to do. With `--debug` or
    `HERMES_DEBUG=1` the traceback stands above them.
    """
    command, options = parse(list(sys.argv[1:] if argv is None else argv))
    debug = debugging(options)
    try:
        code = command.run(options)
        _flush()
        return code
    except Incomplete as error:
        return _report(error.message, error.advice, 3, debug)
    except HermesError as error:
        return _report(error.message, error.advice, 2 if isinstance(error, ConfigError) else 1, debug)
    except BrokenPipeError:  # whoever read our output has seen enough
        _drop_output()
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the edge of the process: a person reads lines, not a stack
        what = " ".join(str(error).split())[:300]
        text = f"this is a fault of the program: {type(error).__name__}: {what}"
        return _report(text, "Run it again with --debug to see where it happened.", 1, debug)


def _flush() -> None:
    """All of the output is where it was to go; `HermesError` where it cannot be."""
    if sys.stdout is None:  # closed at the start
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritten(error) from error


def _drop_output() -> None:
    """What is left of it goes nowhere, or the interpreter would complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(message: str, advice: str, code: int, debug: bool) -> int:
    from hermes_core.config.secrets import Secrets

    # No config may have been read: what looks like a secret in the environment is hidden (X2).
    hide = Secrets.that_look_so(os.environ).hide
    if debug:
        sys.stderr.write(hide(traceback.format_exc()))
    print("hermes:", hide(message), file=sys.stderr)  # noqa: T201 - the command line's output
    if advice:
        print(hide(advice), file=sys.stderr)  # noqa: T201
    return code
