"""An index: many filters, one question. Families mix; keys are whatever you like."""

import covey

index = covey.Index()
index.add("ann", covey.parse("symbol = 'IBM' and price < 20"), link="london")
index.add("bob", covey.parse("price between 10 and 15"), link="paris")
index.add("cem", covey.parse("symbol like 'I%'"), link="paris")
index.add("dee", covey.parse("nokia or motorola", language="keywords"), link="london")
index.add("eva", covey.parse("//item[title]", language="xpath"), link="oslo")

quote = {"symbol": "IBM", "price": 12}
print("subscribers:", sorted(map(str, index.match(quote))))
print("links:", sorted(map(str, index.links(quote))))
print("by keywords:", sorted(index.match({"nokia", "phone"})))
print("by XML:", sorted(index.match(covey.Document.parse("<item><title/></item>"))))

# Who covers a new filter, and whom does it cover?
new = covey.parse("symbol = 'IBM' and price between 11 and 12")
print("covering:", sorted(index.covering(new)))
print("covered:", sorted(index.covered(covey.parse("price < 100"))))

index.remove("bob")
assert "bob" not in set(index.match(quote))
