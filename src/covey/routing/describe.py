"""Messages as one line of text for people: for transcripts, traces and errors."""

from __future__ import annotations

from covey.routing.digest import Fact
from covey.routing.messages import (
    Advertise,
    Change,
    Congestion,
    Echo,
    Greet,
    LinkDown,
    LinkUp,
    Message,
    Pack,
    Probe,
    Publish,
    Subscribe,
    Sync,
    Unadvertise,
    Unsubscribe,
    Update,
)


def describe(message: Message) -> str:
    """Return what the message says."""
    text = _text(message)
    tree = getattr(message, "tree", 0)
    return f"{text} (tree {tree})" if tree else text


def _text(message: Message) -> str:
    match message:
        case Advertise():
            return f"advertise {message.key}: {message.filter}"
        case Unadvertise():
            return f"unadvertise {message.key}"
        case Subscribe():
            home = f" (home {message.home})" if message.home else ""
            return f"subscribe {message.key}: {message.filter}{home}"
        case Unsubscribe():
            return f"unsubscribe {message.key}{_distances(message)}"
        case Pack():
            return f"pack [{'; '.join(map(_text, message.messages))}]"
        case Update():
            triples = [
                f"({triple.filter}; {triple.own:+d}; {triple.others:+d})" for triple in message.triples
            ]
            return f"update {' '.join(triples)}"
        case Change():
            parts = [f"-[{filter}]" for filter in message.removed] + [
                f"+[{filter}]" for filter in message.added
            ]
            return f"change {' '.join(parts)}"
        case Publish():
            return _event(message)
    return _link_text(message)


def _distances(message: Unsubscribe) -> str:
    if message.distances is None:
        return ""
    named = [
        f"{publisher}: {'/'.join(f'{distance:g}' for distance in distances)}"
        for publisher, distances in message.distances.items()
    ]
    return f" (critical distances {', '.join(named) or 'none'})"


def _event(message: Publish) -> str:
    notes = []
    if message.destinations is not None:
        notes.append(f"for {', '.join(message.destinations)}")
    if message.detours:
        notes.append("on a detour")
    if message.flooded:
        notes.append("flooded")
    content = message.event
    if isinstance(content, set | frozenset):
        content = sorted(content)
    noted = f" ({'; '.join(notes)})" if notes else ""
    return f"event {message.id} {content}{noted}"


def _link_text(message: Message) -> str:
    match message:
        case Greet():
            ends = f"{len(message.advertisements)} and {len(message.subscriptions)} digests"
            return f"greet: {message.dialect}; {ends}"
        case Sync():
            facts = [_fact(fact) for bucket in sorted(message.changed) for fact in message.changed[bucket]]
            return f"sync {message.what}: {'; '.join(facts) or 'nothing has changed'}"
        case Probe() | Echo():
            return f"{type(message).__name__.lower()} {message.id}"
        case LinkUp() | LinkDown() | Congestion():
            return type(message).__name__
    return repr(message)


def _fact(fact: Fact) -> str:
    counts = f" ×{'+'.join(map(str, fact.counts))}" if fact.counts else ""
    return f"{fact.key + ': ' if fact.key else ''}{fact.filter}{counts}"
