// Metrics of a job: plots of those that somebody picks, and the list of all of a task.
import { html, useEffect, useState } from "../preact.js";
import { Panel, usePages } from "../components.js";
import { byteRate, bytes, count, duration, rate, time } from "../format.js";
import { BINARY, Plot, SECONDS, WHOLE } from "../plots.js";
import { keep, kept } from "../kept.js";
import { root, serverNow } from "../rest.js";
import { NO_WATERMARK } from "../tasks.js";
import { t } from "../words.js";

const MOST = 300; // values of each that are kept
const GAP_S = 15; // nothing is drawn over a time when nobody looked
const LINES = 5;
const COLORS = ["--c1", "--c4", "--c2", "--c3", "--c5"];

const decimals = (value) => (value === null ? "–" : Math.abs(value) >= 1000 ? count(value) : String(Math.round(value * 1000) / 1000));
const PLAIN = { told: decimals, ticks: undefined };
// What a value is told as, and between which values an axis may have its marks, by the unit; a job's own may have any name.
const UNITS = {
  __proto__: null,
  bytes: { told: bytes, ticks: BINARY },
  "bytes/s": { told: byteRate, ticks: BINARY },
  ms: { told: duration, ticks: WHOLE },
  ns: { told: (value) => duration(value === null ? null : value / 1e6), ticks: WHOLE },
  "ms since 1970": { told: time, ticks: SECONDS.map((seconds) => 1000 * seconds) },
  "records/s": { told: rate, ticks: undefined },
};

const keyOf = ({ vertex, operator, name }) => JSON.stringify([vertex ?? null, operator ?? null, name]);
const nameOf = ({ operator, name }) => (operator ? `${operator}.${name}` : name);
const plain = (value) => (typeof value !== "number" || value <= NO_WATERMARK ? null : value);

// -- which are picked

const placeOf = (job) => `pystate-plots ${root.pathname} ${job}`;

function readPicks(job) {
  try {
    const isText = (value) => typeof value === "string";
    const picks = JSON.parse(kept(placeOf(job)) ?? "[]").filter((one) => isText(one?.name) && isText(one.subtasks) && [one.vertex, one.task, one.operator].every((part) => isText(part ?? "")));
    return [...new Map(picks.map((one) => [keyOf(one), one])).values()];
  } catch {
    return []; // somebody else has written there
  }
}

// The picked metrics of jobs of a name, kept by the browser: {picks, has, toggle, change}.
export function usePicks(job) {
  const [{ of, picks }, set] = useState({ of: job, picks: readPicks(job) });
  const now = of === job ? picks : readPicks(job);
  const pick = (next) => {
    keep(placeOf(job), JSON.stringify(next));
    set({ of: job, picks: next });
  };
  const has = (one) => now.some((other) => keyOf(other) === keyOf(one));
  const toggle = (one) => pick(has(one) ? now.filter((other) => keyOf(other) !== keyOf(one)) : [...now, { vertex: one.vertex ?? null, task: one.task ?? null, operator: one.operator ?? null, name: one.name, subtasks: one.subtasks ?? "" }]);
  const change = (one, subtasks) => pick(now.map((other) => (keyOf(other) === keyOf(one) ? { ...other, subtasks } : other)));
  return { picks: now, has, toggle, change };
}

// -- their values

const byPick = new Map(); // job and key -> {at, values: Map subtask -> one for each of at, kind, unit}

// Note what picked metrics are now, and forget those that are not picked any more.
export function note(jid, picks, metrics, now) {
  const wanted = new Map(picks.map((one) => [keyOf(one), new Map()]));
  const known = new Map();
  for (const one of metrics) {
    const key = keyOf(one);
    const value = wanted.has(key) ? plain(one.value) : undefined;
    if (value === undefined) continue;
    wanted.get(key).set(one.subtask ?? 0, value);
    known.set(key, one);
  }
  for (const place of byPick.keys()) if (!place.startsWith(`${jid} `) || !wanted.has(place.slice(jid.length + 1))) byPick.delete(place);
  for (const [key, values] of wanted) {
    const kept = byPick.get(`${jid} ${key}`) ?? { at: [], values: new Map() };
    byPick.set(`${jid} ${key}`, kept);
    if (known.has(key)) Object.assign(kept, { kind: known.get(key).kind, unit: known.get(key).unit });
    if (now - kept.at[kept.at.length - 1] > GAP_S) append(kept, now - 1, new Map());
    append(kept, now, values);
  }
}

function append(kept, now, values) {
  for (const index of values.keys()) if (!kept.values.has(index)) kept.values.set(index, kept.at.map(() => null));
  kept.at.push(now);
  for (const [index, past] of kept.values) past.push(values.get(index) ?? null);
  if (kept.at.length > MOST) [kept.at, ...kept.values.values()].forEach((past) => past.shift());
}

export const notedOf = (jid, one) => byPick.get(`${jid} ${keyOf(one)}`) ?? { at: [], values: new Map() };

// Whether a subtask is one of those that a text such as 0,2-4 names; null for a text that names none.
export function chosen(text) {
  const parts = text.split(",").map((part) => part.trim()).filter(Boolean).map((part) => /^(\d+)(?:-(\d+))?$/.exec(part));
  if (parts.some((part) => !part)) return null;
  const ranges = parts.map(([, first, last]) => [Number(first), Number(last ?? first)]);
  if (ranges.some(([first, last]) => first > last)) return null;
  return (index) => !ranges.length || ranges.some(([first, last]) => first <= index && index <= last);
}

// The lines of a plot, [{label, values}]: the chosen subtasks, or of more than a plot can show the highest, the mean and the lowest.
export function linesOf(values, isChosen, nameOfOne) {
  const found = [...values.entries()].filter(([index]) => isChosen(index)).sort(([a], [b]) => a - b);
  if (found.length <= LINES) return found.map(([index, of]) => ({ label: nameOfOne ?? t("Subtask {index}", { index }), values: of }));
  const over = (fold) =>
    found[0][1].map((_, at) => {
      const known = found.map(([, of]) => of[at]).filter((value) => value !== null);
      return known.length ? fold(known) : null;
    });
  return [
    { label: t("highest"), values: over((known) => Math.max(...known)) },
    { label: t("mean"), values: over((known) => known.reduce((sum, value) => sum + value, 0) / known.length) },
    { label: t("lowest"), values: over((known) => Math.min(...known)) },
  ];
}

// -- what is shown

export function MetricPlots({ jid, metrics, plots, picked }) {
  const keys = plots.picks.map(keyOf).join();
  const [, drawn] = useState(0);
  useEffect(() => {
    if (!metrics) return;
    note(jid, plots.picks, metrics, serverNow() / 1000);
    drawn((n) => n + 1);
  }, [jid, keys, metrics]);
  return html`<${Panel} title=${t("Plots of metrics")} side=${html`<span class="soft small">${t("What is picked is kept in this browser, for all jobs of this name.")}</span>`}>
      <${Pick} metrics=${metrics ?? []} plots=${plots} picked=${picked} /><//>
    ${plots.picks.length ? html`<div class="grid">${plots.picks.map((one) => html`<${One} key=${keyOf(one)} of=${one} noted=${notedOf(jid, one)} plots=${plots} />`)}</div>` : null}`;
}

// A task, and one of its metrics.
function Pick({ metrics, plots, picked }) {
  const [task, setTask] = useState(null);
  const [key, setKey] = useState("");
  const tasks = new Map(metrics.filter((one) => one.vertex).map((one) => [one.vertex, one.task]));
  const at = [task, picked, tasks.keys().next().value].find((one) => one === "" || tasks.has(one)) ?? "";
  const found = new Map(metrics.filter((one) => (one.vertex ?? "") === at && typeof one.value === "number").map((one) => [keyOf(one), one]));
  const names = [...found.entries()].sort(([, a], [, b]) => nameOf(a).localeCompare(nameOf(b)));
  const one = found.get(key) ?? names[0]?.[1];
  const add = (event) => {
    event.preventDefault();
    if (one && !plots.has(one)) plots.toggle(one);
  };
  return html`<form class="row" onSubmit=${add}>
    <label class="field wide">${t("Task")}<select name="task" value=${at} onChange=${(event) => setTask(event.target.value)}>${[...tasks.entries()].map(([id, name]) => html`<option key=${id} value=${id}>${name}</option>`)}<option value="">${t("the job as a whole")}</option></select></label>
    <label class="field wide">${t("Metric")}<select name="metric" value=${one ? keyOf(one) : ""} onChange=${(event) => setKey(event.target.value)}>${names.map(([id, each]) => html`<option key=${id} value=${id}>${nameOf(each)}</option>`)}</select></label>
    <button type="submit" disabled=${!one || plots.has(one)}>${t("Plot it")}</button></form>`;
}

function One({ of, noted, plots }) {
  const isChosen = chosen(of.subtasks);
  const lines = linesOf(noted.values, isChosen ?? (() => true), of.vertex ? null : of.name);
  const { told, ticks } = UNITS[noted.unit] ?? PLAIN;
  const latest = lines.map((line) => [line.label, told(line.values[line.values.length - 1] ?? null)]);
  const name = of.vertex ? `${of.task}: ${nameOf(of)}` : nameOf(of);
  const side = html`<span class="row">${of.vertex && noted.values.size > 1 ? html`<label class="small soft">${t("Subtasks")} <input class="short" value=${of.subtasks} placeholder=${t("all")} aria-invalid=${isChosen === null} onInput=${(event) => plots.change(of, event.target.value)} /></label>` : null}
    <button type="button" class="plain small" aria-label=${t("Take away the plot of {name}", { name })} onClick=${() => plots.toggle(of)}>×</button></span>`;
  return html`<${Panel} title=${name} side=${side}>
    ${lines.length ? html`<p class="soft small">${noted.unit ? `${noted.unit}: ` : ""}${latest.map(([label, value]) => (of.vertex ? `${label} ${value}` : value)).join(" · ")}</p>
      <${Plot} label=${t("{name} over time", { name })} unit=${told} ticks=${ticks} floats=${noted.kind === "counter" || noted.unit === "ms since 1970"} data=${[noted.at, ...lines.map((line) => line.values)]} series=${lines.map((line, index) => ({ label: line.label, color: COLORS[index] }))} />` : html`<p class="empty">${t("Nothing is measured of it at the moment.")}</p>`}<//>`;
}

// Everything that is measured of a task, what the program counts itself among it: a value for each subtask.
export function AllMetrics({ of, plots }) {
  const [open, set] = useState(false);
  return html`<details onToggle=${(event) => set(event.target.open)}><summary class="small soft">${t("All metrics")}</summary>${open ? html`<${Measured} of=${of} plots=${plots} />` : null}</details>`;
}

function Measured({ of, plots }) {
  const [text, look] = useState("");
  const rows = new Map();
  for (const one of of) {
    const key = `${one.operator ?? ""} ${one.name}`;
    const row = rows.get(key) ?? { key, one, values: [] };
    row.values.push([one.subtask ?? 0, one.value]);
    rows.set(key, row);
  }
  const found = [...rows.values()].filter((row) => row.key.toLowerCase().includes(text.toLowerCase()));
  const { shown, more } = usePages(found, 50);
  const form = (value) => (typeof value !== "number" ? String(value ?? "–") : value <= NO_WATERMARK ? "–" : String(Math.round(value * 1000) / 1000));
  const told = (row) => row.values.sort(([a], [b]) => a - b).map(([, value]) => form(value)).join(" · ");
  return html`<input type="search" aria-label=${t("Find a metric")} placeholder=${t("Find a metric")} value=${text} onInput=${(event) => look(event.target.value)} />
    <div class="scroll" tabindex="0"><table class="compact stack one"><thead><tr><th>${t("Operator")}</th><th>${t("Metric")}</th><th>${t("Unit")}</th><th>${t("By subtask")}</th><th>${t("Plot")}</th></tr></thead>
    <tbody>${shown.map((row) => html`<tr key=${row.key}><td>${row.one.operator ?? ""}</td><td class="mono small">${row.one.name}</td><td class="soft small">${row.one.unit ?? ""}</td><td class="number">${told(row)}</td><td>${typeof row.one.value === "number" ? html`<button type="button" class="plain small" aria-pressed=${plots.has(row.one)} aria-label=${t("Plot {name}", { name: nameOf(row.one) })} onClick=${() => plots.toggle(row.one)}>${plots.has(row.one) ? "✓" : "+"}</button>` : null}</td></tr>`)}</tbody></table></div>${more}`;
}
