"""A reliable link over an unreliable one: a pure state machine, one at each end.

Each end numbers what it sends and keeps it until the other end has acknowledged it; the other end hands messages up in order,
once each, and acknowledges the last one in order. What is not acknowledged in time is sent again, with growing pauses.
Three numbers per direction say it all: what was sent last, what was acknowledged, what was received in order.

The host stores both ends' state with its broker's, in one transaction, before any frame leaves: an acknowledged message is then
never lost, and a number never used twice. An end that did lose its state begins a new, higher session. Every frame says which
session it is from and which one it is for: what was meant for an earlier life is not taken, and the answer shows the new one. The
other end then numbers its outbox afresh and asks for a resync, because what was acknowledged in the old session is gone.

The outbox is bounded. What does not fit is given back to the host, which tells of lost notifications; lost state is repaired by
comparing digests once the link works again (`resync`). Only what nobody could say again, such as a hand-over, is always taken.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from hanse.routing.messages import IRREPLACEABLE, BrokerMessage, innermost

WINDOW = 1_024  # messages on their way at a time
EARLY_BYTES_MAX = 64 << 20  # of those that came before their turn; more are not kept, and come again
OUTBOX_MAX = 100_000
IRREPLACEABLE_MAX = 100_000  # beyond the outbox's own bound
RETRY_MIN_MS = 1_000
RETRY_MAX_MS = 30_000


class Packed(Struct, frozen=True, tag=True):
    """A message that the host has encoded already, to store it and to send it; `keep`: nobody could say it again."""

    data: bytes
    keep: bool


def _must_keep(message: BrokerMessage | Packed) -> bool:
    return message.keep if type(message) is Packed else isinstance(innermost(message), IRREPLACEABLE)


def _size(message: BrokerMessage | Packed) -> int:
    return len(message.data) if type(message) is Packed else 0


class Frame(Struct, frozen=True, array_like=True):
    """A message with its number, and always an acknowledgement; number 0 is an acknowledgement alone."""

    session: int
    to_session: int  # 0: not known yet
    number: int
    acknowledges: int
    message: BrokerMessage | Packed | None = None


class LinkState(Struct):
    """What must outlive a crash."""

    session: int
    first: int = 1  # the number of the first message in the outbox
    outbox: list[BrokerMessage | Packed] = field(default_factory=list)
    irreplaceable: int = 0  # of these; they do not count for the bound
    peer_session: int = 0
    received: int = 0  # all up to this number were handed up
    overflowed: bool = False


class Output(Struct):
    """What the host does next: store, then send the frames; hand the messages to the broker; mind what was lost."""

    frames: list[Frame] = field(default_factory=list)
    messages: list[BrokerMessage | Packed] = field(default_factory=list)
    lost: list[BrokerMessage | Packed] = field(default_factory=list)
    resync: bool = False


class ReliableLink:
    def __init__(
        self, session: int = 1, *, state: LinkState | None = None, outbox_max: int = OUTBOX_MAX, ablations: tuple[str, ...] = ()
    ) -> None:
        self.state = state if state is not None else LinkState(session)
        self.outbox_max = outbox_max
        self.lost_count = 0
        self._sent = 0  # how many of the outbox are on their way
        self._early: dict[int, BrokerMessage | Packed] = {}
        self._early_bytes = 0
        self._pause_ms = RETRY_MIN_MS
        self._retry_at_ms: int | None = None
        self._deduplicates = "link-dedup" not in ablations
        self._orders = "link-order" not in ablations
        self._retransmits = "retransmit" not in ablations

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(self.state)

    @property
    def retry_at_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self._retry_at_ms

    def send(self, message: BrokerMessage | Packed, now_ms: int) -> Output:
        output = Output()
        state = self.state
        if _must_keep(message) and state.irreplaceable < IRREPLACEABLE_MAX:
            state.irreplaceable += 1
        elif len(state.outbox) - state.irreplaceable >= self.outbox_max:
            state.overflowed = True
            self.lost_count += 1
            output.lost.append(message)
            return output
        state.outbox.append(message)
        self._fill_window(output, now_ms)
        return output

    def _fill_window(self, output: Output, now_ms: int) -> None:
        state = self.state
        until = min(len(state.outbox), WINDOW)
        for i in range(self._sent, until):
            output.frames.append(self._frame(state.first + i, state.outbox[i]))
        if until > self._sent:
            self._sent = until
            if self._retry_at_ms is None:
                self._retry_at_ms = now_ms + self._pause_ms

    def _frame(self, number: int, message: BrokerMessage | Packed | None = None) -> Frame:
        state = self.state
        return Frame(state.session, state.peer_session, number, state.received, message)

    def receive(self, frame: Frame, now_ms: int) -> Output:
        output = Output()
        state = self.state
        if frame.session != state.peer_session:
            if frame.session < state.peer_session:
                return output  # from a life that has ended
            self._meet(frame.session, output)
        if frame.to_session == state.session:
            self._acknowledged(frame.acknowledges, output, now_ms)
        if frame.number:
            if frame.to_session in (0, state.session):
                self._take(frame, output)
            if not any(f.number for f in output.frames):  # frames with messages acknowledge too
                output.frames.append(self._frame(0))
            else:
                output.frames = [self._frame(f.number, f.message) for f in output.frames]
        return output

    def _meet(self, session: int, output: Output) -> None:
        """The other end is new, or has begun anew and lost all that it had acknowledged."""
        state = self.state
        if state.peer_session:
            state.first = 1
            self._sent = 0
            self._retry_at_ms = None
            output.resync = True
        state.peer_session = session
        state.received = 0
        self._early.clear()
        self._early_bytes = 0

    def _acknowledged(self, number: int, output: Output, now_ms: int) -> None:
        state = self.state
        done = number - state.first + 1
        if 0 < done <= len(state.outbox):
            state.irreplaceable -= sum(map(_must_keep, state.outbox[:done]))
            del state.outbox[:done]
            state.first += done
            self._sent = max(0, self._sent - done)
            self._pause_ms = RETRY_MIN_MS
            self._retry_at_ms = now_ms + self._pause_ms if state.outbox else None
            if state.overflowed and not state.outbox:
                state.overflowed = False
                output.resync = True
        self._fill_window(output, now_ms)

    def _take(self, frame: Frame, output: Output) -> None:
        state = self.state
        number, message = frame.number, frame.message
        if message is None:
            return
        if number <= state.received:
            if not self._deduplicates:
                output.messages.append(message)
            return
        if not self._orders:
            output.messages.append(message)
            state.received = max(state.received, number)
            return
        if number == state.received + 1:
            state.received = number
            output.messages.append(message)
        elif (
            number <= state.received + WINDOW
            and number not in self._early
            and self._early_bytes + _size(message) <= EARLY_BYTES_MAX
        ):
            self._early[number] = message
            self._early_bytes += _size(message)
        while state.received + 1 in self._early:
            state.received += 1
            early = self._early.pop(state.received)
            self._early_bytes -= _size(early)
            output.messages.append(early)

    @property
    def pause_ms(self) -> int:
        """How long it waits now before it sends again."""
        return self._pause_ms

    def hurry(self) -> None:
        """The other end is there again: the next tick sends at once, whatever pause there was."""
        self._retry_at_ms = None
        self._pause_ms = RETRY_MIN_MS // 2

    def tick(self, now_ms: int) -> Output:
        """Send again what has waited too long; after a restart everything has."""
        output = Output()
        state = self.state
        if not state.outbox or not self._retransmits:
            self._retry_at_ms = None
            return output
        if self._retry_at_ms is None or now_ms >= self._retry_at_ms:
            self._sent = 0
            self._pause_ms = min(self._pause_ms * 2, RETRY_MAX_MS)
            self._retry_at_ms = now_ms + self._pause_ms
            self._fill_window(output, now_ms)
        return output
