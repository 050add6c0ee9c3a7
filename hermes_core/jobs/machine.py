"""The life of a job as a table: what can happen in each state, and the state that follows (J2)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hermes_core.job import JobState

__all__ = ["TABLE", "Happening", "diagram", "step"]


class Happening(enum.StrEnum):
    """What can happen to a job."""

    BEGUN = "begun"  # a worker has it; a second time only for an idempotent one whose worker died
    FINISHED = "finished"  # its work came to its own good end, also if it was being stopped (J5)
    FAILED = "failed"  # its work came to its own bad end, or could not begin
    STOPPED = "stopped"  # it ended because it was asked to
    EXPIRED = "expired"  # it ended because its deadline had passed (J6)
    UNMET = "unmet"  # a job that it depends on did not end as done (J4)
    DIED = "died"  # its worker died, and it may not be repeated (J12)


_S, _H = JobState, Happening

TABLE: Final[Mapping[tuple[JobState, Happening], JobState]] = MappingProxyType(
    {
        (_S.QUEUED, _H.BEGUN): _S.RUNNING,
        (_S.QUEUED, _H.FAILED): _S.FAILED,
        (_S.QUEUED, _H.STOPPED): _S.CANCELLED,
        (_S.QUEUED, _H.EXPIRED): _S.TIMED_OUT,
        (_S.QUEUED, _H.UNMET): _S.FAILED,
        (_S.RUNNING, _H.BEGUN): _S.RUNNING,
        (_S.RUNNING, _H.FINISHED): _S.DONE,
        (_S.RUNNING, _H.FAILED): _S.FAILED,
        (_S.RUNNING, _H.STOPPED): _S.CANCELLED,
        (_S.RUNNING, _H.EXPIRED): _S.TIMED_OUT,
        (_S.RUNNING, _H.DIED): _S.LOST,
    }
)
"""A pair that is not here cannot happen, except in a final state, where nothing changes any more."""


def step(state: JobState, what: Happening) -> JobState:
    """The state after `what`; KeyError for something that cannot happen: a fault of the caller."""
    return state if state.final else TABLE[state, what]


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {_S.QUEUED.value}"]
    lines.extend(f"    {old.value} --> {new.value}: {what.value}" for (old, what), new in TABLE.items())
    return "\n".join(lines) + "\n"
