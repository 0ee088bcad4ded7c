"""Keyword filters: which words a document must have."""

import covey

phones = covey.parse("nokia and (phone or watch) or 'mobile phone'", language="keywords")
print(phones)

assert phones.matches({"nokia", "watch", "launch"})
assert phones.matches({"mobile phone"})
assert not phones.matches({"mobile", "phone"})

# Filters only ask for words, so covering is exact: asking for less covers asking for more.
nokia = covey.parse("nokia or 'mobile phone'", language="keywords")
assert nokia.covers(phones)

merged, exact = phones.merge(covey.parse("nokia", language="keywords"))
print(f"merged: {merged}, exact: {exact}")

try:
    covey.parse("nokia not phone", language="keywords")
except covey.FilterError as error:
    print(error)
