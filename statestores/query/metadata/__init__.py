"""Who has which partition of which store, and whom to ask (KIP-67, KIP-535)."""

from statestores.query.metadata.application import ApplicationMetadata, MetadataWatch
from statestores.query.metadata.choice import Candidate, Choice, candidates_for, choose
from statestores.query.metadata.host import Host
from statestores.query.metadata.instance import (
    InstanceMetadata,
    KeyMetadata,
    PartitionMetadata,
    Role,
    StoreMetadata,
)
from statestores.query.metadata.leases import LeaseMembership
from statestores.query.metadata.membership import Membership, StaticMembership

__all__ = [
    "ApplicationMetadata",
    "Candidate",
    "Choice",
    "Host",
    "InstanceMetadata",
    "KeyMetadata",
    "LeaseMembership",
    "Membership",
    "MetadataWatch",
    "PartitionMetadata",
    "Role",
    "StaticMembership",
    "StoreMetadata",
    "candidates_for",
    "choose",
]
