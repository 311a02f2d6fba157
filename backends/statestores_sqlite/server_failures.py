"""What SQLAlchemy and psycopg2 raise, translated into `statestores.errors`."""

from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from statestores.errors import InvalidArgumentError, StateStoreError, StorageError
from statestores_sqlite.failures import DAMAGE

_PROGRAM_LIMIT_EXCEEDED = "54000"
_DATA_CORRUPTED = frozenset({"XX001", "XX002"})


def errors_of(engine: Engine) -> tuple[type[Exception], ...]:
    """Return what calls through *engine*, or through its driver, raise."""
    driver = engine.dialect.loaded_dbapi
    return (SQLAlchemyError, driver.Error)


def driver_error(error: Exception) -> Exception:
    """Return the driver's own error where SQLAlchemy has wrapped it, for use as the cause."""
    if isinstance(error, DBAPIError) and isinstance(error.orig, Exception):
        return error.orig
    return error


def translated(error: Exception, path: str) -> StateStoreError:
    """Return the error to raise for *error*, met with the table of the engine at *path*."""
    original = driver_error(error)
    said = str(original).strip()
    code = getattr(original, "pgcode", None)
    if code == _PROGRAM_LIMIT_EXCEEDED:
        return InvalidArgumentError(
            f"PostgreSQL does not take this pair: {said!r}; a key may have 2,600 bytes, or more "
            "where it can be compressed"
        )
    if code in _DATA_CORRUPTED:
        kind, text = DAMAGE
        return kind(text.format(path=path, said=said))
    return StorageError(
        f"PostgreSQL cannot read or write the pairs of {path!r}: {said!r}; check that the server "
        "can be reached and has space"
    )
