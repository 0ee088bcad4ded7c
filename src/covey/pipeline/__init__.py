"""Planning data on Spark: tables of subscriptions and events in, tables out.

Every public name but one is a stage: DataFrames first, keyword parameters, one DataFrame out. A stage runs no action,
builds no session, and uses nothing that Spark Connect lacks. Sessions, actions and persistence are the caller's.
`register` tells a session of the data source "covey" (`network`), which Spark usually finds by itself.

A stage has the name of its module. Each is loaded when it is first used, so that `import covey.pipeline` costs nothing
where there is no Spark.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from covey.extras import require

if TYPE_CHECKING:
    from covey.pipeline.aggregation import aggregation as aggregation
    from covey.pipeline.blocks import blocks as blocks
    from covey.pipeline.costs import costs as costs
    from covey.pipeline.critical import critical as critical
    from covey.pipeline.documents import documents as documents
    from covey.pipeline.groups import groups as groups
    from covey.pipeline.ingest import accept as accept
    from covey.pipeline.ingest import ingest as ingest
    from covey.pipeline.ingest import judge as judge
    from covey.pipeline.ingest import quarantine as quarantine
    from covey.pipeline.interests import interests as interests
    from covey.pipeline.known import known as known
    from covey.pipeline.match import compile_filters as compile_filters
    from covey.pipeline.match import match as match
    from covey.pipeline.network.source import register as register
    from covey.pipeline.plan import plan as plan
    from covey.pipeline.sample import sample as sample
    from covey.pipeline.similarity import similarity as similarity
    from covey.pipeline.sql import where as where
    from covey.pipeline.tables.stage import announcements as announcements
    from covey.pipeline.tables.stage import sizes as sizes
    from covey.pipeline.tables.stage import tables as tables
    from covey.pipeline.trees import trees as trees
    from covey.pipeline.witnesses import witnesses as witnesses

_HOMES = {
    "accept": "ingest",
    "aggregation": "aggregation",
    "announcements": "tables.stage",
    "blocks": "blocks",
    "compile_filters": "match",
    "costs": "costs",
    "critical": "critical",
    "documents": "documents",
    "groups": "groups",
    "ingest": "ingest",
    "interests": "interests",
    "judge": "ingest",
    "known": "known",
    "match": "match",
    "plan": "plan",
    "quarantine": "ingest",
    "register": "network.source",
    "sample": "sample",
    "similarity": "similarity",
    "sizes": "tables.stage",
    "tables": "tables.stage",
    "trees": "trees",
    "where": "sql",
    "witnesses": "witnesses",
}

__all__ = [*_HOMES]


class _Package(ModuleType):
    """This package: loading the module of a stage does not put the module in the stage's place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'covey.pipeline' has no attribute {name!r}")
    require("spark", f"covey.pipeline.{name}")
    value = getattr(import_module(f"covey.pipeline.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
