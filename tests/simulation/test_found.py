"""What trials of whole brokers have found: the smallest script of each, which must find nothing any more."""

from __future__ import annotations

import pytest

from covey.sim.broker_script import Script
from covey.sim.broker_trial import BrokerTrial

FOUND = {
    # An event that two neighbours had sent could not be kept: it was tried again for the first, and the second one
    # never heard what had become of it, and kept it for ever.
    "an event of two neighbours on a full disk": """
        seed 218
        links a-b b-c a-c
        publisher p2 at c
        0      full a
        0.003  publish p2 5 confirmed
        12     publish p2 1 confirmed
    """,
    # The disk could not remove a durable subscription: the broker forgot it, and the disk kept it with its queue.
    "a durable subscription that cannot be removed": """
        seed 158
        delay_ms 5
        reader r1 at a
        0.05   fail a 3
        0      forget r1
        0.3    fail a 5
    """,
    # A broker says once that it is ready for a plan. If a link was down at that moment, nobody heard of it, and the
    # installation failed. Here the installing broker does not know that another one has used the epoch's number, so
    # that links begin anew.
    "a broker is ready for a plan while its link is down": """
        seed 393
        links a-b a-c c-d d-e c-f e-f
        strategy simple
        window 1
        again_after_s 20
        store_bytes 6000
        users True
        final plans
        reader r2 at a
        listener l1 at f
        publisher p2 at a
        0.3    drain a
        3      publish p2 2 confirmed
        0.003  install c 1
        35     unreadable b
        0.003  publish p2 5 confirmed
    """,
}


@pytest.mark.parametrize("name", FOUND)
def test_it_is_mended(name: str) -> None:
    assert BrokerTrial(Script.parse(FOUND[name])).run().findings == ()
