"""Attribute filters: SQL-WHERE predicates on mappings of names to scalars.

values       kinds of values, and which may stand in a filter
cuts         sets over an ordered domain
like         LIKE patterns
strings      sets of strings: cuts narrowed by patterns
constraint   the values of one attribute
conjunction  constraints on several attributes: boxes
simplify     the normal form of a disjunction
boxes        covering by several conjunctions
filter       AttributeFilter
merging      one filter for several
wire         the binary form
parser, text the language of docs/filters.md
sql          the same conditions for Spark
"""
