"""Who asks, and what is shown and done for whom: identities, and policies at every way in and out of a node.

A request is handled on a `SeenTenant`: the tenant as its principal sees it. Handlers do not know the difference; what a seen
tenant does not offer cannot be reached. `views` says what is left of an entity, `seen_store` how queries, the past and the log
go by that.
"""
