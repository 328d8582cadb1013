"""The links of a node: a `ReliableLink` to each neighbour, kept in the store, over a transport that promises nothing.

What is to be sent is staged with what caused it; it leaves when both are on the disk. So is every acknowledgement. After a
crash each link goes on where the disk says it was, and what the other end has already it does not take twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from hanse.node.federation import keeping, wire
from hanse.node.federation.keeping import LinkNumbers, Owed, SaveFederation
from hanse.routing.link import Frame, LinkState, Output, Packed, ReliableLink

if TYPE_CHECKING:
    import sqlite3

EARLY_BYTES_MAX: Final = 1 << 16  # of a message that comes before its turn and is remembered; larger ones have to come again
FRAME_BYTES_AT_ONCE: Final = 1 << 20  # of frames in one packet, beyond which another one begins
FRAMES_AT_ONCE: Final = 128  # likewise: so that the other end handles some while more are on their way
PATIENCE_MS: Final = 4_000  # a pause that is not cut short whenever the other end is heard


class _Peer:
    """One end of a link, and the rows of the store that its outbox is in."""

    def __init__(self, link: ReliableLink, rows: Iterable[int] = ()) -> None:
        self.link = link
        self.rows = deque(rows)
        self.sent = 0
        self.received = 0
        self.lost = 0


class Staged(Struct):
    """What waits for the disk: to be written, and then to be sent to whom."""

    save: SaveFederation = field(default_factory=SaveFederation)
    frames: dict[str, list[Frame]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return self.save.is_empty and not self.frames


class Links:
    """`lost`: called for every message that a full outbox did not take; `resync`: state may be missing at the other end."""

    def __init__(self, lost: Callable[[str, bytes], None], resync: Callable[[str], None]) -> None:
        self._lost = lost
        self._resync = resync
        self._peers: dict[str, _Peer] = {}
        self._next_row = 1
        self.staged = Staged()

    def restore(self, connection: sqlite3.Connection, now_ms: int) -> None:
        """As the disk says; whatever was in memory is forgotten."""
        self._peers.clear()
        self.staged = Staged()
        owed: dict[str, list[Owed]] = {}
        for row in keeping.read_owed(connection):
            owed.setdefault(row.peer, []).append(row)
            self._next_row = max(self._next_row, row.n + 1)
        for peer, numbers in keeping.read_links(connection).items():
            rows = owed.pop(peer, [])
            self._peers[peer] = _Peer(_restored(numbers, rows), (row.n for row in rows))
        for peer, rows in owed.items():
            link = _restored(LinkNumbers(now_ms, 1, 0, 0, False), rows)
            self._peers[peer] = _Peer(link, (row.n for row in rows))

    def open(self, peers: Iterable[str], now_ms: int) -> None:
        """Links to these from now on. Those to others stay as they are: a neighbour may come back."""
        for peer in peers:
            if peer not in self._peers:
                self._peers[peer] = _Peer(ReliableLink(now_ms))
                self._note(peer)

    def take(self) -> Staged:
        staged, self.staged = self.staged, Staged()
        return staged

    # --- out --------------------------------------------------------------------------------------------------------

    def send(self, peer: str, data: bytes, *, keep: bool, now_ms: int) -> None:
        end = self._peers.get(peer)
        if end is None:
            self._lost(peer, data)
            return
        output = end.link.send(Packed(data, keep), now_ms)
        if output.lost:
            end.lost += 1
            self._lost(peer, data)
            self._note(peer)
            return
        end.sent += 1
        end.rows.append(self._next_row)
        self.staged.save.owed.append(Owed(self._next_row, peer, keep, data))
        self._next_row += 1
        self._stage(peer, output)

    def tick(self, now_ms: int) -> None:
        """What has not been acknowledged in time is staged again."""
        for peer, end in self._peers.items():
            retry_at = end.link.retry_at_ms
            if (retry_at is None and end.rows) or (retry_at is not None and now_ms >= retry_at):
                self._stage(peer, end.link.tick(now_ms))

    def greet(self, peer: str, now_ms: int) -> None:
        """The neighbour is there again: what waits for it need not wait for the next pause to be over."""
        end = self._peers.get(peer)
        if end is not None and end.rows:
            end.link.hurry()
            self._stage(peer, end.link.tick(now_ms))

    def nudge(self, peer: str, now_ms: int) -> None:
        """The other end was heard: if what waits for it waits for long, it may as well try now."""
        end = self._peers.get(peer)
        if end is not None and end.link.pause_ms > PATIENCE_MS:
            self.greet(peer, now_ms)

    def revise(self, peer: str, revised: Callable[[bytes], bytes]) -> int:
        """What waits for a neighbour, in the form in which it may go there now; gives how much of it is another."""
        end = self._peers.get(peer)
        if end is None:
            return 0
        others: dict[int, Packed] = {}
        for i, (row, packed) in enumerate(zip(end.rows, end.link.state.outbox, strict=True)):
            if type(packed) is Packed and (data := revised(packed.data)) is not packed.data:
                others[end.link.state.first + i] = end.link.state.outbox[i] = Packed(data, packed.keep)
                self.staged.save.revised.append(Owed(row, peer, packed.keep, data))
        frames = self.staged.frames.get(peer, [])
        frames[:] = [replace(frame, message=others[frame.number]) if frame.number in others else frame for frame in frames]
        return len(others)

    # --- in ---------------------------------------------------------------------------------------------------------

    def receive(self, peer: str, frames: list[wire.WireFrame], now_ms: int) -> list[bytes]:
        """The messages that have come, in order, each once."""
        end = self._peers.get(peer)
        if end is None:
            return []
        found: list[bytes] = []
        waits = len(end.link.state.outbox)
        acknowledgement: Frame | None = None
        resync = False
        for wired in frames:
            if wired.message is not None and len(wired.message) > EARLY_BYTES_MAX and _is_early(wired, end.link.state):
                continue
            packed = Packed(wired.message, False) if wired.message is not None else None
            output = end.link.receive(Frame(wired.session, wired.to_session, wired.number, wired.acknowledges, packed), now_ms)
            found += [message.data for message in output.messages if type(message) is Packed]
            resync = resync or output.resync
            if output.frames and not output.frames[-1].number:
                acknowledgement = output.frames.pop()  # the last one says it all
            self._stage(peer, output)
        if acknowledgement is not None:
            self._stage(peer, Output(frames=[acknowledgement]))
        end.received += len(found)
        done = waits - len(end.link.state.outbox)
        if done > 0:
            self.staged.save.settled += [end.rows.popleft() for _ in range(done)]
        if done > 0 or found or resync:
            self._note(peer)
        if resync:
            self._resync(peer)
        return found

    # --- what is staged ---------------------------------------------------------------------------------------------

    def _stage(self, peer: str, output: Output) -> None:
        if output.frames:
            self.staged.frames.setdefault(peer, []).extend(output.frames)

    def _note(self, peer: str) -> None:
        self.staged.save.links[peer] = keeping.numbers(self._peers[peer].link.state)

    # --- to look at -------------------------------------------------------------------------------------------------

    def waiting(self) -> dict[str, int]:
        return {peer: len(end.rows) for peer, end in self._peers.items()}

    def counts(self) -> dict[str, dict[str, int]]:
        return {
            peer: {"sent": end.sent, "received": end.received, "waiting": len(end.rows), "lost": end.lost}
            for peer, end in self._peers.items()
        }


def _is_early(frame: wire.WireFrame, state: LinkState) -> bool:
    return frame.number > (state.received if frame.session == state.peer_session else 0) + 1


def _restored(numbers: LinkNumbers, rows: list[Owed]) -> ReliableLink:
    state = LinkState(
        numbers.session,
        first=numbers.first,
        outbox=[Packed(row.message, row.keep) for row in rows],
        irreplaceable=sum(row.keep for row in rows),
        peer_session=numbers.peer_session,
        received=numbers.received,
        overflowed=numbers.overflowed,
    )
    return ReliableLink(state=state)


def packets(frames: list[Frame]) -> Iterable[bytes]:
    """Frames as they travel, in pieces of a decent size."""
    piece: list[wire.WireFrame] = []
    size = 0
    for frame in frames:
        data = frame.message.data if type(frame.message) is Packed else None
        if piece and (size + len(data or b"") > FRAME_BYTES_AT_ONCE or len(piece) >= FRAMES_AT_ONCE):
            yield wire.encode(piece)
            piece, size = [], 0
        piece.append(wire.WireFrame(frame.session, frame.to_session, frame.number, frame.acknowledges, data))
        size += len(data or b"")
    if piece:
        yield wire.encode(piece)
