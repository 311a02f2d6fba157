"""Carries out the requests of the protocol, one after the other."""

import time

from statestores.errors import CommitInDoubtError, StorageError
from statestores.object_log.requests import (
    Create,
    Delete,
    ListNames,
    Read,
    ReadMany,
    Replace,
    Request,
    Steps,
    T,
)
from statestores.storage import ObjectStorage, Outcome

_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 2.0


def run(steps: Steps[T], storage: ObjectStorage) -> T:
    """Return what *steps* come to on *storage*.

    Raises:
        CommitInDoubtError: They do; it says what the last put met (OBJ-55).
        StateStoreError: What they raise, a failure of the storage among it.
    """
    wait_s = _FIRST_WAIT_S
    try:
        request = next(steps)
        while True:
            try:
                answer = _answer(request, storage)
            except StorageError as error:
                request = steps.throw(error)
                continue
            if answer is Outcome.UNKNOWN and not storage.was_denied():
                time.sleep(wait_s)  # what failed is asked for again at once otherwise
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            request = steps.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result
    except CommitInDoubtError as error:
        why = storage.last_failure()
        if why is None:
            raise
        raise CommitInDoubtError(
            f"{error}; the last put met {why}: check the network, the credentials and their rights"
        ) from error


def _answer(request: Request, storage: ObjectStorage) -> object:
    match request:
        case Create(name, data):
            return storage.create(name, data)
        case Replace(name, data, tag):
            return storage.replace(name, data, tag)
        case Read(name, known_tag):
            return storage.read(name, known_tag)
        case ReadMany(names):
            return storage.read_many(names)
        case ListNames(prefix):
            return [each.name for each in storage.list(prefix)]
        case Delete(name):
            storage.delete(name)
            return None
