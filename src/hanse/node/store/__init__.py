"""Where a node keeps everything: entities, their history, the log of changes, the outbox, and documents of other kinds."""

from hanse.node.store.batch import CommitFailed
from hanse.node.store.connection import Writer
from hanse.node.store.discovery import AttributeInfo, TypeInfo
from hanse.node.store.log import LoggedAttribute, LogRecord
from hanse.node.store.outbox import (
    BuryDelivery,
    DeadLetter,
    Delivery,
    DropDeliveries,
    PostponeDelivery,
    PutDelivery,
    RemoveDeadLetters,
)
from hanse.node.store.schema import StoreError
from hanse.node.store.search import Found
from hanse.node.store.store import Store
from hanse.node.store.times import now_us, to_us
from hanse.node.store.writes import DeleteDocument, PutDocument, SaveChange, Write

__all__ = [
    "AttributeInfo",
    "BuryDelivery",
    "CommitFailed",
    "DeadLetter",
    "DeleteDocument",
    "Delivery",
    "DropDeliveries",
    "Found",
    "LogRecord",
    "LoggedAttribute",
    "PostponeDelivery",
    "PutDelivery",
    "PutDocument",
    "RemoveDeadLetters",
    "SaveChange",
    "Store",
    "StoreError",
    "TypeInfo",
    "Write",
    "Writer",
    "now_us",
    "to_us",
]
