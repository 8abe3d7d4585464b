// The time line of a job's barriers: what each part of the last ones took, and of one of them when each subtask had done it.
import { html, useEffect, useMemo, useRef, useState } from "../preact.js";
import { Badge, Failure, Panel, usePages, Waiting } from "../components.js";
import { bytes, duration, time } from "../format.js";
import { Plot, stacked } from "../plots.js";
import { useAnswer, useConnection, useOnce } from "../rest.js";
import { t } from "../words.js";

const LISTED = 50;
const PAGE = 50;
const NOTHING = [];

// What the parts of a barrier took, in ms, of an answer of REST; together they reach from the trigger to the last thing known.
export function partsOf(one) {
  const acknowledged = Math.max(0, one.end_to_end_duration);
  let left = acknowledged;
  const part = (ms) => {
    const taken = Math.min(left, Math.max(0, ms ?? 0)); // the longest of each may be of several subtasks at the same time
    left -= taken;
    return taken;
  };
  const parts = { delay: part(one.start_delay), alignment: part(one.alignment_duration), sync: part(one.sync_duration), async: part(one.async_duration) };
  const completed = one.completion_timestamp ? Math.max(acknowledged, one.completion_timestamp - one.trigger_timestamp) : acknowledged;
  const notified = one.notification_timestamp ? Math.max(completed, one.notification_timestamp - one.trigger_timestamp) : completed;
  const failed = one.status === "FAILED" ? left : 0;
  return { ...parts, acknowledging: left - failed, failed, completing: completed - acknowledged, notifying: notified - completed, acknowledged, completed, notified };
}

// The same of a subtask that has acknowledged, as [kind, from, to] in ms after the trigger.
export function spansOf(subtask) {
  const parts = partsOf({ end_to_end_duration: subtask.end_to_end_duration, start_delay: subtask.start_delay, alignment_duration: subtask.alignment.duration, sync_duration: subtask.checkpoint.sync, async_duration: subtask.checkpoint.async });
  let at = 0;
  return ["delay", "alignment", "sync", "async", "acknowledging"].map((kind) => [kind, at, (at += parts[kind])]);
}

const COLORS = { delay: "--c1", alignment: "--c2", sync: "--c3", async: "--c4", acknowledging: "--calm", failed: "--bad", completing: "--c5", notifying: "--pressed" };
const KINDS = Object.keys(COLORS);
const words = () => ({ delay: t("start delay"), alignment: t("alignment"), sync: t("synchronous"), async: t("asynchronous"), acknowledging: t("acknowledging"), failed: t("until it failed"), completing: t("completing"), notifying: t("notifying functions") });

export function Barriers({ jid }) {
  const { data, error } = useAnswer(`/jobs/${jid}/checkpoints?limit=${LISTED}`);
  const [picked, pick] = useState(null);
  const history = data?.history ?? [];
  const ended = useMemo(() => history.filter((one) => one.status !== "IN_PROGRESS").reverse(), [data]);
  const { columns, series } = useMemo(() => {
    const parts = ended.map(partsOf);
    const names = words();
    const layers = KINDS.map((kind) => parts.map((one) => one[kind]));
    return {
      columns: [ended.map((one) => one.trigger_timestamp / 1000), ...stacked(layers)],
      series: KINDS.map((kind, at) => ({ label: names[kind], color: COLORS[kind], bars: true, raw: layers[at] })).reverse(),
    };
  }, [ended]);
  if (!data) return error ? html`<${Failure} error=${error} />` : null;
  if (!ended.length) return null;
  const found = ended.findIndex((one) => one.id === picked);
  const place = found < 0 ? ended.length - 1 : found; // the newest is followed, also where the picked one is listed no more
  const shown = ended[place];
  const running = history.find((one) => one.status === "IN_PROGRESS");
  const title = html`${t("the last {count}", { count: ended.length })}${running ? ` · ${t("barrier {id} is on its way: {done} of {all} subtasks", { id: running.id, done: running.num_acknowledged_subtasks, all: running.num_subtasks })}` : ""}`;
  return html`<${Panel} title=${t("Time line of barriers")} side=${html`<span class="soft small">${title}</span>`}>
    <${Plot} label=${t("What the parts of the last barriers took, the longest of all subtasks; by subtask in the table below")} unit=${duration} data=${columns} series=${series} />
    <div class="panel-head barrier-head"><h3>${t("Barrier {id}", { id: shown.id })}</h3><${Badge} state=${shown.status} /><span class="soft small">${t("triggered {when}", { when: time(shown.trigger_timestamp) })}</span>
      <div class="actions" role="group" aria-label=${t("Another barrier")}>
        <button type="button" disabled=${place === 0} onClick=${() => pick(ended[place - 1].id)}>${t("Earlier")}</button>
        <button type="button" disabled=${place === ended.length - 1} onClick=${() => pick(ended[place + 1].id)}>${t("Later")}</button>
        <button type="button" aria-pressed=${found < 0} onClick=${() => pick(found < 0 ? shown.id : null)}>${t("Follow the newest")}</button></div></div>
    <${Barrier} jid=${jid} of=${shown} /><//>`;
}

// One barrier, task by task: when each had it, was aligned, had its snapshot, and had acknowledged.
function Barrier({ jid, of }) {
  const path = `/jobs/${jid}/checkpoints/details/${of.id}`;
  const { data, error, again } = useOnce(path);
  const up = useConnection();
  useEffect(() => {
    if (up && error) again();
  }, [up]);
  const before = useRef(null); // stays until the next one is there, so that nothing jumps
  if (data) before.current = { path, of, tasks: Object.entries(data.tasks) };
  else if (error) before.current = null; // it would stand below the name of another one
  const [open, set] = useState(null);
  const current = before.current;
  const list = usePages(current?.tasks ?? NOTHING, PAGE);
  if (error) return html`<${Failure} error=${error} />`;
  if (!current) return html`<${Waiting} />`;
  const parts = partsOf(current.of);
  const whole = Math.max(1, parts.notified);
  return html`<div class="scroll" tabindex="0" aria-busy=${!data}><table class="compact stack barriers"><thead><tr><th>${t("Task")}</th><th class="wide"><span class="hidden-text">${t("Time line")}</span><span class="ends" aria-hidden="true"><span>0</span><span>${duration(whole)}</span></span></th><th class="right">${t("Start delay")}</th><th class="right">${t("Alignment")}</th><th class="right">${t("Sync")}</th><th class="right">${t("Async")}</th><th class="right">${t("Written")}</th><th class="right">${t("After")}</th></tr></thead>
    <tbody>${list.shown.map(([id, one]) => html`<${Task} key=${id} path=${`${current.path}/subtasks/${id}`} one=${one} whole=${whole} open=${open === id} toggle=${() => set(open === id ? null : id)} failed=${current.of.status === "FAILED"} />`)}
      ${current.of.completion_timestamp ? html`<${Moment} name=${t("Completed")} kind="completing" from=${parts.acknowledged} to=${parts.completed} whole=${whole} />` : null}
      ${current.of.notification_timestamp ? html`<${Moment} name=${t("Functions notified")} kind="notifying" from=${parts.completed} to=${parts.notified} whole=${whole} />` : null}</tbody></table></div>${list.more}`;
}

const Line = ({ spans, whole }) => html`<div class="span" aria-hidden="true">${spans.map(([kind, from, to]) => (to > from ? html`<i key=${kind} style=${{ left: `${(from / whole) * 100}%`, width: `${((to - from) / whole) * 100}%`, background: `var(${COLORS[kind]})` }}></i>` : null))}</div>`;

const Cells = ({ one, whole }) => html`<td class="wide"><${Line} spans=${spansOf(one)} whole=${whole} /></td>
  <td class="right" data-label=${t("Start delay")}>${duration(one.start_delay)}</td><td class="right" data-label=${t("Alignment")}>${duration(one.alignment.duration)}</td><td class="right" data-label=${t("Sync")}>${duration(one.checkpoint.sync)}</td><td class="right" data-label=${t("Async")}>${duration(one.checkpoint.async)}</td><td class="right" data-label=${t("Written")}>${bytes(one.checkpointed_size)}</td><td class="right" data-label=${t("After")}>${duration(one.end_to_end_duration)}</td>`;

const Missing = ({ failed }) => html`<td colspan="7" class="soft">${failed ? t("not acknowledged") : t("not yet")}</td>`;

function Task({ path, one, whole, open, toggle, failed }) {
  const last = one.last_subtask;
  const some = one.num_acknowledged_subtasks < one.num_subtasks ? t("{done} of {all} have acknowledged", { done: one.num_acknowledged_subtasks, all: one.num_subtasks }) : one.num_subtasks > 1 && last ? t("subtask {index} was the last", { index: last.index }) : null;
  return html`<tr class=${`pick ${open ? "picked" : ""}`} onClick=${toggle}><td class="name"><button type="button" class="plain" aria-expanded=${open}>${one.name}</button>${some ? html`<span class="soft small">${some}</span>` : null}</td>${last ? html`<${Cells} one=${last} whole=${whole} />` : html`<${Missing} failed=${failed} />`}</tr>
    ${open ? html`<${Subtasks} path=${path} whole=${whole} failed=${failed} />` : null}`;
}

function Subtasks({ path, whole, failed }) {
  const { data, error } = useOnce(path);
  const list = usePages(data?.subtasks ?? [], PAGE);
  if (!data) return html`<tr><td colspan="8">${error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`}</td></tr>`;
  return html`${list.shown.map((one) => html`<tr key=${one.index} class="sub"><td>${t("Subtask {index}", { index: one.index })}</td>${one.status === "completed" ? html`<${Cells} one=${one} whole=${whole} />` : html`<${Missing} failed=${failed} />`}</tr>`)}
    ${list.more ? html`<tr><td colspan="8">${list.more}</td></tr>` : null}`;
}

const Moment = ({ name, kind, from, to, whole }) => html`<tr><td class="name"><span class="moment">${name}</span></td><td class="wide"><${Line} spans=${[[kind, from, to]]} whole=${whole} /></td><td colspan="5"></td><td class="right" data-label=${t("After")}>${duration(to)}</td></tr>`;
