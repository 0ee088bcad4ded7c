"""Spanning trees by several constructions; `star` has the proven low stretch. Each gives links, `forest` makes a
tree."""
