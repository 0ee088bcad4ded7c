"""Attribute filters: SQL conditions on the names and values of an event."""

import covey

quotes = covey.parse("symbol in ('IBM', 'SAP') and price between 10 and 20 and halted = false")

# Names of nested mappings join with dots; what an event lacks is unknown, and only TRUE matches.
assert quotes.matches({"symbol": "IBM", "price": 12.5, "halted": False})
assert not quotes.matches({"symbol": "IBM", "price": 12.5})
assert covey.parse("quote.price > 10").matches({"quote": {"price": 11}})

# The same filter without text.
built = covey.conjunction(
    [("symbol", "in", ["IBM", "SAP"]), ("price", "between", (10, 20)), ("halted", "=", False)]
)
assert built == quotes

# Covering: whatever the narrow one matches, the wide one does.
wide = covey.parse("price >= 10")
print(f"{wide}  covers  {quotes}: {wide.covers(quotes)}")

# Merging: one filter for two, here without matching anything new.
merged, exact = covey.parse("price between 10 and 20").merge(covey.parse("price between 15 and 30"))
print(f"merged: {merged}, exact: {exact}")

# Canonical text and wire form give the filter back.
assert covey.parse(str(quotes)) == quotes == covey.decode(quotes.encode())

try:
    covey.parse("price betwen 10 and 20")
except covey.FilterError as error:
    print(error)
