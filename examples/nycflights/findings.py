"""What a person learns from flights and weather, once they are joined."""

from hashlib import sha256
from io import BytesIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from rich.table import Table

_POOR_MILES = 1
_FAIR_MILES = 5


def delay_by_rain(flights: pa.Table, joined: pa.Table) -> Table:
    """Return the mean departure delay with and without rain as a table for people.

    Requires: row by row, *joined* is the weather of *flights*.
    """
    table = Table(title="Delay of departure", title_justify="left", title_style="bold")
    for column in ("", "flights", "mean delay (min)"):
        table.add_column(column, justify="right" if column else "left")
    rain = pc.greater(joined["precip"], 0)
    for name, chosen in (("with rain", rain), ("dry", pc.invert(rain))):
        delays = pc.drop_null(flights.filter(chosen)["dep_delay"])
        mean = pc.mean(delays).as_py()
        table.add_row(name, f"{len(delays):,}", "" if mean is None else f"{mean:.1f}")
    return table


def cancelled_by_visibility(flights: pa.Table, joined: pa.Table) -> Table:
    """Return the share of cancelled flights by visibility as a table for people.

    Requires: row by row, *joined* is the weather of *flights*.
    """
    table = Table(title="Cancelled flights", title_justify="left", title_style="bold")
    for column in ("visibility (miles)", "flights", "cancelled"):
        table.add_column(column, justify="left" if column.startswith("vis") else "right")
    miles = joined["visib"]
    poor, fair = pc.less(miles, _POOR_MILES), pc.less(miles, _FAIR_MILES)
    for name, chosen in (
        (f"below {_POOR_MILES}", poor),
        (f"{_POOR_MILES} to {_FAIR_MILES}", pc.and_(fair, pc.invert(poor))),
        (f"{_FAIR_MILES} and more", pc.invert(fair)),
    ):
        delays = flights.filter(chosen)["dep_delay"]
        share = delays.null_count / len(delays) if len(delays) else 0
        table.add_row(name, f"{len(delays):,}", f"{share:.1%}")
    return table


def fingerprint(joined: pa.Table) -> str:
    """Return 16 digits that are the same for the same rows, whatever engine they come from."""
    text = BytesIO()
    csv.write_csv(joined, text)
    return sha256(text.getbuffer()).hexdigest()[:16]
