"""The command `run`: a topology on a local directory or on a Kafka cluster."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from statestores.changelog import ChangelogOptions, Compression
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
from statestores.cli.topology_module import TopologyArgument, load_topology
from statestores.errors import InvalidArgumentError
from statestores.processing.local import run as run_locally
from statestores.query.metadata.host import name_and_port

if TYPE_CHECKING:
    from statestores.kafka import KafkaProgress
    from statestores.processing.local import RunProgress
    from statestores.serving import Serving

Until: TypeAlias = Literal["stopped", "idle"]


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
    guarantee: Annotated[
        str | None,
        typer.Option(
            "--guarantee",
            metavar="NAME",
            help="With --kafka: exactly_once or at_least_once.",
            show_default="exactly_once",
        ),
    ] = None,
    group_protocol: Annotated[
        str | None,
        typer.Option(
            "--group-protocol",
            metavar="NAME",
            help="With --kafka: consumer, for Kafka 4 and newer, or classic.",
            show_default="consumer",
        ),
    ] = None,
    offset_reset: Annotated[
        str | None,
        typer.Option(
            "--offset-reset",
            metavar="NAME",
            help="With --kafka: where a partition begins of which the group has committed "
            "nothing: earliest, latest, or error.",
            show_default="earliest",
        ),
    ] = None,
    snapshots: Annotated[
        Path | None,
        typer.Option(
            "--snapshots",
            metavar="DIR",
            help="With --kafka: a directory that all instances share. A store that begins anew "
            "takes the newest snapshot there, and the changelog behind it.",
        ),
    ] = None,
    standbys: Annotated[
        int,
        typer.Option(
            "--standbys", help="How many other processes keep a copy of each task's stores."
        ),
    ] = 0,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            help="With --local: partitions of new topics that do not say it.",
            show_default="1",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", help="With --local: threads that share the tasks.", show_default="1"
        ),
    ] = None,
    changelog_compression: Annotated[
        Compression | None,
        typer.Option(
            "--changelog-compression",
            help="With --local: how changelogs are compressed from now on.",
            show_default="lz4",
        ),
    ] = None,
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
    each with a --state of its own. What comes behind --serve says who may ask there.

    Example: statestores run shop.counting:topology --local data --until-idle
    """
    output = Output(json=json)
    until: Until = "idle" if until_idle else "stopped"
    options = parse_backend_options(backend_option)
    files = AccessFiles(
        certificate=certificate,
        private_key=private_key,
        client_authority=client_authority,
        insecure=insecure,
    )
    of_local: dict[str, Any] = {
        "source": source,
        "sink": sink,
        "retain": retain,
        "partitions": partitions,
        "threads": threads,
        "changelog_compression": changelog_compression,
    }
    of_kafka: dict[str, Any] = {
        "state": state,
        "kafka_option": kafka_option,
        "guarantee": guarantee,
        "group_protocol": group_protocol,
        "offset_reset": offset_reset,
        "snapshots": snapshots,
    }
    _check_place(local, kafka, state, of_local, of_kafka)
    answers = _serving(serve, files, token_file, instance_token_file, authority)
    progress: RunProgress | KafkaProgress
    found = load_topology(topology)
    with output.status(f"running {found.name}") as show:

        def update(progress: "RunProgress | KafkaProgress") -> None:
            show(_words(progress))

        if kafka is not None and state is not None:
            from statestores.kafka import run as run_on_kafka  # noqa: PLC0415  # needs its extra

            chosen = {
                name: value
                for name, value in of_kafka.items()
                if value is not None and name not in ("state", "kafka_option")
            }
            progress = run_on_kafka(
                found,
                bootstrap_servers=kafka,
                state=state,
                settings=parse_pairs("--kafka-option", kafka_option),
                backend=backend,
                options=options,
                standby_replicas=standbys,
                serve=answers,
                until=until,
                progress=update,
                **chosen,
            )
        elif local is not None:
            progress = run_locally(
                found,
                state=local / "state",
                topics=local / "topics",
                sources=parse_sources(source),
                sinks=parse_sinks(sink),
                retention=parse_retention(retain),
                backend=backend,
                options=options,
                partitions=1 if partitions is None else partitions,
                threads=1 if threads is None else threads,
                standbys=standbys,
                changelog_options=(
                    None
                    if changelog_compression is None
                    else ChangelogOptions(compression=changelog_compression)
                ),
                serve=answers,
                until=until,
                progress=update,
            )
    if json:
        counted = ("processed", "emitted", "dropped", "commits")
        output.document({name: getattr(progress, name) for name in counted})
    else:
        output.line(_words(progress))


def _words(progress: "RunProgress | KafkaProgress") -> str:
    return (
        f"{progress.processed:,} records processed, {progress.emitted:,} emitted, "
        f"{progress.dropped:,} dropped, in {progress.commits:,} commits"
    )


def _check_place(
    local: Path | None,
    kafka: str | None,
    state: Path | None,
    of_local: Mapping[str, object],
    of_kafka: Mapping[str, object],
) -> None:
    """Accept one place to run, and no option that is for the other one.

    Raises:
        InvalidArgumentError: There is none, or there are two, or an option would do nothing.
    """
    if (local is None) == (kafka is None) or (kafka is not None and state is None):
        raise InvalidArgumentError(
            "say where to run: --local DIR, or --kafka BOOTSTRAP with --state DIR"
        )
    place, others = ("--local", of_kafka) if kafka is None else ("--kafka", of_local)
    idle = [f"--{name.replace('_', '-')}" for name, value in others.items() if value is not None]
    if idle:
        other = "--kafka" if kafka is None else "--local"
        raise InvalidArgumentError(
            f"{', '.join(idle)} would do nothing with {place}: leave it out, or run with {other}"
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
