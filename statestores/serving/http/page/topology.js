// Draws what `Topology.mermaid` writes: topics, steps and stores, from the top to the bottom.

const NODE = /^\s*([a-z]\d+)(\(\["(.*)"\]\)|\[\("(.*)"\)\]|\["(.*)"\])\s*$/;
const EDGE = /^\s*([a-z]\d+) (-->|---|-\.->) ([a-z]\d+)\s*$/;
const WIDTH = 190, HEIGHT = 42, GAP_X = 24, GAP_Y = 40;
const SVG = "http://www.w3.org/2000/svg";

export function parse(text) {
  const nodes = new Map(), edges = [];
  for (const line of text.split("\n")) {
    const node = NODE.exec(line), edge = EDGE.exec(line);
    if (node) {
      const kind = node[3] !== undefined ? "topic" : node[4] !== undefined ? "store" : "step";
      const [label, detail] = (node[3] ?? node[4] ?? node[5]).split("<br/>");
      nodes.set(node[1], { kind, label, detail: detail ?? (kind === "step" ? "" : kind) });
    } else if (edge) {
      edges.push({ from: edge[1], to: edge[3], uses: edge[2] !== "-->" });
    }
  }
  return { nodes, edges: edges.filter((each) => nodes.has(each.from) && nodes.has(each.to)) };
}

function levels(nodes, edges) {
  const level = new Map([...nodes.keys()].map((name) => [name, 0]));
  for (let round = 0; round < nodes.size; round++) {
    let changed = false;
    for (const { from, to } of edges) {
      if (level.get(to) < level.get(from) + 1 && level.get(from) + 1 < nodes.size) {
        level.set(to, level.get(from) + 1);
        changed = true;
      }
    }
    if (!changed) break;
  }
  return level;
}

function made(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const short = (text) => (text.length > 27 ? `${text.slice(0, 26)}…` : text);

export function draw(text) {
  const { nodes, edges } = parse(text);
  const level = levels(nodes, edges);
  const rows = [];
  for (const [name, at] of level) (rows[at] ??= []).push(name);
  const widest = Math.max(1, ...rows.map((row) => row?.length ?? 0));
  const width = widest * (WIDTH + GAP_X) + GAP_X, height = rows.length * (HEIGHT + GAP_Y) + GAP_Y;
  const picture = made("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  picture.append(made("title", {}, `${nodes.size} parts and ${edges.length} connections`));
  const place = new Map();
  rows.forEach((row, at) => {
    const left = (width - row.length * (WIDTH + GAP_X) + GAP_X) / 2;
    row.forEach((name, column) => place.set(name, { x: left + column * (WIDTH + GAP_X), y: GAP_Y / 2 + at * (HEIGHT + GAP_Y) }));
  });
  for (const { from, to, uses } of edges) {
    const a = place.get(from), b = place.get(to);
    const x1 = a.x + WIDTH / 2, y1 = a.y + HEIGHT, x2 = b.x + WIDTH / 2, y2 = b.y;
    const middle = (y1 + y2) / 2;
    picture.append(made("path", { class: uses ? "edge uses" : "edge", d: `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}` }));
    if (!uses) picture.append(made("path", { class: "head", d: `M${x2} ${y2}l-4 -7h8z` }));
  }
  for (const [name, node] of nodes) {
    const { x, y } = place.get(name);
    const group = made("g", { class: node.kind });
    if (node.kind === "store") {
      group.append(made("path", { class: "shape", d: `M${x} ${y + 6}a${WIDTH / 2} 6 0 0 1 ${WIDTH} 0v${HEIGHT - 12}a${WIDTH / 2} 6 0 0 1 -${WIDTH} 0z` }));
    } else {
      group.append(made("rect", { x, y, width: WIDTH, height: HEIGHT, rx: node.kind === "topic" ? HEIGHT / 2 : 5 }));
    }
    group.append(made("title", {}, node.label));
    group.append(made("text", { x: x + WIDTH / 2, y: y + 19, "text-anchor": "middle" }, short(node.label)));
    group.append(made("text", { class: "kind", x: x + WIDTH / 2, y: y + 34, "text-anchor": "middle" }, node.detail));
    picture.append(group);
  }
  return picture;
}
