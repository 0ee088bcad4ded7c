"""The records of the attribute index: their fields, in one table (`records` says how kernels use it).

Places in the heap and in the blocks are counted in words of 8 bytes; 0 is no record. What follows a record of variable
length, such as the rows of a list, is described where it is made.
"""

from __future__ import annotations

from typing import Final

from covey.matching.records import WORD, Float, Int, Long, Record

LINE: Final = 8  # words of a line in `blocks`


class Constraint(Record, array="f", unit=WORD):
    """An interned constraint (constraints.py)."""

    low: Float
    high: Float
    channel: Int
    references: Int
    simple_list: Int
    verify_list: Int


class RowList(Record, array="f", unit=WORD):
    """The header of a list of rows (lists.py)."""

    length: Int
    capacity: Int
    kind: Int
    next: Int
    owner: Int
    visits: Int
    links: Long  # bit n stands for link n, bit 62 for all from 62 up


class Directory(Record, array="f", unit=WORD):
    """The header of a directory of sorted buckets (ranges.py)."""

    channel: Int
    side: Int
    count: Int  # buckets
    room: Int  # for so many
    next: Int
    list_kind: Int
    exponent: Int
    _unused: Int
    width: Float


class Channel(Record, array="channels"):
    """What is known of a channel, and the ways from it to rows."""

    first_directory: Int
    references: Int
    ranges: Int
    absence: Int
    short_simple: Int
    short_verify: Int
    postings: Int
    first_grid: Int
    equal_rows: Int  # rows in lists of its equalities; without any, they are not looked for


class Bounds(Record, array="bounds"):
    """The least and the greatest end of the ranges on a channel."""

    least: Float
    greatest: Float


class Value(Record, array="values"):
    """What the present query says of a channel, as an interval; NaN for nothing."""

    low: Float
    high: Float


class Extra(Record, array="extra"):
    """A row of a filter with several conjunctions, whose id is the complement of its number here."""

    home: Int
    handle: Int
    group: Int
    stamp: Int


class Grid(Record, array="f", unit=WORD):
    """The header of a grid (grids.py)."""

    columns: Int
    first_block: Int
    next: Int
    anchor: Int
    rows: Int
    extra: Int  # whether there ever was a row of a filter with several conjunctions
    free_columns: Int  # bits of the columns on which there ever was a free row
    stale: Int  # how often of late a query had too much to look up, up to IS_STALE


class Block(Record, array="b", unit=LINE * WORD):
    """The first line of a block of a grid; a block's place is the number of that line."""

    length: Int
    grid: Int
    next: Int
    height: Int
    links: Long


class Key(Record, array="f", unit=WORD):
    """A key of atoms (judging.py); behind it are its number or its bytes, and a gram has its stamp there."""

    next: Int
    head: Int
    owner: Int
    shape: Int  # its kind and the number of its bytes
    number: Float


class Gram(Record, array="f", unit=WORD):
    """A key of three bytes at most."""

    _key: Long
    _owner_and_shape: Long
    _text: Int
    stamp: Int


class Owner(Record, array="f", unit=WORD):
    """The heads of an attribute's lists of entries (judging.py)."""

    general: Int
    lengths: Int
    sizes: Int


class Entries(Record, array="f", unit=WORD):
    """The header of a list of entries of a key or an owner; its first entry follows."""

    length: Int
    capacity: Int


class Program(Record, array="f", unit=WORD):
    """A test in full (judging.py). Intervals of numbers follow, as closed ends; then places and lengths of bytes,
    counted from the program's start: those of texts (-1: there is no end) and of patterns."""

    channel: Int
    flags: Int
    numbers: Int
    texts: Int
    likes: Int
    unlikes: Int
    words: Int
    gram: Int


class AttributeRow(Record):
    """An attribute that filters ask for: its channels, 0 if it has none (channels.py)."""

    number: Int
    symbol: Int
    absence: Int
    presence: Int
    kind: Int
    atoms: Int  # their owner
    special: Int


class Point(Record):
    """An attribute of an event, as `checking.read_attributes` finds it: where its parts are, and what it is."""

    name_first: Long
    name_last: Long
    value_first: Long
    value_last: Long
    end: Long
    kind: Long
    hash: Long


class Missing(Record):
    """A value that compiled code cannot judge (view.py): whose it is in which view, and where its bytes are."""

    view: Long
    owner: Long
    address: Long
    size: Long


class Odd(Record):
    """A value of a batch that is left to Python (unpacking.py): its place among the points, whose it is, its bytes."""

    place: Long
    owner: Long
    first: Long
    last: Long


class OddPoint(Record):
    """The same of a block of columns: its place among the points, and which of the block's points it is."""

    place: Long
    point: Long
