"""From a node's configuration to its place in a federation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hanse.model import InvalidInput
from hanse.node.federation.description import DescribedNode, Description, FederationFile, FederationTerms, read_file, rule_of
from hanse.node.federation.host import Host
from hanse.node.federation.identity import Identity
from hanse.node.federation.joining import check_address
from hanse.node.federation.planes import check_strategies

if TYPE_CHECKING:
    from hanse.node.settings import NodeSettings
    from hanse.node.tenant import Tenant


def federated(tenant: Tenant) -> Host:
    settings = tenant.settings
    described = description_of(settings)
    identity = identity_of(settings)
    for address in (*described.listen, *described.connect()):
        check_address(address, is_secure=identity is not None)
    if identity is not None and identity.certificate.node != settings.node.id:
        raise InvalidInput(
            f"the certificate is that of {identity.certificate.node!r}, and this node is {settings.node.id!r}",
            place="[federation]",
        )
    return Host(tenant, described, identity)


def description_of(settings: NodeSettings) -> Description:
    federation = settings.federation
    awaited = [(link.to, link.node, rule_of(link.export)) for link in settings.links]
    if federation.file:
        path = Path(federation.file)
        return Description(read_file(path), settings.node.id, path.parent, awaited)
    check_strategies([federation.strategy, *federation.overrides.values()])
    terms = FederationTerms(
        federation.name,
        federation.strategy,
        federation.overrides,
        federation.advertise_ids,
        characterisation=federation.characterisation,
    )
    own = DescribedNode(
        settings.node.id,
        settings.node.community,
        (federation.longitude, federation.latitude),
        http=f"{settings.node.host}:{settings.node.port}",
        listen=federation.listen,
    )
    return Description(FederationFile(terms, [own]), settings.node.id, Path(), awaited)


def identity_of(settings: NodeSettings) -> Identity | None:
    federation = settings.federation
    given = (federation.certificate, federation.key, federation.trust)
    if not any(given):
        return None
    if not all(given):
        raise InvalidInput("certificate, key and trust belong together; give all three", place="[federation]")
    certificate, key, trust = map(Path, given)
    return Identity(certificate, key, trust)
