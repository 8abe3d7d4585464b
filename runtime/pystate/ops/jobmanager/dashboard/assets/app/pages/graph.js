// The job graph, laid out by dagre; each task is a button that shows its subtasks.
import * as dagre from "../../vendor/dagre.mjs";
import { html, useEffect, useMemo, useRef, useState } from "../preact.js";
import { Load } from "../components.js";
import { age, byteRate, bytes, rate } from "../format.js";
import { t } from "../words.js";

const WIDTH = 256;
const HEIGHT = 150;

// Where each task is: {nodes: Map id -> {x, y}, edges: [{path, label}], width, height}.
function layout(plan, narrow) {
  const graph = new dagre.Graph({ multigraph: true });
  graph.setGraph({ rankdir: narrow ? "TB" : "LR", nodesep: 26, ranksep: narrow ? 40 : 24, marginx: 4, marginy: 4 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of plan) graph.setNode(node.id, { width: WIDTH, height: HEIGHT });
  for (const node of plan)
    for (const [index, input] of (node.inputs ?? []).entries())
      if (graph.hasNode(input.id)) graph.setEdge(input.id, node.id, { label: input.ship_strategy, width: 60, height: 14, labelpos: "c" }, `${index}`);
  dagre.layout(graph);
  const nodes = new Map(graph.nodes().map((id) => [id, graph.node(id)]));
  const edges = graph.edges().map((edge) => {
    const { points, x, y, label } = graph.edge(edge);
    return { path: curve(points), x, y, label, key: `${edge.v}-${edge.w}-${edge.name}` };
  });
  const { width, height } = graph.graph();
  return { nodes, edges, width, height };
}

function curve(points) {
  const [first, ...rest] = points;
  let path = `M${first.x},${first.y}`;
  for (let i = 0; i < rest.length - 1; i += 1) {
    const middle = { x: (rest[i].x + rest[i + 1].x) / 2, y: (rest[i].y + rest[i + 1].y) / 2 };
    path += ` Q${rest[i].x},${rest[i].y} ${middle.x},${middle.y}`;
  }
  const last = rest[rest.length - 1];
  return `${path} L${last.x},${last.y}`;
}

function useNarrow() {
  const query = useMemo(() => window.matchMedia("(max-width: 760px)"), []);
  const [narrow, set] = useState(query.matches);
  useEffect(() => {
    const changed = () => set(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, [query]);
  return narrow;
}

// Args: plan is REST's list of nodes; tasks is a Map of id to {name, parallelism, busy, pressed, recordsIn, bytesIn, state, watermark, skewed, ...}.
export function Graph({ plan, tasks, picked, pick, now }) {
  const narrow = useNarrow();
  const place = useRef(null);
  const shape = JSON.stringify(plan.map((node) => [node.id, (node.inputs ?? []).map((input) => [input.id, input.ship_strategy])]));
  const { nodes, edges, width, height } = useMemo(() => layout(plan, narrow), [shape, narrow]);
  useEffect(() => {
    const at = nodes.get(picked);
    const { scrollLeft: left, scrollTop: top, clientWidth: wide, clientHeight: high } = place.current;
    if (at && (at.x - WIDTH / 2 < left || at.x + WIDTH / 2 > left + wide)) place.current.scrollLeft = at.x - wide / 2;
    if (at && (at.y - HEIGHT / 2 < top || at.y + HEIGHT / 2 > top + high)) place.current.scrollTop = at.y - high / 2;
  }, [picked]); // it may have been picked in the list of tasks
  return html`<div class="graph" ref=${place} tabindex="0" role="group" aria-label=${t("Job graph")}><div style=${{ width: `${width}px`, height: `${height}px` }}>
    <svg width=${width} height=${height} aria-hidden="true">
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" /></marker></defs>
      ${edges.map((edge) => html`<g key=${edge.key}><path d=${edge.path} marker-end="url(#arrow)" />${edge.label ? html`<text x=${edge.x} y=${edge.y - 5} text-anchor="middle">${edge.label}</text>` : null}</g>`)}
    </svg>
    ${plan.map((node) => {
      const at = nodes.get(node.id);
      const task = tasks.get(node.id);
      const name = task?.name ?? node.description.split("<br/>")[0];
      const hot = task && (task.pressed > 0.5 || task.busy > 0.9 || task.skewed);
      return html`<button key=${node.id} type="button" class=${`node ${hot ? "hot" : ""}`} aria-pressed=${picked === node.id} onClick=${() => pick(picked === node.id ? null : node.id)}
        style=${{ left: `${at.x - WIDTH / 2}px`, top: `${at.y - HEIGHT / 2}px`, width: `${WIDTH}px`, height: `${HEIGHT}px` }}>
        <span class="name" title=${node.description.replaceAll("<br/>", "\n")}>${name}</span>
        ${task ? html`<${Load} busy=${task.busy} pressed=${task.pressed} />` : null}
        <dl>
          <dt>${t("Parallelism")}</dt><dd>${node.parallelism}${task?.skewed ? html` <span class="outlier">${t("skewed")}</span>` : null}</dd>
          <dt>${t("In, out")}</dt><dd>${task ? `${rate(task.recordsIn)}, ${rate(task.recordsOut)}` : "–"}</dd>
          <dt>${t("Bytes")}</dt><dd>${task ? `${byteRate(task.bytesIn)}, ${byteRate(task.bytesOut)}` : "–"}</dd>
          <dt>${t("State size")}</dt><dd>${bytes(task?.state ?? null)}</dd>
          <dt>${t("Watermark lag")}</dt><dd>${task?.watermark ? age(now, task.watermark) : "–"}</dd>
        </dl>
      </button>`;
    })}
  </div></div>`;
}
