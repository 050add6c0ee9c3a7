"""Jobs: what is started by one call and told of by one event, whatever happens in between (J1 to J13).

Theory of operation. `Jobs` is the interface: `start, status, stop, result, events`, and `recent`. Nothing
in it says where the work is done: an id is made from the idempotency key, a stop is a request, and
whoever wants to know of ends listens. `runner.EmbeddedJobs` serves it inside the runtime, on the same
store; an engine for many machines can take its place (a workflow's id is the job's, a heartbeat's
details are its progress, a stop waits for the cancellation to be completed).

The embedded runner keeps in memory what has not ended. A job is committed as queued before its start is
answered, as running before its work begins, and its final state together with its event in one
transaction: a crash at any instant leaves a truth that the next start can act on. Each running job is
one task that waits for one thing, a function or the end of a process; deadlines are timers of the
event loop. So jobs that do nothing cost nothing.

    machine   the life of a job, as a table
    work      one job under way: a function or a kept process
    output    what it wrote, page by page
    retention what ended jobs put out is removed some day
    runner    start, order, deadlines, ends, restart
    signing   the secret of callbacks
    view      the jobs of one conversation, for a tool or a command
    control   a stop that comes from another process (`hermes jobs stop`)
"""

from __future__ import annotations

from hermes_core.job import Jobs, Told

__all__ = ["Jobs", "Told"]
