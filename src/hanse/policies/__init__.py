"""Who may see and do what: Cedar policies, and what they leave of data on its way out."""

from hanse.policies.cedar import ACTIONS, Action, AttributeKind, Policy
from hanse.policies.obfuscation import Obfuscation, obfuscated, obfuscation
from hanse.policies.policy_set import Decision, Override, PolicySet
from hanse.policies.principals import ANONYMOUS, Known, Principal
from hanse.policies.resources import Resource, resource_of, short_name
from hanse.policies.uniform import Uniform
from hanse.policies.views import attributes_seen, view
from hanse.policies.words import Explanation, explain, summary

__all__ = [
    "ACTIONS",
    "ANONYMOUS",
    "Action",
    "AttributeKind",
    "Decision",
    "Explanation",
    "Known",
    "Obfuscation",
    "Override",
    "Policy",
    "PolicySet",
    "Principal",
    "Resource",
    "Uniform",
    "attributes_seen",
    "explain",
    "obfuscated",
    "obfuscation",
    "resource_of",
    "short_name",
    "summary",
    "view",
]
