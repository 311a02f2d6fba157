"""The program, preloaded with the failing calls, that brings forth a process for each operation.

It has loaded what all of them need and opened nothing, so a fork is cheap and safe, and whatever a
failure does to a process (an abort, a hang, a descriptor that is lost) is one run's alone.
"""

import gc
import json
import os
import select
import shutil
import signal
import sys
import traceback
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from failing_calls import FailingCalls, Fault
from operations import OPERATIONS, AnyOperation

from statestores.errors import StateStoreError
from statestores.registry import load_backend

PATIENCE_SECONDS = 60
"""How long a run may take; they take a tenth of a second."""


def serve(scratch: Path) -> None:
    """Answer each line, a run, with another one that says how it went."""
    for line in sys.stdin:
        print(json.dumps(_run_apart(scratch, json.loads(line))), flush=True)  # noqa: T201  # protocol


def _run_apart(scratch: Path, run: dict[str, Any]) -> dict[str, Any]:
    """Make the run in a process of its own, and return what it found."""
    where = [run[name] for name in ("operation", "owner", "backend", "kind")]
    template = scratch / "-".join(where).replace(" ", "_")
    if not template.exists():
        made = _fork(scratch, lambda: _prepare(where, template))
        if made["wrong"]:
            return made
    try:
        return _fork(scratch, lambda: _run(where, template, scratch / "live", run))
    finally:
        shutil.rmtree(scratch / "live", ignore_errors=True)


def _operation(where: list[str], directory: Path) -> AnyOperation:
    name, owner, backend, kind = where
    return OPERATIONS[name](directory, owner, backend, kind)


def _prepare(where: list[str], template: Path) -> dict[str, Any]:
    template.mkdir()
    _operation(where, template).prepare()
    return {"wrong": []}


def _run(where: list[str], template: Path, live: Path, run: dict[str, Any]) -> dict[str, Any]:
    """Run an operation of which calls fail, and judge what is there afterwards."""
    shutil.copytree(template, live)
    fault = None if run["fault"] is None else Fault.from_description(run["fault"])
    calls = FailingCalls(live)
    operation = _operation(where, live)
    open_files = _open_files(live)
    operation.begin()
    raised, wrong = None, []
    calls.arm(fault)
    try:
        operation.run()
    except StateStoreError as error:
        raised = repr(error)
    except Exception as error:  # noqa: BLE001  # which is the finding
        raised = repr(error)
        wrong.append(f"an error that is not ours: {traceback.format_exc(limit=-8)}")
    if run["going_on"] == "close at once" and raised is not None:
        try:
            operation.owner.close()  # type: ignore[union-attr]  # those that go on so have one
        except StateStoreError:
            pass
        except Exception:  # noqa: BLE001  # which is the finding
            wrong.append(f"closing, an error that is not ours: {traceback.format_exc(limit=-8)}")
    calls.disarm()
    fired, counts = calls.fired, calls.counts
    try:
        wrong += operation.judge(raised=raised is not None, going_on=run["going_on"])
    except Exception:  # noqa: BLE001  # which is the finding
        wrong.append(f"judging: {traceback.format_exc(limit=-8)}")
    left = _open_files(live) - open_files
    wrong += [f"still open: {path}" for path in sorted(left)]
    return {"fired": fired, "counts": counts, "raised": raised, "wrong": wrong}


def _open_files(directory: Path) -> set[str]:
    """Return the files below *directory* that this process has open."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        if target.startswith(f"{directory}/"):
            found.add(f"{descriptor.name} {target}")
    return found


def _fork(scratch: Path, work: Any) -> dict[str, Any]:
    """Do *work* in a process of its own; a death or a hang of it is something wrong."""
    answer, errors = scratch / "answer", scratch / "errors"
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _be_the_child(work, answer, errors)
    descriptor = os.pidfd_open(child)
    ended, _, _ = select.select([descriptor], [], [], PATIENCE_SECONDS)
    if not ended:
        os.kill(child, signal.SIGABRT)  # the fault handler says where it hangs
    os.close(descriptor)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 0:
        found: dict[str, Any] = json.loads(answer.read_text("utf-8"))
        return found
    told = errors.read_text("utf-8", "replace")[-3_000:]
    how = "it hangs" if not ended else f"it ended with {code}"
    return {"fired": 1, "counts": {}, "raised": None, "wrong": [f"{how}: {told}"]}


def _be_the_child(work: Any, answer: Path, errors: Path) -> NoReturn:
    code = 1
    try:
        descriptor = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 2)
        os.close(descriptor)
        answer.write_text(json.dumps(work()), "utf-8")
        code = 0
    except BaseException:  # noqa: BLE001  # it belongs into the report
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _import_first() -> None:
    """Import what Arrow imports when it is used: ten times what a run costs."""
    for name in ("pandas", "pyarrow.pandas_compat"):
        with suppress(ImportError):
            import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    import faulthandler

    faulthandler.enable()
    _import_first()
    warnings.simplefilter("error")
    for backend in sys.argv[2:]:
        load_backend(backend)
    serve(Path(sys.argv[1]))
