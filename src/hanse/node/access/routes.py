"""What each route is to policies: one line for every operation of a node's HTTP API. A route that is not here is refused.

- open: nothing of anybody's data, or of the node's inside;
- view: its answer is made of what the caller sees;
- publish, subscribe, advertise, join: the caller must be allowed to; what is answered, and told later, is what the caller sees;
- own: things that belong to whoever has made them; others do not see that they are there;
- admin: for the role that the settings name.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Rule: TypeAlias = Literal["open", "view", "publish", "subscribe", "advertise", "join", "own", "admin"]

_NGSI: Final = "/ngsi-ld/v1"
_HANSE: Final = "/hanse/v1"

_BY_RULE: Final[dict[Rule, str]] = {
    "open": f"""
        GET {_NGSI}/jsonldContexts
        GET {_NGSI}/jsonldContexts/{{id}}
        GET {_NGSI}/info/sourceIdentity
        GET {_HANSE}/scopes
        GET {_HANSE}/criteria
        POST {_HANSE}/contracts/check
        GET {_HANSE}/policies/whoami
        GET /healthz
        GET /readyz
        GET /openapi.json
        GET /docs
        GET /
    """,
    "view": f"""
        GET {_NGSI}/entities
        GET {_NGSI}/entities/{{id}}
        GET {_NGSI}/entities/{{id}}/attrs/{{attribute}}
        POST {_NGSI}/entityOperations/query
        GET {_NGSI}/types
        GET {_NGSI}/types/{{type}}
        GET {_NGSI}/attributes
        GET {_NGSI}/attributes/{{attribute}}
        GET {_NGSI}/temporal/entities
        GET {_NGSI}/temporal/entities/{{id}}
        POST {_NGSI}/temporal/entityOperations/query
        GET {_NGSI}/csourceRegistrations
        GET {_NGSI}/csourceRegistrations/{{id}}
        GET {_NGSI}/entityMaps
        GET {_NGSI}/temporal/entityMaps
        GET {_NGSI}/entityMaps/{{id}}
        PATCH {_NGSI}/entityMaps/{{id}}
        DELETE {_NGSI}/entityMaps/{{id}}
        GET {_HANSE}/log
    """,
    "publish": f"""
        POST {_NGSI}/entities
        DELETE {_NGSI}/entities
        PUT {_NGSI}/entities
        PATCH {_NGSI}/entities
        PUT {_NGSI}/entities/{{id}}
        PATCH {_NGSI}/entities/{{id}}
        DELETE {_NGSI}/entities/{{id}}
        POST {_NGSI}/entities/{{id}}/attrs
        PATCH {_NGSI}/entities/{{id}}/attrs
        PATCH {_NGSI}/entities/{{id}}/attrs/{{attribute}}
        PUT {_NGSI}/entities/{{id}}/attrs/{{attribute}}
        DELETE {_NGSI}/entities/{{id}}/attrs/{{attribute}}
        POST {_NGSI}/entityOperations/create
        POST {_NGSI}/entityOperations/upsert
        POST {_NGSI}/entityOperations/update
        POST {_NGSI}/entityOperations/merge
        POST {_NGSI}/entityOperations/delete
        POST {_NGSI}/temporal/entities
        DELETE {_NGSI}/temporal/entities/{{id}}
        POST {_NGSI}/temporal/entities/{{id}}/attrs
        DELETE {_NGSI}/temporal/entities/{{id}}/attrs/{{attribute}}
        PATCH {_NGSI}/temporal/entities/{{id}}/attrs/{{attribute}}/{{instance}}
        DELETE {_NGSI}/temporal/entities/{{id}}/attrs/{{attribute}}/{{instance}}
        POST {_HANSE}/clients/{{client}}/notifications
        POST {_HANSE}/remote-notifications
    """,
    "subscribe": f"""
        POST {_NGSI}/subscriptions
        PATCH {_NGSI}/subscriptions/{{id}}
        PUT {_HANSE}/clients/{{client}}/subscriptions/{{id}}
        GET {_HANSE}/subscribe
        GET {_HANSE}/stream
    """,
    "advertise": f"""
        POST {_NGSI}/csourceRegistrations
        PATCH {_NGSI}/csourceRegistrations/{{id}}
        DELETE {_NGSI}/csourceRegistrations/{{id}}
        PUT {_HANSE}/clients/{{client}}/advertisements/{{id}}
    """,
    "join": f"""
        PUT {_HANSE}/scopes/{{dimension}}/{{scope}}
        DELETE {_HANSE}/scopes/{{dimension}}/{{scope}}
    """,
    "own": f"""
        GET {_NGSI}/subscriptions
        GET {_NGSI}/subscriptions/{{id}}
        DELETE {_NGSI}/subscriptions/{{id}}
        POST {_NGSI}/snapshots
        DELETE {_NGSI}/snapshots
        GET {_NGSI}/snapshots/{{id}}
        PATCH {_NGSI}/snapshots/{{id}}
        DELETE {_NGSI}/snapshots/{{id}}
        POST {_NGSI}/snapshots/{{id}}/clone
        GET {_HANSE}/clients
        GET {_HANSE}/clients/{{client}}
        PUT {_HANSE}/clients/{{client}}
        DELETE {_HANSE}/clients/{{client}}
        PUT {_HANSE}/clients/{{client}}/location
        GET {_HANSE}/clients/{{client}}/stream
        DELETE {_HANSE}/clients/{{client}}/subscriptions/{{id}}
        GET {_HANSE}/clients/{{client}}/advertisements/{{id}}
        DELETE {_HANSE}/clients/{{client}}/advertisements/{{id}}
        GET {_HANSE}/notifications
    """,
    "admin": f"""
        POST {_NGSI}/jsonldContexts
        DELETE {_NGSI}/jsonldContexts/{{id}}
        POST {_NGSI}/csourceSubscriptions
        GET {_NGSI}/csourceSubscriptions
        GET {_NGSI}/csourceSubscriptions/{{id}}
        PATCH {_NGSI}/csourceSubscriptions/{{id}}
        DELETE {_NGSI}/csourceSubscriptions/{{id}}
        GET /metrics
        GET {_HANSE}/bounds
        GET {_HANSE}/contracts/producers
        POST {_HANSE}/contracts/producers
        PUT {_HANSE}/scopes
        GET {_HANSE}/scopes/visibility
        POST {_HANSE}/scopes/visibility
        DELETE {_HANSE}/scopes/visibility
        GET {_HANSE}/federation
        GET {_HANSE}/federation/topology
        POST {_HANSE}/federation/links
        PATCH {_HANSE}/federation/links/{{node}}
        DELETE {_HANSE}/federation/links/{{node}}
        GET {_HANSE}/federation/trace
        GET {_HANSE}/federation/traces
        GET {_HANSE}/federation/explain
        POST {_HANSE}/federation/explain
        GET {_HANSE}/models
        POST {_HANSE}/models
        GET {_HANSE}/models/{{type}}
        PUT {_HANSE}/models/{{type}}
        PATCH {_HANSE}/models/{{type}}
        DELETE {_HANSE}/models/{{type}}
        POST {_HANSE}/backup
        GET {_HANSE}/tenants
        GET {_HANSE}/dead-letters
        GET {_HANSE}/dead-letters/{{id}}
        DELETE {_HANSE}/dead-letters/{{id}}
        POST {_HANSE}/dead-letters/{{id}}/resend
        GET {_HANSE}/policies
        POST {_HANSE}/policies/reload
        GET {_HANSE}/policies/explain
        GET {_HANSE}/policies/overrides
        POST {_HANSE}/policies/overrides
        DELETE {_HANSE}/policies/overrides/{{name}}
        GET {_HANSE}/policies/audit
    """,
}
RULES: Final[dict[str, Rule]] = {
    " ".join(line.split()): rule for rule, lines in _BY_RULE.items() for line in lines.splitlines() if line.strip()
}


def rule_of(method: str, template: str) -> Rule:
    """What is not decided is for operators."""
    return RULES.get(f"{'GET' if method == 'HEAD' else method} {template}", "admin")
