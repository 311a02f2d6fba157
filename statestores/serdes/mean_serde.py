"""Means that can go on: a sum and a count, and their serde."""

import struct
from typing import Any, NamedTuple

from statestores.errors import SerializationError
from statestores.serdes.arrow_columns import cut_at, joined_fields, map_chunks, pyarrow
from statestores.serdes.float64_serde import float64
from statestores.serdes.int64_serde import int64
from statestores.serdes.refusals import refused_value

_MEAN = struct.Struct(">dq")
_HALF = 8


class Mean(NamedTuple):
    """What a mean is made of."""

    total: float
    """The sum of the values."""

    values: int
    """How many there were."""

    @property
    def mean(self) -> float:
        """The mean; 0.0 of nothing."""
        return self.total / self.values if self.values else 0.0


class MeanSerde:
    """A `Mean` as sixteen bytes."""

    name = "mean"
    sorted = False

    def encode(self, value: Mean) -> bytes:
        """Return the sum and the count."""
        try:
            return _MEAN.pack(*value)
        except (TypeError, struct.error) as error:
            raise refused_value(self.name, value, "a sum and a count") from error

    def decode(self, data: bytes) -> Mean:
        """Return the mean of *data*."""
        if len(data) != _MEAN.size:
            raise SerializationError(f"{data!r} is no mean: it has not {_MEAN.size} bytes")
        return Mean(*_MEAN.unpack(data))

    def encode_array(self, values: Any) -> Any:
        """Return a column of bytes from one of structs of sum and count, as `decode_array` gives.

        Raises:
            SerializationError: It is of other structs, or a sum or a count is missing.
        """
        fields = {"total": float64.encode_array, "values": int64.encode_array}
        return map_chunks(
            lambda array: joined_fields(array, fields, self.name, (0, 1)),
            values,
            pyarrow().binary(),
        )

    def decode_array(self, data: Any) -> Any:
        """Return a column of structs of sum and count.

        Raises:
            SerializationError: A value is no mean.
        """

        def chunk(array: Any) -> Any:
            totals, counts = cut_at(array, _HALF)
            return pyarrow().StructArray.from_arrays(
                [float64.decode_array(totals), int64.decode_array(counts)],
                fields=list(self.arrow_type()),
                mask=array.is_null(),
            )

        return map_chunks(chunk, data, self.arrow_type())

    def arrow_type(self) -> Any:
        """Return the type of the structs."""
        return pyarrow().struct([("total", pyarrow().float64()), ("values", pyarrow().int64())])


MEANS = MeanSerde()
"""The serde in which a mean is kept."""
