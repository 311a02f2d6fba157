"""A built topology in words, as plain values, and as a Mermaid diagram."""

from typing import Any

from statestores.processing.topology.graph import Graph
from statestores.processing.topology.node import Node


def as_text(graph: Graph) -> str:
    """Return the topology as text: one block for each part, one line for each step."""
    lines = [f"topology {graph.name}"]
    for part in graph.sub_topologies:
        lines.append(f"  {'global table' if part.is_global else 'part'} {part.name}")
        lines += [f"    {_line(node)}" for node in part.nodes]
    return "\n".join(lines) + "\n"


def _line(node: Node) -> str:
    words = [f"{node.name}: {node.kind}"]
    words += [f"{name}={value}" for name, value in node.settings]
    if node.reads is not None:
        words.append(f"topic {node.reads.name}")
    if node.writes is not None:
        words.append(f"to topic {node.writes.name}")
    if node.stores:
        words.append("stores " + ", ".join(f"{store.name} ({store.kind})" for store in node.stores))
    if node.global_stores:
        words.append("global " + ", ".join(node.global_stores))
    if node.parents:
        words.append("<- " + ", ".join(node.parents))
    return " ".join(words)


def as_document(graph: Graph) -> dict[str, Any]:
    """Return the topology as plain values: what `as_text` says, and what topics and stores are."""
    internal = {topic.name for topic in graph.internal_topics}
    return {
        "name": graph.name,
        "parts": [
            {
                "part": part.name,
                "global": part.is_global,
                "steps": [_document(node) for node in part.nodes],
            }
            for part in graph.sub_topologies
        ],
        "stores": [{"store": dict(store.describe())} for store in graph.stores.values()],
        "topics": [
            {
                "topic": topic.name,
                "key": topic.key.name,
                "value": topic.value.name,
                "partitions": topic.partitions,
                "partitioner": topic.partitioner,
                "internal": topic.name in internal,
            }
            for topic in graph.topics.values()
        ],
    }


def _document(node: Node) -> dict[str, Any]:
    return {
        "step": node.name,
        "kind": node.kind,
        "settings": dict(node.settings),
        "reads": None if node.reads is None else node.reads.name,
        "writes": None if node.writes is None else node.writes.name,
        "keeps": [store.name for store in node.stores],
        "looks_into": list(node.global_stores),
        "after": list(node.parents),
    }


def as_mermaid(graph: Graph) -> str:
    """Return the topology as a Mermaid flowchart: topics round, stores as cylinders."""
    numbers = {node.name: f"n{place}" for place, node in enumerate(graph.nodes)}
    topics = {name: f"t{place}" for place, name in enumerate(graph.topics)}
    stores = {name: f"s{place}" for place, name in enumerate(graph.stores)}
    lines = ["flowchart TD"]
    lines += [f'  {mark}(["{name}"])' for name, mark in topics.items()]
    for place, part in enumerate(graph.sub_topologies):
        lines.append(f'  subgraph p{place}["{part.name}"]')
        lines += [f'    {numbers[node.name]}["{node.name}<br/>{node.kind}"]' for node in part.nodes]
        owned = dict.fromkeys(store.name for node in part.nodes for store in node.stores)
        lines += [f'    {stores[name]}[("{name}")]' for name in owned]
        lines.append("  end")
    for node in graph.nodes:
        here = numbers[node.name]
        lines += [f"  {numbers[parent]} --> {here}" for parent in node.parents]
        lines += [f"  {here} --- {stores[store.name]}" for store in node.stores]
        lines += [f"  {stores[name]} -.-> {here}" for name in node.global_stores]
        if node.reads is not None:
            lines.append(f"  {topics[node.reads.name]} --> {here}")
        if node.writes is not None:
            lines.append(f"  {here} --> {topics[node.writes.name]}")
    return "\n".join(lines) + "\n"
