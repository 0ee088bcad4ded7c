"""A small overlay in the simulator: what brokers tell each other under two strategies, and what a lost link costs."""

from __future__ import annotations

from covey.sim import Network

LINKS = [("berlin", "paris"), ("paris", "london"), ("paris", "rome")]


def run(strategy: str) -> Network:
    """Let three consumers and a producer meet under a strategy."""
    net = Network(LINKS, strategy=strategy, seed=1)
    net.advertise("berlin", "symbol <> '' and price >= 0")
    net.subscribe("london", "symbol = 'IBM'")
    net.subscribe("london", "symbol = 'IBM' and price > 100")
    net.subscribe("rome", "price > 50")
    net.settle()
    net.publish("berlin", {"symbol": "IBM", "price": 120})
    net.publish("berlin", {"symbol": "SAP", "price": 40})
    net.settle()
    return net


networks = {strategy: run(strategy) for strategy in ("simple", "covering")}
for strategy, net in networks.items():
    entries = sum(map(len, net.tables.values()))
    print(f"{strategy}: {entries} remote entries, {net.counters['subscribe_messages']} subscribe messages")
    for subscription, event in net.deliveries:
        print(f"  {subscription.name} at {subscription.broker} got {event}")

net = networks["covering"]
net.clear_counters()
net.link_down("paris", "london")
net.settle()
net.link_up("paris", "london")
net.settle()
print(f"after a lost link: {net.router_counters()['synchronised_facts']} facts were sent again")
