"""What a directory names is imported only when the program named it, or an installed package did.

Code ran from an unpacked directory: ``engine.json`` said ``"backend": "module:Class"``, and
`open_existing`, ``statestores info`` and ``verify`` imported the module, which lay beside it. What
is on disk chooses among the registered backends now, and among those that the caller has named.
"""

import json
from pathlib import Path

import pytest
from forked_programs import run

import statestores as ss
from statestores.errors import StoreMismatchError, UnknownBackendError

ENGINE = """
from statestores_memory import MemoryEngine

open("imported", "w").close()

class Harm(MemoryEngine):
    name = "harm:Harm"
"""

TASKS = """
import statestores as ss
from statestores.tasks import open_task
open_task(ss.StateRoot.open("root"), "0_0", ["counts"])
"""

READERS = {
    "open_store": "import statestores as ss; ss.open_store('root/counts/0', ss.KeyValue('counts'))",
    "open_existing": "import statestores as ss; ss.open_existing('root/counts/0')",
    "open_logged_store": "import statestores as ss; ss.open_logged_store('root', 'counts')",
    "open_task": TASKS,
    "info": "from statestores.cli.application import app; app(['info', 'root/counts/0'])",
    "verify": "from statestores.cli.application import app; app(['verify', 'root'])",
    "scan": "from statestores.cli.application import app; app(['scan', 'root'])",
    "snapshot": "from statestores.cli.application import app; app(['snapshot', 'root/counts/0'])",
    "restore": "from statestores.cli.application import app; app(['restore', 'root'])",
}


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """Return a directory with a state root and, beside it, the module that its engine names."""
    root = ss.StateRoot.create(tmp_path / "root")
    root.add_store(ss.KeyValue("counts"), partitions=1)
    (tmp_path / "harm.py").write_text(ENGINE)
    partition = root.partition("counts", 0).path
    (partition / "engine").mkdir(parents=True)
    (partition / "engine.json").write_text(json.dumps({"format": 1, "backend": "harm:Harm"}))
    return tmp_path


@pytest.mark.spec("LAY-26")
def test_nothing_imports_what_a_directory_names(unpacked: Path) -> None:
    """Every way in: the functions, the tasks, and the commands."""
    lines = [
        *("import os, sys", f"os.chdir({str(unpacked)!r})", "sys.path.insert(0, '')"),
        f"for name, program in {READERS!r}.items():",
        "    try:",
        "        exec(program)",
        "    except BaseException as error:",
        "        print(name, type(error).__name__, error)",
    ]
    done = run("\n".join(lines))
    told = done.stdout + done.stderr

    assert done.returncode == 0, told
    assert not (unpacked / "imported").exists(), told
    for name in ("open_store", "open_existing", "open_logged_store", "open_task"):
        assert f"{name} UnknownBackendError" in done.stdout
    refused = told.count("names the backend 'harm:Harm'")
    assert refused >= len(READERS) - 2, told  # a scan of files needs no engine
    assert "root/counts/0/engine.json" in told
    assert "backend='harm:Harm'" in told


@pytest.mark.spec("LAY-26")
def test_a_caller_may_name_what_a_directory_names(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal to what is recorded it is imported, and from then on known to the process."""
    monkeypatch.chdir(unpacked)
    monkeypatch.syspath_prepend(str(unpacked))
    partition = unpacked / "root" / "counts" / "0"
    with pytest.raises(UnknownBackendError, match=r"engine\.json"):
        ss.open_existing(partition)
    with pytest.raises(StoreMismatchError, match="written by the backend 'harm:Harm'"):
        ss.open_existing(partition, backend="statestores_memory:MemoryEngine")
    assert not (unpacked / "imported").exists()

    with ss.open_store(partition, ss.KeyValue("counts"), backend="harm:Harm") as store:
        assert store.name == "counts"
    with ss.open_store(partition, ss.KeyValue("counts")) as store:
        assert store.name == "counts"


@pytest.mark.spec("LAY-26")
def test_the_command_line_trusts_what_it_is_told_to(unpacked: Path) -> None:
    """``--trust-backend`` names the class, as ``backend=`` does in a program."""
    lines = [
        *("import os, sys", f"os.chdir({str(unpacked)!r})", "sys.path.insert(0, '')"),
        *("from statestores.cli import main", "main()"),
    ]
    done = run("\n".join(lines), "--trust-backend", "harm:Harm", "verify", "root/counts/0")

    assert (unpacked / "imported").exists(), done.stderr
    assert "it is empty" in done.stdout
