"""Who is not known, and who may not: in NGSI-LD's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.ngsild.errors import NgsiLdError

if TYPE_CHECKING:
    from hanse.policies import Action, Decision, Principal


class Unauthorized(NgsiLdError):
    """A token, or a password, that does not say who someone is."""

    status, type, title, code = 401, "Unauthorized", "Unauthorized", "H0219"


class Forbidden(NgsiLdError):
    """Known, and not allowed."""

    status, type, title, code = 403, "Forbidden", "Forbidden", "H0220"


def refusal(principal: Principal, action: Action, what: str, decision: Decision) -> Forbidden:
    """Why something is refused, with the policy that decided."""
    if decision.errors:
        why = f"a policy failed: {decision.errors[0]}"
    elif decision.policies:
        why = f"policy {decision.policies[0]!r} forbids it"
    else:
        why = "no policy permits it"
    return Forbidden(f"{principal} may not {action} {what}: {why}")
