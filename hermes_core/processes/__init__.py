"""Processes: run one command as a tree that can be ended whole (I3).

Each command runs in a session of its own below a small shim (`shim`), which keeps sight of every
descendant: after a double fork, in another session, ignoring SIGTERM. The runtime holds a line to it;
when the runtime dies, by kill -9 as well, the shim ends the tree. What survives even that is found in
the record files by the next start (`sweep`, E5).

A job is started with `keep` instead: its shim (`keeper`) outlives the runtime, and the next one takes it
up again with `attach` or reads how it ended (J12, E5). `sweep` leaves those alone.

What this cannot reach: something that the command asks a daemon to run (at, systemd-run, docker);
a process of another user (sudo) is reported as unreachable. A command that kills its own shim is
killed with all that is still in its session or bears its token in the environment.

Only Linux has child subreapers and /proc. Elsewhere the leader's process group is all that is
ended; what left the group lives on.
"""

from __future__ import annotations

from hermes_core.processes.kept import Kept, KeptEnd, attach, forget, keep
from hermes_core.processes.process import Exit, Process, Program, Stopped, launch, start
from hermes_core.processes.records import Leftover, sweep

__all__ = [
    "Exit",
    "Kept",
    "KeptEnd",
    "Leftover",
    "Process",
    "Program",
    "Stopped",
    "attach",
    "forget",
    "keep",
    "launch",
    "start",
    "sweep",
]
