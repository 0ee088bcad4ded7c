"""Figure 4 and Example 2, step by step: subscription S0 comes to a network that has S1, S2 and S3.

The producer P1 is at N3, below which are N1 and the consumer C3; below N1 are C1, with S1 and S3, and C2, with S2, who
then registers S0. The text has S3 substituted by S0, which needs S0 above S3; the caption has S1 above S3 instead.
Both readings are computed.
"""

from __future__ import annotations

from collections.abc import Mapping

from covey.core.filter import Filter
from covey.core.xpath.filter import parse_xpath
from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_x.properties import strategy_of
from covey.routing.messages import Message, Update
from covey.sim.network import Network

NAME = "x-example"
LINKS = (("P1", "N3"), ("N3", "N1"), ("N3", "C3"), ("N1", "C1"), ("N1", "C2"))

# Reading -> filters; [p][q] is below [p] and [q]. S0 and S1 are above S2 in both.
READINGS: dict[str, dict[str, str]] = {
    "S0 above S3": {"S0": "/a[p]", "S1": "/a[q]", "S2": "/a[p][q]", "S3": "/a[p][r]"},
    "S1 above S3": {"S0": "/a[p]", "S1": "/a[q]", "S2": "/a[p][q]", "S3": "/a[q][r]"},
}
EXPECTED: dict[str, str] = {
    "C2 tells N1": "S0;1;0",
    "N1 tells N3": "S0;1;1 S1;0;-1",
    "link of N1 to C1": "S1;1;0 S3;1;0",
    "link of N1 to C2": "S0;1;1",
    "entries of N1": "S0;1;2 S1;1;0 S3;1;0<S0",
    "link of N3 to N1": "S0;1;2 S1;1;0",
    "entries of N3": "S0;1;2 S1;1;0",
}


def cells(scale: Scale) -> list[Cell]:
    """Return both readings."""
    return [{"reading": reading} for reading in READINGS]


def run(cell: Cell) -> list[Row]:
    """Compute one reading: a row for each thing that the text determines."""
    filters = {name: parse_xpath(text) for name, text in READINGS[str(cell["reading"])].items()}
    found = example(filters)
    return [
        {"step": step, "expected": expected, "found": found[step], "same": found[step] == expected}
        for step, expected in EXPECTED.items()
    ]


def example(filters: Mapping[str, Filter]) -> dict[str, str]:
    """Carry out the example; return what was said and what brokers have, as (filter; own; others) and `<` its top."""
    names = {filter: name for name, filter in filters.items()}
    net = Network(LINKS, "xroute")
    net.advertise("P1", parse_xpath("/*"))
    for broker, name in (("C1", "S1"), ("C1", "S3"), ("C2", "S2")):
        net.subscribe(broker, filters[name])
        net.settle()
    found: dict[str, str] = {}

    def note(sender: str, receiver: str, message: Message) -> None:
        if isinstance(message, Update):
            triples = [f"{names[t.filter]};{t.own};{t.others}" for t in message.triples]
            found[f"{sender} tells {receiver}"] = " ".join(triples)

    net.observer = note
    net.subscribe("C2", filters["S0"])
    net.settle()
    for broker, link in (("N1", "C1"), ("N1", "C2"), ("N3", "N1")):
        heard = strategy_of(net, broker).heard(link)
        facts = (f"{names[fact.filter]};{fact.counts[0]};{fact.counts[1]}" for fact in heard)
        found[f"link of {broker} to {link}"] = " ".join(sorted(facts))
    for broker, upstream in (("N1", "N3"), ("N3", "P1")):
        entries = strategy_of(net, broker).instances[upstream].entries.values()
        texts = (
            f"{names[e.filter]};{e.own};{e.others}" + (f"<{names[e.above.filter]}" if e.above else "")
            for e in entries
        )
        found[f"entries of {broker}"] = " ".join(sorted(texts))
    return found


EXAMPLE = Experiment(NAME, "X", "The example of Figure 4, under two readings of its caption", cells, run)
