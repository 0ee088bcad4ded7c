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
    # While c looked for a copy of a damaged event, its link to a came back. It asked a, a asked b, and b asked c: all
    # three waited for each other, and the events behind the damaged one waited for 30 s.
    "a link comes back while a copy is looked for": """
        seed 245
        links a-b a-c b-c
        strategy match-first
        again_after_s 5
        users True
        reader r1 at c
        publisher p1 at c
        0.01   deafen b a
        0.001  move r1 b
        0      publish p1 5 confirmed
        0      rest
        0.01   deafen a b
        0      rest
        0.001  silence a c
        0      publish p1 2 confirmed
        0.001  move r1 c
        0.001  takeover r1
        0      flip c 5
        0      rest
    """,
    # Confirmed events went to the queue of a client once they were on disk, when nobody knew any longer who had sent
    # them: with the policy block nobody had to wait, and the queue grew.
    "confirmed events for a client that does not read": """
        seed 7081
        links a-b
        queue_events 10
        policy block
        listener l1 at a
        publisher p1 at b
        0      subscribe l1 n>=0
        0.3    stop-reading l1
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        1.2    rest
    """,
    # The trial itself: an answer that came after its client had left was taken for one to the client that came back.
    "a client leaves before it is answered": """
        seed 62
        links a-b a-c
        listener l1 at c
        publisher p2 at b
        0.3    subscribe l1 x>=5
        0      leave l1
        0.003  move p2 c
    """,
    # The trial itself: a durable subscription from which its client has gone to another broker is read by nobody.
    "a durable subscription that is not read": """
        seed 62
        links a-b a-c
        strategy flooding
        reader r1 at b
        publisher p2 at b
        0      move r1 a
        1.2    rest
        0      move r1 c
        0      rest
        0.01   forget r1
        0      move r1 a
    """,
    # The trial itself: a client asked its broker to forget a durable subscription, and went to another broker before it
    # was answered. The subscription may be there, or not.
    "a client goes before its durable subscription is forgotten": """
        seed 955
        links a-c b-c
        advertisements False
        reader r1 at a
        0      forget r1
        0      move r1 b
    """,
    # The trial itself: a delivery that waits to be acknowledged was counted after its event was damaged and given up.
    "a delivery whose event is damaged and lost": """
        seed 2530
        links a-b
        window 1
        again_after_s 5
        reader r1 at a
        publisher p2 at b
        0.01   deaf r1
        0.01   publish p2 5 confirmed
        0.01   flip a 0
        12     read p2
    """,
    # Events waited for room at b while what they were published under was withdrawn, and with it the subscriptions by
    # which match-first finds the way to the brokers that are written on an event: b dropped them.
    "an advertisement is withdrawn while its events wait": """
        seed 2379
        links a-b b-c
        strategy match-first
        reader r1 at c
        publisher p1 at a
        1.2    full b
        0.3    publish p1 5 confirmed
        0.05   unadvertise p1
    """,
    # A broker that had hung asked everyone for a client's flush, in an epoch that the others had retired; then it heard
    # of that, and the flush was never answered.
    "a client flushes in an epoch that is retired": """
        seed 1394
        links a-b a-c
        delay_ms 5
        reader r1 at a
        reader r2 at a
        publisher p1 at b
        publisher p2 at c
        0.01   publish p1 5 confirmed
        0.003  publish p2 1 confirmed
        0.3    advertise p2 x<=3
        0.001  none a
        0.003  install b 2
        0.001  unsubscribe l1
        0      publish p2 1 confirmed
        3      publish p1 5 confirmed
        0.001  publish p2 2 confirmed
        0.001  advertise p1 x<=7
        0.3    publish p1 1 confirmed
        0.3    restart a
        0.3    install a 1
        0.01   kill a 0
        0.3    restart a
        0      none a
        0      unadvertise p2
        0.003  publish p2 3 confirmed
        0      hang c
        0.01   flush p2
        35     advertise p2 x>=5
        0.003  publish p1 2 confirmed
        0      publish p1 1 confirmed
    """,
    # The trial itself: a connection that had not heard that another one took over came back, with its former filter.
    "a connection comes back that was taken over": """
        seed 6587
        links a-b
        reader r1 at a
        listener l1 at b
        publisher p2 at b
        0      move r1 b
        1.2    subscribe l1 x>=5
        0.001  publish p2 3 plain
        0      leave p2
        0.003  stall-client r1 20
        3      takeover r1
        0      refilter r1 x>=5
        1.2    publish p2 2 confirmed
    """,
    # The checker itself: events were sent again after a kill. Some of them were asked for only by then, and came behind
    # others that had been delivered when they were sent first.
    "events are sent again, and more of them are asked for": """
        seed 2006
        links a-c c-d
        reader r1 at d
        listener l2 at c
        publisher p1 at a
        0.003  publish p1 5 confirmed
        12     kill a 6
        0.01   publish p1 5 confirmed
        1.2    refilter r1 x<>5
    """,
    # The checker itself: some events were refused, which their publisher did not hear, and later ones were taken; then
    # it lost its connection, and sent them all again.
    "events are sent again of which some were refused": """
        seed 4449
        links a-b
        reader r1 at b
        publisher p1 at a
        0.01   drop r1
        0.003  fail a 2
        0.05   stop-reading p1
        3      publish p1 3 confirmed
        3      room b
        0      publish p1 5 confirmed
        0.001  drop p1
    """,
    # The checker itself: what is stored at a for readers that are away fills its store, and its neighbour waits.
    "a neighbour's store is full of what nobody reads": """
        seed 2238
        links a-b b-c
        store_bytes 6000
        reader r1 at a
        reader r2 at a
        listener l1 at a
        listener l2 at a
        publisher p1 at a
        publisher p2 at c
        0.001  publish p2 3 confirmed
        0      move r1 b
        0.3    publish p2 5 confirmed
        0      full a
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.3    publish p2 5 plain
        0      move r2 b
        0.3    publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0      publish p2 2 confirmed
        35     publish p2 5 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0      rest
        0.003  publish p1 1 plain
        0.3    publish p2 5 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0.001  publish p2 2 confirmed
        0      fail b 1
        1.2    rest
    """,
    # The trial itself: the power took the mark that a disk had lied about, and then the end of the journal was cut off,
    # of which the older mark knew nothing.
    "a mark is lost before the end of its journal": """
        seed 3627
        links a-b
        delay_ms 0.2
        drift 0.03
        reader r1 at a
        publisher p1 at b
        0.001  publish p1 1 confirmed
        0.01   install a 2
        0.003  publish p1 3 plain
        0.001  tear b 3
        0.001  publish p1 5 plain
        0.001  none b
        0.003  lie a
        0.3    install b 1
        0.3    restart b
        0.3    install b 2
        0.3    restart b
        0      power a
        0      truncate a 5
    """,
    # The trial itself: a store that was full of what a reader left behind held events up, and they were taken for lost.
    "a reader that has moved fills a store": """
        seed 29740
        links a-b
        store_bytes 6000
        reader r1 at b
        reader r2 at b
        publisher p1 at a
        0      move r2 a
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0.3    publish p1 5 confirmed
        0      rest
    """,
    # The trial itself: a permission was cut while a broker hung, which first handled what its disk had answered before.
    "a permission is cut while a broker hangs": """
        seed 4312
        links b-c
        delay_ms 0.2
        users True
        reader r1 at c
        publisher p2 at b
        0.05   publish p2 1 confirmed
        0.003  hang c
        0.05   resume c
        0.001  hang c
        0.05   allow c r1 none none
    """,
    # The trial itself: the answer to a subscription was under way when it was forbidden, and was taken for a new one.
    "a subscription is granted and forbidden": """
        seed 4699
        links a-b b-c a-d d-e d-f
        users True
        turn_ms 0.05
        reader r1 at f
        listener l2 at f
        publisher p2 at f
        publisher p3 at c
        1.2    subscribe l2 x>=8
        0.001  subscribe l1 x>=8
        0      allow f l2 none x<=7
    """,
    # The trial itself: a durable subscription keeps its filter, if another one is refused.
    "another filter is refused": """
        seed 4543
        links c-d
        advertisements False
        users True
        reader r1 at c
        0.001  allow c r1 x<=7 all
        0      refilter r1 x>=8
    """,
    # An event that its broker had given up for a reader was taken again, while it still waited, damaged, for a
    # neighbour: it was sent there under two positions, and only one of them was confirmed.
    "an event waits for a neighbour twice": """
        seed 1543
        links a-b a-c b-c
        drift 0.03
        reader r1 at a
        publisher p1 at b
        0      tear a 3
        12     restart c
        0      rest
        0      kill c 2
        0      fail a 3
        0.001  publish p1 2 confirmed
        0.3    leave r1
        0      deafen a b
        0.3    kill a 0
        0      flip a 2
        0.3    restart a
        0.3    come r1
        35     mend a b
    """,
}


@pytest.mark.parametrize("name", FOUND)
def test_it_is_mended(name: str) -> None:
    assert BrokerTrial(Script.parse(FOUND[name])).run().findings == ()
