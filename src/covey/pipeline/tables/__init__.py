"""Every broker's routing table in bulk: what message by message would come to, computed on Spark at once.

What broker u tells its neighbour v, and v has as remote entries from the link u, is

    told(u → v) = reduction of all that u has of links other than v and of its clients, as far as v's side may serve it

with the strategy's own reduction (`strategies.reductions`). Three steps, by what there is to reduce:

    local     each partition of the subscriptions combines its rows: equal filters at one broker once, with their
              number; where covering reduces, only what nothing at that broker covers. Ten million rows become few here
    spread    where filters have nothing to do with each other (simple, identity): each on its own to the links on its
              ways, one task for each part of the filters
    passes    where they have (covering, merging): one task walks the tree, first to the root, then from it, and
              reduces what each link is told; it sees what `local` left over

Filters stay in their wire forms. `boxes` reads these in compiled code as far as covering can be decided by it, and
filters are decoded only where it cannot.
"""
