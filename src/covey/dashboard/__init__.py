"""The dashboard: one web page for a whole network, live, from the admin pages of its brokers.

    reading     what brokers say of themselves (`/watchz`), checked
    collector   asks all brokers, all the time; bounded in time, size and number
    model       what brokers said → what is shown: brokers, links, rates, trees (pure)
    history     the last hour as curves, bursts, percentiles (pure)
    layout      where brokers are on the map, and in which group (pure)
    covering    which filters cover which, as a tree (pure)
    explaining  an example event: who gets it, by which way, and why the others do not
    plans       the plan in use, predictions beside measurements, a coordinator's rounds
    sessions    who is logged in, and may do what
    server      the page and what it asks for, over HTTP

The page itself is in static/: plain JavaScript, and pictures that are SVG. Nothing is loaded from elsewhere.
"""
