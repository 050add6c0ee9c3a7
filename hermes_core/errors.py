"""Every exception that Hermes raises on purpose.

    HermesError
    ├── ConfigError          the config names something that is not there, or has the wrong type
    │   └── SecretUnset      the environment variable of a secret is not set
    ├── Incomplete           an adapter came to its end, and not all was answered or written
    ├── CommandError         a person typed a command that cannot be carried out; shown to that person
    │   ├── BadArguments     the command exists, its arguments do not fit
    │   └── NotAllowed       the command exists, this person may not use it
    ├── PluginError          a plugin cannot be loaded, or breaks a rule of the hooks; names the plugin
    │   └── NotApproved      it registers more than was approved when it was enabled
    ├── PackageError         a package was not installed or removed; the environment is as it was
    ├── StoreError           the store did not take or give something; nothing was acknowledged
    │   ├── StoreInUse       another process has this data folder
    │   └── StoreUnwritable  disk full, read-only or locked: try again later
    ├── StateError           a file that the program keeps beside the store cannot be read or changed
    ├── ModelError           a model call failed; the text says it in words for the person who waits
    ├── ToolError            a tool failed in a way that the model should read
    ├── JobError             a job cannot be started, found, read or stopped
    │   ├── NoSuchJob        there is no job with this id, here
    │   ├── KeyInUse         the idempotency key belongs to a job with other arguments
    │   └── ResultGone       the job has ended, and its output was removed since
    └── SendError            a platform did not take a message

Each error has a message that says what is wrong and an `advice` that says what its reader can do
about it. Programmers see the cause (`raise … from …`); people in a chat see `str(error)`, which
therefore never holds a path, a secret or a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "BadArguments",
    "CommandError",
    "ConfigError",
    "HermesError",
    "Incomplete",
    "JobError",
    "KeyInUse",
    "ModelError",
    "NoSuchJob",
    "NotAllowed",
    "NotApproved",
    "PackageError",
    "PluginError",
    "ResultGone",
    "SecretUnset",
    "SendError",
    "StateError",
    "StoreError",
    "StoreInUse",
    "StoreUnwritable",
    "ToolError",
    "first_cause",
    "leaves",
    "reason",
    "told",
]

_SHOWN = 3  # of the errors of a group, how many one line names


def told(error: BaseException) -> str:
    """`str(error)`; for one of foreign code that cannot even say what it is, its kind."""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - the edge to foreign code: its fault stays its own
        return type(error).__name__


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors that a group holds, however deep, in their order; the error itself where it is no group."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from leaves(one)
    else:
        yield error


def reason(error: BaseException, hide: Callable[[str], str] = str) -> str:
    """Why something failed, in one line: the kind and the first line of the text, secrets taken out by `hide`.

    An error that was raised `from` another one is followed by that one, in brackets.
    Of a group the first three that it holds: which of them came first cannot be seen.
    """
    all_ = list(leaves(error))
    more = f" (and {len(all_) - _SHOWN} more)" if len(all_) > _SHOWN else ""
    return "; ".join(_with_cause(one, hide) for one in all_[:_SHOWN]) + more


def _with_cause(error: BaseException, hide: Callable[[str], str]) -> str:
    cause = "" if error.__cause__ is None else f" ({_line(next(leaves(error.__cause__)), hide)})"
    return _line(error, hide) + cause


def _line(error: BaseException, hide: Callable[[str], str]) -> str:
    kind = type(error).__name__
    lines = hide(told(error)).strip().splitlines()  # hidden first: a secret may have several lines
    return f"{kind}: {lines[0].rstrip()}" if lines and lines[0] != kind else kind


def first_cause(error: BaseException) -> str:
    """What the first cause of the error says, in one short line; for operators, never for a chat."""
    while error.__cause__ is not None:
        error = error.__cause__
    said = " ".join(told(error).split()).rstrip(".")[:200]
    return said or type(error).__name__


class HermesError(Exception):
    """The root: `message` says what is wrong, `advice` what to do about it (may be empty)."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".rstrip()


class ConfigError(HermesError):
    """The config cannot be used as it is; nothing was started."""


class SecretUnset(ConfigError):
    """The environment `variables` that hold secrets are not set. Whoever sets them needs to change no config."""

    def __init__(self, message: str, advice: str = "", variables: tuple[str, ...] = ()) -> None:
        super().__init__(message, advice)
        self.variables = variables

    @classmethod
    def together(cls, errors: Sequence[SecretUnset]) -> SecretUnset:
        """One error for all of them, so that nobody learns of the next only when the last is set; not for none."""
        if len(errors) == 1:
            return errors[0]
        variables = tuple(dict.fromkeys(name for one in errors for name in one.variables))
        export = " ".join(f"{name}=…" for name in variables)
        message = "\n".join(one.message for one in errors)
        return cls(message, f"Set them before the start (export {export}).", variables)


class Incomplete(HermesError):
    """An adapter has come to its end in good order, and not everything was answered or written."""


class CommandError(HermesError):
    """A command cannot be carried out; the text is shown to the person who typed it."""


class BadArguments(CommandError):
    """The arguments of a command do not fit what it declares."""


class NotAllowed(CommandError):
    """The person who typed the command lacks the role that it requires."""


class PluginError(HermesError):
    """A plugin cannot be loaded or broke a rule of the hooks (P2)."""

    def __init__(self, plugin: str, message: str, advice: str = "") -> None:
        super().__init__(f"plugin {plugin!r}: {message}", advice)
        self.plugin = plugin


class NotApproved(PluginError):
    """A plugin registers more than was approved when it was enabled; it stays out (P4)."""


class PackageError(HermesError):
    """A package was not installed or removed; unless the text says otherwise, nothing was changed."""


class StoreError(HermesError):
    """The store did not take or give what was asked; whatever was to be written is not written."""


class StoreInUse(StoreError):
    """Another process holds the lock of this data folder."""


class StoreUnwritable(StoreError):
    """The disk is full, read-only or locked. The same call may succeed later (D7)."""


class StateError(HermesError):
    """A file that the program keeps beside the store cannot be read or changed; it is as it was."""


class ModelError(HermesError):
    """A model call failed.

    `retryable` says that the same request may succeed later; `retry_after` is the server's own
    wish in seconds, where it gave one.
    """

    def __init__(
        self, message: str, advice: str = "", *, retryable: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, advice)
        self.retryable = retryable
        self.retry_after = retry_after


class ToolError(HermesError):
    """A tool failed; the model reads the text as the result of its call."""


class JobError(HermesError):
    """A job cannot be started, found, read or stopped; read by the model, or shown to who typed a command."""


class NoSuchJob(JobError):
    """There is no job with this id where it was looked for."""


class KeyInUse(JobError):
    """The idempotency key was used before, for other arguments (J3)."""


class ResultGone(JobError):
    """The job is known and has ended; what it put out was removed from the data folder."""


class SendError(HermesError):
    """A platform did not take a message.

    `retry_after` (seconds): try again then; `None` with `permanent=False`: try again with back-off.
    `unknown`: the message may have been delivered (cut after it was written, D5).
    `permanent`: this message will never be taken (blocked by the person, chat deleted).
    """

    def __init__(
        self,
        message: str,
        advice: str = "",
        *,
        retry_after: float | None = None,
        unknown: bool = False,
        permanent: bool = False,
    ) -> None:
        super().__init__(message, advice)
        self.retry_after = retry_after
        self.unknown = unknown
        self.permanent = permanent
