"""Encoded columns of a file or a DataFrame as changes for the changelog of a store."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.changelog.rows import change_schema
from statestores.errors import InvalidArgumentError
from statestores.spi.specification import StoreSpecification
from statestores.spi.window_specification import Window


def changes_from_encoded(
    rows: pa.RecordBatch, specification: StoreSpecification[Any, Any]
) -> pa.RecordBatch:
    """Return *rows*, as `encode_rows` gives them, with the columns of the store's changelog.

    A deletion loses its timestamp (TKV-4). Retained duplicates get their sequences when the rows
    are published, because only then is it known what comes before them.

    Raises:
        InvalidArgumentError: A row deletes, and the store retains duplicates (WIN-6).
    """
    schema = change_schema(specification.kind)
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    retains_duplicates = isinstance(specification, Window) and specification.retain_duplicates
    if retains_duplicates and columns["value"].null_count:
        raise InvalidArgumentError(
            f"the column 'value' has nulls, which delete, and {specification.name!r} retains "
            "duplicates, of which none can be deleted; leave these rows out"
        )
    for each in specification.kind.numbers:
        if not each.is_time:
            columns[each.name] = pa.nulls(rows.num_rows, pa.int64())
        elif each.required:
            columns[each.name] = columns[each.row_name]
        else:
            no_time = pa.scalar(None, pa.int64())
            columns[each.name] = pc.if_else(
                pc.is_valid(columns["value"]), columns[each.row_name], no_time
            )
    return pa.RecordBatch.from_arrays(
        [columns[field.name].cast(field.type) for field in schema], schema=schema
    )
