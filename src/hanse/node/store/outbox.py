"""Notifications still to be delivered, and those that could not be: in the same transactions as what caused them."""

# ruff: noqa: S608  the columns are ours

from __future__ import annotations

import time

from msgspec import Struct

from hanse.node.store.connection import Writer


class Delivery(Struct, frozen=True, kw_only=True):
    id: int  # from `Store.next_delivery_id`
    subscription: str
    endpoint: str
    payload: bytes  # everything that is needed to send it again
    created_ms: int = 0
    attempts: int = 0
    due_ms: int = 0
    error: str = ""


class DeadLetter(Delivery, frozen=True, kw_only=True):
    reason: str = ""
    died_ms: int = 0


_COLUMNS = "id, subscription, endpoint, payload, created_ms, attempts, due_ms, last_error"
SELECT_DELIVERIES = f"SELECT {_COLUMNS} FROM deliveries ORDER BY id"
SELECT_DEAD_LETTERS = f"SELECT {_COLUMNS}, reason, died_ms FROM dead_letters WHERE id > ? ORDER BY id LIMIT ?"
SELECT_DEAD_LETTER = f"SELECT {_COLUMNS}, reason, died_ms FROM dead_letters WHERE id = ?"
NEWEST_DELIVERY = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name IN ('deliveries', 'dead_letters')"

_FIELDS = ("id", "subscription", "endpoint", "payload", "created_ms", "attempts", "due_ms", "error", "reason", "died_ms")


def delivery(row: tuple[object, ...]) -> Delivery:
    return Delivery(**dict(zip(_FIELDS, row, strict=False)))  # type: ignore[arg-type]


def dead_letter(row: tuple[object, ...]) -> DeadLetter:
    return DeadLetter(**dict(zip(_FIELDS, row, strict=True)))  # type: ignore[arg-type]


def _values(d: Delivery) -> tuple[object, ...]:
    return d.id, d.subscription, d.endpoint, d.payload, d.created_ms, d.attempts, d.due_ms, d.error


class PutDelivery(Struct, frozen=True):
    delivery: Delivery

    def apply(self, connection: Writer, /) -> None:
        connection.execute(
            f"INSERT OR REPLACE INTO deliveries({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", _values(self.delivery)
        )


class DropDeliveries(Struct, frozen=True):
    """They have arrived, or are of no use any more."""

    ids: tuple[int, ...]

    def apply(self, connection: Writer, /) -> None:
        connection.executemany("DELETE FROM deliveries WHERE id = ?", [(id_,) for id_ in self.ids])


class PostponeDelivery(Struct, frozen=True):
    id: int
    attempts: int
    due_ms: int
    error: str

    def apply(self, connection: Writer, /) -> None:
        connection.execute(
            "UPDATE deliveries SET attempts = ?, due_ms = ?, last_error = ? WHERE id = ?",
            (self.attempts, self.due_ms, self.error, self.id),
        )


class BuryDelivery(Struct, frozen=True):
    """It is not tried any more, and kept for someone to look at; the oldest ones make room."""

    delivery: Delivery
    reason: str

    def apply(self, connection: Writer, /) -> None:
        d = self.delivery
        connection.execute("DELETE FROM deliveries WHERE id = ?", (d.id,))
        cursor = connection.execute(
            f"INSERT OR IGNORE INTO dead_letters({_COLUMNS}, reason, died_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*_values(d), self.reason, time.time_ns() // 1_000_000),
        )
        connection.dead_letters += cursor.rowcount
        surplus = connection.dead_letters - connection.dead_letters_max
        if surplus > 0:
            cursor = connection.execute(
                "DELETE FROM dead_letters WHERE id IN (SELECT id FROM dead_letters ORDER BY id LIMIT ?)", (surplus,)
            )
            connection.dead_letters -= cursor.rowcount


class RemoveDeadLetters(Struct, frozen=True):
    ids: tuple[int, ...]

    def apply(self, connection: Writer, /) -> None:
        for id_ in self.ids:
            connection.dead_letters -= connection.execute("DELETE FROM dead_letters WHERE id = ?", (id_,)).rowcount
