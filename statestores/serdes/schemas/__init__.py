"""Serdes whose values name their schema, by its number in a schema registry."""

from statestores.serdes.schemas.avro_serde import AvroSerde, avro
from statestores.serdes.schemas.protobuf_serde import ProtobufSerde, protobuf
from statestores.serdes.schemas.registry import SchemaRegistry

__all__ = ["AvroSerde", "ProtobufSerde", "SchemaRegistry", "avro", "protobuf"]
