"""Reports: one style sheet, one page builder and one drawing module for every HTML report and picture.

    page.py      tables and cells as values, and templates rendered with them: the only place that makes HTML
    templates/   the style sheet, the parts that reports share, and a template for each report
    drawing.py   pictures by matplotlib, in colours that follow light and dark
    labels.py    where names stand in a picture
    theme.py     the colours
    words.py     numbers and counts as people read them

Rule: a report computes values and gives them to a template. Texts are escaped by the template, never by hand.
"""
