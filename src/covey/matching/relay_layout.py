"""The records that a broker and the kernel `relay` share: their fields, in one table (see `records`).

Every field is a number of 64 bits: a count, a place, or the address of an array, of a row or of an index's view. Rows
of one kind stand side by side, and a record is made of their address and a number: `TreeRow(router.trees, 2)`.

A *slot* is the number of a receiver, a client or a neighbour; slot 0 is nobody's, and what goes there is left to
Python. A *label* is the slot and the number of a subscription, by its handle in the local index.
"""

from __future__ import annotations

from covey.matching.records import Long, Record


class Turn(Record):
    """The arguments of a call: its arrays, where it is, and what it has found."""

    reads: Long  # rows of what has come in
    read_count: Long
    read: Long  # the current one
    events: Long  # rows of events that are laid out
    event_count: Long
    entries: Long  # rows of what goes to which slot
    entry_count: Long
    entry_room: Long
    sorted: Long  # the same, sorted by slot
    slots: Long
    touched: Long  # slots that are used
    chunks: Long
    chunk_count: Long
    out: Long  # room for MOST_WRITTEN bytes
    out_size: Long  # at most so many bytes go out
    written: Long  # whether they are in `out`
    scratch: Long  # room for one event, as are the next two
    floats: Long
    seen: Long
    missed: Long  # what is missing, or unlabelled
    missed_count: Long
    need_entries: Long
    notes: Long  # of events that go on
    notes_size: Long
    notes_room: Long


class ReadRow(Record):
    """Bytes that one link has sent: where they are, how far they are handled, and how many events that was."""

    address: Long
    at: Long
    end: Long
    limit: Long
    source: Long
    count: Long


class Source(Record):
    """A link in an epoch: who may say what, and the router."""

    router: Long
    slot: Long
    epoch: Long  # of a neighbour's events; that of a client's is ignored
    lane: Long  # whether all events go to Python
    is_client: Long
    publisher: Long
    guard: Long
    advertised: Long
    sample: Long  # whether events are sampled: those whose names, mixed, are below `below`
    below: Long
    trees: Long  # for each tree of the router, whether the neighbour may use it


class RouterRow(Record):
    """Local subscriptions with their labels, the events that were seen, the trees, and what was counted."""

    epoch: Long
    local: Long
    stamps: Long
    labels: Long
    seen: Long
    trees: Long
    tree_count: Long
    unadvertised: Long
    duplicates: Long
    region: Long  # 0 if events are not addressed
    dropped: Long  # brokers that they could not be sent on to


class TreeRow(Record):
    """A tree: its next hops, the slots of links by their numbers, and the slots of all open neighbours."""

    number: Long
    tells: Long
    hops: Long
    link_slots: Long
    slots: Long
    slot_count: Long


class Label(Record):
    """Whose a handle of the local index is, as of a stamp of the handle."""

    stamp: Long
    slot: Long
    sid: Long


class EventRow(Record):
    """An event that is laid out: its bytes, and the read that it came with."""

    address: Long
    size: Long
    read: Long


class Entry(Record):
    """An event that goes to a slot; `sid` below 0: onward, on a tree, flooded or not; from ADDRESSED down: onward,
    with notes."""

    slot: Long
    event: Long
    sid: Long


class SortedEntry(Record):
    """An entry among those of its slot."""

    event: Long
    sid: Long


class Chunk(Record):
    """Frames for one slot: the sorted entries from `first` to `last`, how many frames and bytes, and where they are."""

    slot: Long
    first: Long
    last: Long
    count: Long
    size: Long
    at: Long


class Slot(Record):
    """How many entries a slot has, and where the next one goes; no entries before and after a call."""

    count: Long
    place: Long


class Region(Record):
    """A plan with one copy of each event, as seen from here (addressing.py).

    Brokers are numbered in the order of their names; `far`, `parents` and `ways` have a row of numbers for each tree. A
    way is 0 if the link towards the broker is not open, and otherwise twice the link's slot, plus 1 if events may be
    sent over it now. `names` has the names in MessagePack, one after the other, and `starts` where they begin.
    """

    rule: Long
    here: Long
    brokers: Long
    trees: Long
    far: Long
    parents: Long
    ways: Long
    names: Long
    starts: Long
    room: Long  # rows of `Addressed`, as many as there are brokers
    most_notes: Long


class Addressed(Record):
    """Room for one event: the number, tree and way of a broker that it is for, how many ends are below a broker, and
    the slot and the place of the notes of a link that it goes on to."""

    number: Long
    tree: Long
    way: Long
    below: Long
    slot: Long
    place: Long
