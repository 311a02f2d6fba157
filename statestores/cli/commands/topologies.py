"""The commands `describe` and `run`: topologies that a module of the user's holds."""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from statestores.cli.access_options import (
    AccessFiles,
    CertificateOption,
    ClientAuthorityOption,
    InsecureOption,
    PrivateKeyOption,
    TokenOption,
)
from statestores.cli.arguments import BackendOption, JsonOption, parse_backend_options, parse_pairs
from statestores.cli.output import Output
from statestores.cli.topology_ends import parse_retention, parse_sinks, parse_sources
from statestores.errors import InvalidArgumentError
from statestores.processing import Topology
from statestores.processing.local import run as run_locally
from statestores.query.metadata.host import name_and_port

if TYPE_CHECKING:
    from statestores.kafka import KafkaProgress
    from statestores.processing.local import RunProgress
    from statestores.serving import Serving

Until: TypeAlias = Literal["stopped", "idle"]

TopologyArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:TOPOLOGY",
        help="A module that Python finds from here, and the name of a Topology in it. The module "
        "is imported.",
    ),
]


def describe(
    topology: TopologyArgument,
    *,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print a Mermaid flowchart instead of text.")
    ] = False,
) -> None:
    """Print the parts of a topology, their steps, stores and topics.

    Example: statestores describe shop.counting:topology --mermaid
    """
    found = load_topology(topology)
    typer.echo(found.mermaid() if mermaid else found.describe(), nl=False)


def run(
    topology: TopologyArgument,
    *,
    local: Annotated[
        Path | None,
        typer.Option(
            "--local",
            metavar="DIR",
            help="Where state and topics lie: DIR/state and DIR/topics; made if missing.",
        ),
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            "--kafka", metavar="BOOTSTRAP", help="Run on a Kafka cluster: brokers as HOST:PORT."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="With --kafka: where the local stores lie."),
    ] = None,
    kafka_option: Annotated[
        list[str] | None,
        typer.Option(
            "--kafka-option",
            metavar="NAME=VALUE",
            help="With --kafka: a setting of librdkafka, such as security.protocol=ssl.",
        ),
    ] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", metavar="NAME", help="The backend of new stores.")
    ] = None,
    backend_option: BackendOption = None,
    partitions: Annotated[
        int, typer.Option("--partitions", help="Partitions of new topics that do not say it.")
    ] = 1,
    standbys: Annotated[
        int,
        typer.Option(
            "--standbys",
            help="With --local: how many other processes keep a copy of each task's stores.",
        ),
    ] = 0,
    threads: Annotated[int, typer.Option("--threads", help="Threads that share the tasks.")] = 1,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="TOPIC=PATH",
            help="Fill a topic from files: a .jsonl or .parquet file, a directory of them, or a "
            "pattern. Fields for key, value and time stand behind a question mark: "
            "'orders=in/*.jsonl?key=user&time=at_ms'. Repeatable.",
        ),
    ] = None,
    sink: Annotated[
        list[str] | None,
        typer.Option(
            "--sink",
            metavar="TOPIC=DIR",
            help="Write a topic's records to Parquet files in DIR, each once. Repeatable.",
        ),
    ] = None,
    retain: Annotated[
        list[str] | None,
        typer.Option(
            "--retain",
            metavar="TOPIC=AMOUNT",
            help="Let records leave a topic that are older than 90s, 30m, 12h or 7d, or beyond "
            "500MB or 2GB of a partition; never those that the topology has yet to read. "
            "Repeatable.",
        ),
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option(
            "--serve",
            metavar="HOST:PORT",
            help="Answer queries of the stores over HTTP there, of all processes that share the "
            "work, with a page; port 0 for any free one. Needs statestores[serve].",
        ),
    ] = None,
    token_file: TokenOption = None,
    instance_token_file: Annotated[
        Path | None,
        typer.Option(
            "--instance-token-file",
            metavar="FILE",
            help="The token by which processes ask each other; by default that of --token-file.",
        ),
    ] = None,
    certificate: CertificateOption = None,
    private_key: PrivateKeyOption = None,
    authority: Annotated[
        Path | None,
        typer.Option(
            "--authority",
            metavar="FILE",
            help="The authority of the other processes' certificates (PEM).",
        ),
    ] = None,
    client_authority: ClientAuthorityOption = None,
    insecure: InsecureOption = False,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when all input that is there is processed.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """WRITES: run a topology in this process, exactly once, until it is stopped.

    Ctrl-C and SIGTERM have it commit and end; the next run goes on from there, and so it does
    after a crash. Further processes share the work: with --local the same command again, on Kafka
    each with a --state of its own. --partitions and --threads are for --local; what comes behind
    --serve says who may ask there.

    Example: statestores run shop.counting:topology --local data --until-idle
    """
    output = Output(json=json)
    until: Until = "idle" if until_idle else "stopped"
    options = parse_backend_options(backend_option)
    progress: RunProgress | KafkaProgress
    of_local = source or sink or retain
    files = AccessFiles(
        certificate=certificate,
        private_key=private_key,
        client_authority=client_authority,
        insecure=insecure,
    )
    answers = _serving(serve, files, token_file, instance_token_file, authority)
    if kafka is not None and state is not None and local is None and not of_local:
        from statestores.kafka import run as run_on_kafka  # noqa: PLC0415  # needs its extra

        settings = parse_pairs("--kafka-option", kafka_option)
        progress = run_on_kafka(
            load_topology(topology),
            bootstrap_servers=kafka,
            state=state,
            backend=backend,
            options=options,
            settings=settings,
            serve=answers,
            until=until,
        )
    elif local is not None and kafka is None and state is None and not kafka_option:
        progress = run_locally(
            load_topology(topology),
            state=local / "state",
            topics=local / "topics",
            sources=parse_sources(source),
            sinks=parse_sinks(sink),
            retention=parse_retention(retain),
            backend=backend,
            options=options,
            partitions=partitions,
            threads=threads,
            standbys=standbys,
            serve=answers,
            until=until,
        )
    else:
        raise InvalidArgumentError(
            "say where to run: --local DIR, or --kafka BOOTSTRAP with --state DIR; "
            "--source, --sink and --retain go with --local, --kafka-option with --kafka"
        )
    if json:
        counted = ("processed", "emitted", "dropped", "commits")
        output.document({name: getattr(progress, name) for name in counted})
    else:
        output.line(
            f"{progress.processed:,} records processed, {progress.emitted:,} emitted, "
            f"{progress.dropped:,} dropped, in {progress.commits:,} commits"
        )


def _serving(
    serve: str | None,
    files: AccessFiles,
    token_file: Path | None,
    instance_token_file: Path | None,
    authority: Path | None,
) -> "Serving | str | None":
    """Return where to answer, and whom.

    Raises:
        InvalidArgumentError: It is said whom, and not where; or as `statestores.serving.Serving`.
        StorageError: A token cannot be read.
    """
    given = (token_file, instance_token_file, authority, *files.given)
    if not any(given):
        return serve
    found = None if serve is None else name_and_port(serve)
    if found is None:
        raise InvalidArgumentError(
            f"tokens and certificates are of a server: give --serve HOST:PORT, got {serve!r}"
        )
    serving: Any = import_module("statestores.serving")  # late: it needs another extra
    between = None if instance_token_file is None else files.access(instance_token_file)
    made: Serving = serving.Serving(
        address=found[0],
        port=found[1],
        access=files.access(token_file),
        between_instances=between,
        authority=authority,
    )
    return made


def load_topology(name: str) -> Topology:
    """Return the topology that *name*, such as ``package.module:shop``, names.

    Raises:
        InvalidArgumentError: There is no such module, or nothing in it of that name that is one.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise InvalidArgumentError(f"a topology is named as MODULE:TOPOLOGY, got {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise InvalidArgumentError(
            f"there is no module {module!r} to be found from {here!r}"
        ) from error
    found = getattr(loaded, attribute, None)
    if not isinstance(found, Topology):
        raise InvalidArgumentError(
            f"{attribute!r} in the module {module!r} is no statestores.processing.Topology; got "
            f"{found!r}"
        )
    return found
