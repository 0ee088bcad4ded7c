"""XPath filters: tree patterns over XML documents."""

import covey

document = covey.Document.parse(
    "<news><item section='sport'><title>Cup final</title><body><p>Goal!</p></body></item></news>"
)

for text in ("/news//item[title]/body", "//item[@section='sport']", "/news/*/p", "//body//p"):
    pattern = covey.parse(text, language="xpath")
    print(f"{text:28} {'matches' if pattern.matches(document) else 'does not match'}")

wide = covey.parse("//item", language="xpath")
narrow = covey.parse("/news/item[title][@section='sport']", language="xpath")
assert wide.covers(narrow)
assert not narrow.covers(wide)
