"""Metrics: what was counted and what can be seen at this instant, as Prometheus reads it (text format 0.0.4).

The format is a few lines, so no library is asked for it; a test reads the result with Prometheus' own parser.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import hermes_core
from hermes_core.metrics import Histogram
from hermes_core.pulse import Pulse
from hermes_core.route import Request, Response, Route
from hermes_core.runtime import Runtime

__all__ = ["FAMILIES", "route", "written"]

TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

FAMILIES: Final[Mapping[str, tuple[str, str]]] = {
    "hermes_info": ("gauge", "Always 1; the labels say which version runs and which model answers."),
    "hermes_platform_up": ("gauge", "1 while the platform is connected and heard of, else 0."),
    "hermes_platform_heard_seconds": (
        "gauge",
        "Seconds since its last sign of life, where its adapter gives any.",
    ),
    "hermes_messages_received_total": ("counter", "Messages that came in, repeated and refused ones too."),
    "hermes_last_message_timestamp_seconds": ("gauge", "When the last message came in, seconds since 1970."),
    "hermes_conversations_in_memory": ("gauge", "Conversations in memory, idle ones included."),
    "hermes_queue_entries": ("gauge", "Messages that wait for a turn."),
    "hermes_queue_longest": ("gauge", "The most that wait in one conversation."),
    "hermes_turns_running": ("gauge", "Turns that run."),
    "hermes_turn_seconds": ("histogram", "From the start of a turn until its end is stored."),
    "hermes_interrupt_seconds": ("histogram", "From an interrupt until the end of its turn is stored."),
    "hermes_tokens_total": ("counter", "Tokens as the model's provider counts them."),
    "hermes_outbox_messages": ("gauge", "Replies that the platform has not taken yet."),
    "hermes_outbox_oldest_seconds": ("gauge", "How long the one that has waited longest at its head waits."),
    "hermes_outbox_sent_total": ("counter", "Replies that the platform took."),
    "hermes_outbox_retries_total": ("counter", "Tries that it did not take, and that are repeated."),
    "hermes_outbox_undeliverable_total": ("counter", "Replies that it will never take."),
    "hermes_jobs": ("gauge", "Jobs that have not ended."),
    "hermes_jobs_ended_total": ("counter", "Jobs that ended since the start."),
    "hermes_hook_calls_total": ("counter", "Calls of a plugin's hook."),
    "hermes_hook_failures_total": ("counter", "Calls that failed, or took longer than they may."),
    "hermes_hook_seconds_total": ("counter", "Seconds in them, waiting included."),
    "hermes_store_refusals_total": ("counter", "Writes that the disk did not take, each try."),
}
"""Every metric with its type and its help, in the order in which they are written."""

Sample = tuple[str, Mapping[str, str], float]


def route(runtime: Runtime) -> Route:
    """`GET /metrics`, for callers that may call the rest."""

    async def answer(request: Request) -> Response:
        return Response(200, written(samples(runtime)).encode(), {"Content-Type": TYPE})

    operation = {
        "operationId": "metrics",
        "summary": "Figures for Prometheus.",
        "responses": {
            "200": {
                "description": "Text format 0.0.4.",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            }
        },
    }
    return Route("GET", "/metrics", answer, operation)


def samples(runtime: Runtime) -> Iterator[Sample]:
    """Everything that is known at this instant."""
    services = runtime.services
    yield "hermes_info", {"version": hermes_core.__version__, "model": services.model_name}, 1
    for pulse in services.pulses.values():
        yield from _platform(pulse)
    yield from _conversations(runtime)
    metrics = services.metrics
    for end, turns in metrics.turns.items():
        yield from _histogram("hermes_turn_seconds", {"end": end}, turns)
    yield from _histogram("hermes_interrupt_seconds", {}, metrics.interrupts)
    yield "hermes_tokens_total", {"direction": "in"}, metrics.tokens_in
    yield "hermes_tokens_total", {"direction": "out"}, metrics.tokens_out
    yield from _outbox(runtime)
    for state, count in runtime.jobs.counts().items():
        yield "hermes_jobs", {"state": state}, count
    for state, count in sorted(metrics.jobs.items()):
        yield "hermes_jobs_ended_total", {"state": state}, count
    for plugin, hook, tally in services.plugins.tallies():
        labels = {"plugin": plugin, "hook": hook}
        yield "hermes_hook_calls_total", labels, tally.calls
        yield "hermes_hook_failures_total", labels, tally.failed
        yield "hermes_hook_seconds_total", labels, tally.seconds
    yield "hermes_store_refusals_total", {}, metrics.refusals


def _platform(pulse: Pulse) -> Iterator[Sample]:
    labels = {"platform": pulse.name}
    yield "hermes_platform_up", labels, float(pulse.state in ("up", "quiet"))
    yield "hermes_messages_received_total", labels, pulse.messages
    if pulse.age is not None:
        yield "hermes_platform_heard_seconds", labels, pulse.age
    if pulse.messages:
        yield "hermes_last_message_timestamp_seconds", labels, pulse.last


def _conversations(runtime: Runtime) -> Iterator[Sample]:
    waiting: Counter[str] = Counter(dict.fromkeys(runtime.services.adapters, 0))
    count = longest = running = 0
    for address, depth, turn in runtime.router.depths():
        count += 1
        waiting[address.platform] += depth
        longest = max(longest, depth)
        running += turn
    yield "hermes_conversations_in_memory", {}, count
    for platform, depth in waiting.items():
        yield "hermes_queue_entries", {"platform": platform}, depth
    yield "hermes_queue_longest", {}, longest
    yield "hermes_turns_running", {}, running


def _outbox(runtime: Runtime) -> Iterator[Sample]:
    outbox = runtime.services.outbox
    unsent: Counter[str] = Counter()
    oldest: dict[str, float] = {}
    for platform, count, seconds in outbox.backlog():
        unsent[platform] += count
        oldest[platform] = max(oldest.get(platform, 0.0), seconds)
    for platform, sends in outbox.sends.items():
        labels = {"platform": platform}
        yield "hermes_outbox_messages", labels, unsent[platform]
        yield "hermes_outbox_oldest_seconds", labels, oldest.get(platform, 0.0)
        yield "hermes_outbox_sent_total", labels, sends.sent
        yield "hermes_outbox_retries_total", labels, sends.tried_again
        yield "hermes_outbox_undeliverable_total", labels, sends.undeliverable


def _histogram(name: str, labels: Mapping[str, str], histogram: Histogram) -> Iterator[Sample]:
    bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
    for bound, count in zip(bounds, itertools.accumulate(histogram.counts), strict=True):
        yield f"{name}_bucket", {**labels, "le": bound}, count
    yield f"{name}_sum", labels, histogram.total
    yield f"{name}_count", labels, sum(histogram.counts)


def written(found: Iterable[Sample]) -> str:
    """The text: each family once, in its order, with all its samples."""
    families: dict[str, list[str]] = {name: [] for name in FAMILIES}
    for name, labels, value in found:
        family = name if name in families else name.rpartition("_")[0]
        inside = ",".join(f'{key}="{_escaped(one)}"' for key, one in labels.items())
        place = f"{{{inside}}}" if inside else ""
        families[family].append(f"{name}{place} {_number(value)}")
    lines: list[str] = []
    for name, samples_ in families.items():
        if samples_:
            kind, help_ = FAMILIES[name]
            lines += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}", *samples_]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.9g}" if value < 1e9 else f"{value:.3f}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
