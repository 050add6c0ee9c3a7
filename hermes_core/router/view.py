"""View: what a command may do with the conversation in which it was typed."""

from __future__ import annotations

from collections.abc import Iterable

from hermes_core import inbox
from hermes_core.commands import Entered, Snapshot, parse
from hermes_core.errors import NotAllowed
from hermes_core.hookspecs import Answer
from hermes_core.inbox import Drop, Halt, Receipt, Signal, Start
from hermes_core.messages import Entry, EntryState, Role, When
from hermes_core.permission import Permission
from hermes_core.router.conversation import Conversation
from hermes_core.router.order import Order
from hermes_core.router.services import Services
from hermes_core.store import Admission

__all__ = ["View", "entered"]


def entered(id_: str, number: int = 1) -> str:
    """The id of the `number`-th entry that the command with this id puts in: the same one whenever it runs."""
    return f"{id_}{inbox.ENTERED}{number}"


class View:
    """`hermes_core.commands.ConversationView` for one command entry."""

    __slots__ = ("_conversation", "_entered", "_entry", "_order", "_role", "_services")

    def __init__(
        self, services: Services, conversation: Conversation, entry: Entry, role: Role, order: Order
    ) -> None:
        self._services = services
        self._conversation = conversation
        self._entry = entry
        self._role = role
        self._order = order
        self._entered = 0

    def snapshot(self) -> Snapshot:
        """The state at this instant."""
        one = self._conversation
        running = one.state.phase not in (inbox.Phase.IDLE, inbox.Phase.GATHERING)
        return Snapshot(
            one.address,
            one.activity.state,
            one.state.turns if running else None,
            one.activity.tool,
            inbox.waiting(one.state),
            tuple(inbox.notes(one.state)),
            one.state.replies,
            one.mode,
            self._services.model_name,
            len(one.records()),
            sum(entry.when is When.AT_REPLY for entry in one.state.carried),
            tuple(info.name for info in self._services.plugins.infos.values() if info.problem),
            one.failure,
            one.failed_at,
        )

    def find(self, short: str) -> Entry | None:
        """The message that waits under this short id."""
        return inbox.find_short(self._conversation.state, short)

    async def cancel(self, ids: Iterable[str]) -> list[Entry]:
        """Cancel waiting entries that the person may cancel: the own ones, an admin any (D2)."""
        if self._role < Role.ADMIN:
            found = [inbox.find(self._conversation.state, id_) for id_ in ids]
            ids = [one.id for one in found if one is not None and one.author.id == self._entry.author.id]
        return self._conversation.cancel(ids)

    async def enter(self, text: str, when: When, quote: str | None = None) -> Entered:
        """Put `text` in as an entry of the person who typed the command; gives what became of it."""
        admission = await self._admit(text, when, quote=quote)
        if not admission.fresh:
            return Entered("known")
        with self._order.asking:
            entry = admission.entry  # plugins see every message before the table does (P3)
            given = await self._services.plugins.first("hermes_message", entry=entry, conversation=self)
            if isinstance(given, Answer):
                await self._conversation.settle(entry, EntryState.HANDLED, given.text)
                return Entered("answered")
            entry = entry if given is None else await self.changed(entry, given)
            effects = self._conversation.arrive(entry, self._role, receipt=False)
        for effect in effects:
            if isinstance(effect, Receipt):
                return Entered(effect.kind, effect.position)
            if isinstance(effect, Halt):
                return Entered("interrupting")
        return Entered("started" if any(isinstance(one, Start) for one in effects) else "queued")

    async def changed(self, entry: Entry, given: object) -> Entry:
        """The message as it is after what a plugin gave for it, which was no answer."""
        if isinstance(given, Entry) and given.id == entry.id:
            await self._conversation.amended(given)
            return given
        return entry

    async def note(self, text: str, replies: int) -> Entry:
        """Keep `text` for the first turn that starts after `replies` more replies (A1)."""
        at = self._conversation.state.replies + replies
        admission = await self._admit(text, When.AT_REPLY, at=at)
        return admission.entry

    async def _admit(
        self, text: str, when: When, *, at: int | None = None, quote: str | None = None
    ) -> Admission:
        # The id is made from the command's own: when a crash makes the command run again, this is
        # found again and not put in twice (D6).
        self._entered += 1
        source = self._entry
        entry = Entry(
            entered(source.id, self._entered),
            source.address,
            source.author,
            text,
            when,
            at_reply=at,
            group=source.group,
            attachments=source.attachments,
            quote=quote,
            arrived=source.arrived,
            by=self._command(),
        )
        store = self._services.store
        with self._order.writing:
            admission = await self._services.durably(lambda: store.admit(entry), self._conversation.refused)
            if admission.fresh and when is When.AT_REPLY:  # no plugin is asked, so it is there at once
                self._conversation.arrive(admission.entry, self._role)
            return admission

    def _command(self) -> str:
        called = parse(self._entry.text) if self._entry.command else None
        found = self._services.plugins.commands.get(called[0]) if called is not None else None
        return found.name if found is not None else ""

    async def stop(self) -> tuple[bool, list[Entry]]:
        """I10: whether a turn ran, and what was cancelled."""
        return self._end(Signal.STOP)

    async def interrupt(self) -> bool:
        """I10: end the running turn and let what waits begin."""
        return self._end(Signal.BREAK)[0]

    async def reset(self) -> tuple[bool, list[Entry]]:
        """T7: whether a turn was stopped, and what was cancelled."""
        state = self._conversation.state
        lost = state.phase is not inbox.Phase.COMMITTING  # what a turn carries that may still be stopped
        riding = [one for one in state.carried if lost and one.when is When.AT_REPLY]
        ran, dropped = self._end(Signal.RESET)
        # Only then is it true, and written: a crash before makes the command run again (D6).
        await self._conversation.renewed()
        return ran, [*dropped, *riding]

    def _end(self, signal: Signal) -> tuple[bool, list[Entry]]:
        people = self._conversation.state.people
        if self._role < Role.ADMIN and people and self._entry.author.id not in people:
            raise NotAllowed("Somebody else's work runs here.", "Only that person or an admin can stop it.")
        effects = self._conversation.signal(signal)
        dropped = [entry for one in effects if isinstance(one, Drop) for entry in one.entries]
        return any(isinstance(one, Halt | Start) for one in effects), dropped

    async def set_busy(self, mode: When | None) -> When:
        """Set the busy mode of this conversation; gives what holds now."""
        await self._conversation.set_busy(mode)
        return self._conversation.mode

    def tools(self) -> dict[str, Role]:
        """The tools as they are here."""
        return {name: one.role for name, one in self._services.tools(self._conversation.address).items()}

    def permissions(self) -> list[Permission]:
        """The tool calls that wait here for a yes."""
        return self._services.permissions.waiting(self._conversation.address)

    def permit(self, id: str, allow: bool, always: bool = False) -> Permission:
        """Answer one of them for the person who typed the command."""
        return self._services.permissions.decide(
            self._conversation.address, id, self._entry.author, self._role, allow=allow, always=always
        )

    async def quote(self, latest: int) -> tuple[int, str] | None:
        """Number and text of the `latest`-th latest reply."""
        number = self._conversation.state.replies - latest + 1
        with self._order.asking:  # what is written behind a /reply does not overtake it
            found = await self._services.store.replies(self._conversation.address, [number])
        return (number, found[number]) if number in found else None

    async def quoted(self, platform_id: str) -> str | None:
        """The agent's text that stands on the platform under this message id."""
        return await self._services.store.text_of(self._conversation.address, platform_id)
