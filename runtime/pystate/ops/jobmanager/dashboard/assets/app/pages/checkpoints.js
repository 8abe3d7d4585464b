// The checkpoints of a job: what they took, how large they are, why they failed, down to the subtasks.
import { html, useMemo, useRef, useState } from "../preact.js";
import { Badge, Command, Facts, Failure, kept, Message, Notice, Panel, Progress, useClock, useOrder, Waiting } from "../components.js";
import { age, bytes, count, duration, percent, quoted, time } from "../format.js";
import { Plot, stacked } from "../plots.js";
import { ask, useAnswer, useOnce } from "../rest.js";
import { language, t } from "../words.js";

const PAGE = 100;
const PARTS = ["start_delay", "alignment_duration", "sync_duration", "async_duration"];
const CHANGES = ["status", "discarded", "restore_timestamp"]; // of one that has ended
const NOTHING = [];

// The newest checkpoints, which follow, and earlier ones, which are asked for a page at a time: {history, earlier, error}.
function useHistory(jid, newest) {
  const known = useRef(new Map());
  const [pages, setPages] = useState(1);
  const [state, set] = useState({ asking: false, all: false, error: null });
  const history = useMemo(() => {
    const all = known.current;
    const given = new Set(newest.map((one) => one.id));
    const least = newest.at(-1)?.id ?? 0;
    const whole = newest.length < PAGE; // what is not in it is not remembered any more
    for (const id of all.keys()) if ((whole || id > least) && !given.has(id)) all.delete(id); // else it was withdrawn
    for (const one of newest) {
      const before = all.get(one.id);
      const same = before && one.status !== "IN_PROGRESS" && CHANGES.every((name) => before[name] === one[name]);
      if (!same) all.set(one.id, one);
    }
    const sorted = [...all.values()].sort((a, b) => b.id - a.id);
    for (const one of sorted.splice(pages * PAGE)) all.delete(one.id);
    return sorted;
  }, [newest, pages]);
  const earlier = async () => {
    set({ ...state, asking: true });
    try {
      const found = (await ask(`/jobs/${jid}/checkpoints?limit=${PAGE}&before=${history.at(-1).id}`)).history;
      for (const one of found) known.current.set(one.id, one);
      setPages(pages + 1);
      set({ asking: false, all: found.length < PAGE, error: null });
    } catch (error) {
      set({ asking: false, all: false, error });
    }
  };
  return { history, earlier: newest.length < PAGE || state.all ? null : earlier, asking: state.asking, error: state.error };
}

// What was in flight while barriers were aligned: processed meanwhile, and how much of it is in the checkpoint.
const inFlight = ({ processed_data: processed, persisted_data: persisted }) => `${bytes(processed)} (${bytes(persisted)})`;

const Row = kept(({ one, picked, pick, now }) => html`<tr class=${`pick ${picked ? "picked" : ""}`} onClick=${() => pick(picked ? null : one.id)}>
  <td class="right"><button class="plain" aria-expanded=${picked}>${one.id}</button></td><td>${one.status === "IN_PROGRESS" ? html`<${Progress} done=${one.num_acknowledged_subtasks} total=${one.num_subtasks} label=${t("Checkpoint {id}", { id: one.id })} /><span class="soft small">${one.num_acknowledged_subtasks}/${one.num_subtasks}${one.waits_since ? ` · ${t("waits for an epoch")}` : ""}</span>` : html`<${Badge} state=${one.status} />`}</td>
  <td class="short">${one.is_savepoint ? t("savepoint") : t("checkpoint")}</td><td class="right">${one.num_acknowledged_subtasks}/${one.num_subtasks}</td><td class="right">${time(one.trigger_timestamp)}</td><td class="right">${duration(one.status === "IN_PROGRESS" ? now - one.trigger_timestamp : one.end_to_end_duration)}</td>
  <td class="right">${duration(one.start_delay)}</td><td class="right">${duration(one.alignment_duration)}</td><td class="right">${duration(one.sync_duration)}</td><td class="right">${duration(one.async_duration)}</td><td class="right">${bytes(one.checkpointed_size)}</td><td class="right">${bytes(one.state_size)}</td><td class="right">${inFlight(one)}</td></tr>`);

export function CheckpointsView({ jid, job }) {
  const now = useClock();
  const { data, error } = useAnswer(`/jobs/${jid}/checkpoints?limit=${PAGE}`);
  const [picked, pick] = useState(null);
  const read = useRef(null);
  const { history, earlier, asking, error: refused } = useHistory(jid, data?.history ?? NOTHING);
  const { done, took, sizes, parts } = useMemo(() => {
    const found = history.filter((one) => one.status === "COMPLETED").reverse();
    const ids = found.map((one) => one.id);
    const part = (name) => found.map((one) => one[name] ?? 0);
    const each = Object.fromEntries(PARTS.map((name) => [name, part(name)]));
    return { done: found, parts: each, took: [ids, ...stacked(PARTS.map((name) => each[name]))], sizes: [ids, part("state_size"), part("checkpointed_size"), part("alignment_buffered")] };
  }, [history]);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`;
  const { counts, latest, summary } = data;
  const current = history.find((one) => one.id === picked) ?? (read.current?.id === picked ? read.current : null);
  read.current = current; // it stays while somebody reads it, though later ones push it out of the list
  const today = new Date(now).toDateString(); // times of other days are shown with them
  return html`
    <${Panel}><${Facts} of=${[
      [t("Completed"), count(counts.completed)],
      [t("In progress"), count(counts.in_progress)],
      [t("Failed"), counts.failed ? html`<span class="bad-text">${count(counts.failed)}</span>` : "0"],
      [t("Restored"), count(counts.restored)],
      [t("Duration"), duration(counts.completed ? summary.end_to_end_duration.avg : null), counts.completed ? t("at most {time}", { time: duration(summary.end_to_end_duration.max) }) : null],
      [t("Full size"), bytes(latest.completed?.state_size ?? null), latest.completed ? t("of which written {size}", { size: bytes(latest.completed.checkpointed_size) }) : null],
      [t("Last completed"), latest.completed ? t("{age} ago", { age: age(now, latest.completed.latest_ack_timestamp) }) : "–", latest.completed ? `#${latest.completed.id}` : null],
      latest.savepoint ? [t("Last savepoint"), t("{age} ago", { age: age(now, latest.savepoint.latest_ack_timestamp) }), `#${latest.savepoint.id}`] : null,
      latest.restored ? [t("Restored from"), `#${latest.restored.id}`, time(latest.restored.restore_timestamp)] : null,
    ]} />
    ${latest.failed ? html`<${Notice} kind="bad" title=${t("Checkpoint {id} failed {age} ago", { id: latest.failed.id, age: age(now, latest.failed.failure_timestamp ?? latest.failed.trigger_timestamp) })}><span><${Message} kind=${latest.failed.failure_reason} text=${latest.failed.failure_message ?? ""} /></span>${history.some((one) => one.id === latest.failed.id) && picked !== latest.failed.id ? html`<div><button type="button" onClick=${() => pick(latest.failed.id)}>${t("Show what was missing")}</button></div>` : null}<//>` : null}<//>
    ${current ? html`<${Details} key=${current.id} jid=${jid} checkpoint=${current} job=${job} close=${() => pick(null)} />` : null}
    <div class="grid">
      <${Panel} title=${t("What they took")}>${done.length ? html`<${Plot} time=${false} unit=${duration} label=${t("Duration of checkpoints, split into start delay, alignment, synchronous and asynchronous part, the slowest subtask of each")}
        data=${took}
        series=${[{ label: t("asynchronous"), color: "--c4", bars: true, raw: parts.async_duration }, { label: t("synchronous"), color: "--c3", bars: true, raw: parts.sync_duration }, { label: t("alignment"), color: "--c2", bars: true, raw: parts.alignment_duration }, { label: t("start delay"), color: "--c1", bars: true, raw: parts.start_delay }]} />` : html`<p class="empty">${counts.completed ? t("None of those that are listed is completed.") : t("None is completed yet.")}</p>`}<//>
      <${Panel} title=${t("How large they are")}>${done.length ? html`<${Plot} time=${false} unit=${bytes} label=${t("Full size, and what was written, of checkpoints")} data=${sizes} series=${[{ label: t("full"), color: "--c1" }, { label: t("written"), color: "--c4" }, { label: t("in flight"), color: "--c2" }]} />` : html`<p class="empty">${counts.completed ? t("None of those that are listed is completed.") : t("None is completed yet.")}</p>`}<//>
    </div>
    <${Panel} title=${t("History")} side=${html`<${Command} text=${`pystate checkpoints ${jid}`} />`}>
      <div class="scroll" tabindex="0"><table><thead><tr><th class="right">${t("Id")}</th><th>${t("State")}</th><th>${t("Kind")}</th><th class="right">${t("Acknowledged")}</th><th class="right">${t("Triggered")}</th><th class="right">${t("Duration")}</th><th class="right">${t("Start delay")}</th><th class="right">${t("Alignment")}</th><th class="right">${t("Sync")}</th><th class="right">${t("Async")}</th><th class="right">${t("Written")}</th><th class="right">${t("Full size")}</th><th class="right">${t("In flight (persisted)")}</th></tr></thead>
      <tbody>${history.map((one) => html`<${Row} key=${one.id} one=${one} picked=${picked === one.id} pick=${pick} now=${one.status === "IN_PROGRESS" ? now : null} words=${language()} today=${today} />`)}</tbody></table></div>
      <${Failure} error=${refused} />
      ${earlier ? html`<button type="button" disabled=${asking} onClick=${earlier}>${t("Show earlier ones")}</button>` : null}
    <//>
    ${done.length ? html`<${Summary} of=${summary} />` : null}
    <${Configured} jid=${jid} />`;
}

const number = (value) => (typeof value === "number" ? value : null); // "NaN" where it would say nothing

// The spread of all that were completed, as Flink's page has it.
const SPREAD = [["end_to_end_duration", duration], ["sync_duration", duration], ["async_duration", duration], ["checkpointed_size", bytes], ["state_size", bytes], ["processed_data", bytes], ["persisted_data", bytes]];
function Summary({ of }) {
  const names = [t("Duration"), t("Sync"), t("Async"), t("Written"), t("Full size"), t("In flight"), t("Persisted")];
  const rows = [["min", t("least")], ["avg", t("mean")], ["p50", t("median")], ["p90", "90 %"], ["p95", "95 %"], ["p99", "99 %"], ["p999", "99.9 %"], ["max", t("most")]];
  return html`<${Panel} title=${t("All that are completed")}><div class="scroll" tabindex="0"><table class="compact"><thead><tr><th></th>${names.map((name) => html`<th key=${name} class="right">${name}</th>`)}</tr></thead>
    <tbody>${rows.map(([key, name]) => html`<tr key=${key}><td class="short">${name}</td>${SPREAD.map(([part, form]) => html`<td key=${part} class="right">${form(number(of[part]?.[key]))}</td>`)}</tr>`)}</tbody></table></div><//>`;
}

const kindOf = ({ checkpoint_type: kind }) => ({ CHECKPOINT: t("aligned checkpoint"), UNALIGNED_CHECKPOINT: t("unaligned checkpoint"), SAVEPOINT: t("savepoint"), SYNC_SAVEPOINT: t("savepoint, at which the job stops") })[kind] ?? kind;

// How the job's checkpoints are taken, as Flink's page has it.
function Configured({ jid }) {
  const { data, error } = useOnce(`/jobs/${jid}/checkpoints/config`);
  if (!data) return html`<${Failure} error=${error} />`;
  const yes = (is) => (is ? t("yes") : t("no"));
  return html`<${Panel} title=${t("How they are taken")} side=${html`<a class="small" href=${`#/jobs/${jid}/settings`}>${t("All settings, and where they come from")}</a>`}><${Facts} of=${[
    [t("Interval"), data.interval > 0 && data.interval < 2 ** 53 ? duration(data.interval) : t("only when asked")],
    [t("Guarantee of state"), html`<span class="whole">${data.mode === "exactly_once" ? "exactly-once" : "at-least-once"}</span>`],
    [t("Timeout"), duration(data.timeout)],
    [t("Least pause"), duration(data.min_pause)],
    [t("At a time"), count(data.max_concurrent)],
    [t("Failures that are tolerated"), count(data.tolerable_failed_checkpoints)],
    [t("Unaligned"), yes(data.unaligned_checkpoints), data.unaligned_checkpoints && data.aligned_checkpoint_timeout ? t("aligned for {time} first", { time: duration(data.aligned_checkpoint_timeout) }) : null],
    [t("Also after a task has finished"), yes(data.checkpoints_after_tasks_finish)],
    [t("State backend"), data.state_backend.replace(/StateBackend$/, "")],
    [t("Storage"), html`<span class="whole">${data.checkpoint_storage.replace(/CheckpointStorage$/, "")}</span>`],
    [t("Kept after cancel"), yes(data.externalization.enabled && !data.externalization.delete_on_cancellation)],
  ]} /><//>`;
}

function Details({ jid, checkpoint, job, close }) {
  const path = `/jobs/${jid}/checkpoints/details/${checkpoint.id}`;
  const { data, error } = useOnce(path);
  const [picked, pick] = useState(undefined);
  // of one that has failed, the task that has not acknowledged it is what somebody looks for
  const late = checkpoint.status === "FAILED" ? Object.entries(data?.tasks ?? {}).find(([, one]) => one.num_acknowledged_subtasks < one.num_subtasks)?.[0] : null;
  const vertex = picked === undefined ? late : picked;
  const where = checkpoint.status === "COMPLETED" && !checkpoint.discarded ? (checkpoint.external_path ?? checkpoint.path) : null;
  const names = new Map(job.vertices.map((one) => [one.id, one.name]));
  return html`<${Panel} title=${t("Checkpoint {id}", { id: checkpoint.id })} side=${html`<${Badge} state=${checkpoint.status} /><button type="button" class="plain" onClick=${close}>${t("Close")}</button>`}>
    ${checkpoint.failure_message ? html`<${Notice} kind="bad" title=${html`<${Message} kind=${checkpoint.failure_reason} text=${checkpoint.failure_message} />`} />` : null}
    <p class="soft small">${[kindOf(checkpoint), checkpoint.discarded && checkpoint.status === "COMPLETED" ? t("deleted: later ones have replaced it") : null, checkpoint.restore_timestamp ? t("restored {when}", { when: time(checkpoint.restore_timestamp) }) : null].filter(Boolean).join(" · ")}</p>
    ${where ? html`<div class="row"><${Command} text=${quoted(where)} /><a href=${`#/savepoints?path=${encodeURIComponent(where)}`}>${t("Look into it, or start a job from it")}</a></div>` : null}
    <${Failure} error=${error} />
    ${data?.tasks ? html`<div class="scroll" tabindex="0"><table><thead><tr><th>${t("Task")}</th><th>${t("Acknowledged")}</th><th class="right">${t("Last answer")}</th><th class="right">${t("Duration")}</th><th class="right">${t("Written")}</th><th class="right">${t("Full size")}</th><th class="right">${t("Held back")}</th><th class="right">${t("In flight (persisted)")}</th></tr></thead>
      <tbody>${Object.entries(data.tasks).map(([id, one]) => html`<tr key=${id} class=${`pick ${vertex === id ? "picked" : ""}`} onClick=${() => pick(vertex === id ? null : id)}><td><button class="plain" aria-expanded=${vertex === id}>${names.get(id) ?? id}</button></td><td class=${checkpoint.status === "FAILED" && one.num_acknowledged_subtasks < one.num_subtasks ? "outlier" : ""}>${one.num_acknowledged_subtasks}/${one.num_subtasks} <span class="soft">${percent(one.num_acknowledged_subtasks / Math.max(1, one.num_subtasks))}</span></td>
      <td class="right">${time(one.latest_ack_timestamp)}</td><td class="right">${duration(one.end_to_end_duration)}</td><td class="right">${bytes(one.checkpointed_size)}</td><td class="right">${bytes(one.state_size)}</td><td class="right">${bytes(one.alignment_buffered)}</td><td class="right">${inFlight(one)}</td></tr>`)}</tbody></table></div>` : null}
    ${vertex ? html`<${Subtasks} path=${`${path}/subtasks/${vertex}`} name=${names.get(vertex) ?? vertex} failed=${checkpoint.status === "FAILED"} />` : html`<p class="soft small">${t("Pick a task to see its subtasks.")}</p>`}
  <//>`;
}

const COLUMNS = {
  index: (one) => one.index, duration: (one) => one.end_to_end_duration, delay: (one) => one.start_delay, alignment: (one) => one.alignment?.duration, sync: (one) => one.checkpoint?.sync,
  async: (one) => one.checkpoint?.async, written: (one) => one.checkpointed_size, size: (one) => one.state_size, held: (one) => one.alignment?.buffered, flight: (one) => one.alignment?.processed,
};

function Subtasks({ path, name, failed }) {
  const { data, error } = useOnce(path);
  const { sorted, head } = useOrder(data?.subtasks ?? [], COLUMNS);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`;
  const slowest = Math.max(...data.subtasks.map((one) => one.end_to_end_duration ?? 0));
  return html`<h3>${t("Subtasks of {name}", { name })}</h3><div class="scroll" tabindex="0"><table><thead><tr>${head("index", t("Subtask"))}<th>${t("State")}</th>${head("duration", t("Duration"))}${head("delay", t("Start delay"))}${head("alignment", t("Alignment"))}${head("sync", t("Sync"))}${head("async", t("Async"))}${head("written", t("Written"))}${head("size", t("Full size"))}${head("held", t("Held back"))}${head("flight", t("In flight (persisted)"))}</tr></thead>
    <tbody>${sorted.map((one) => html`<tr key=${one.index}><td class="right">${one.index}</td><td>${one.status === "completed" ? html`<${Badge} state="COMPLETED" />` : failed ? html`<${Badge} state="FAILED">${t("not acknowledged")}<//>` : html`<${Badge} state="IN_PROGRESS" />`}</td><td class=${`right ${data.subtasks.length > 1 && one.end_to_end_duration === slowest ? "outlier" : ""}`}>${duration(one.end_to_end_duration)}</td>
    <td class="right">${duration(one.start_delay)}</td><td class="right">${duration(one.alignment?.duration)}</td><td class="right">${duration(one.checkpoint?.sync)}</td><td class="right">${duration(one.checkpoint?.async)}</td><td class="right">${bytes(one.checkpointed_size)}</td><td class="right">${bytes(one.state_size)}</td><td class="right">${bytes(one.alignment?.buffered)}</td><td class="right">${inFlight({ processed_data: one.alignment?.processed, persisted_data: one.alignment?.persisted })}</td></tr>`)}</tbody>
    ${data.subtasks.length > 1 && data.num_acknowledged_subtasks ? html`<tfoot>${[["min", t("least")], ["avg", t("mean")], ["max", t("most")]].map(([key, named]) => html`<tr key=${key}><th class="right" scope="row">${named}</th><td></td>${ofSubtasks(data.summary, key).map((told, at) => html`<td key=${at} class="right">${told}</td>`)}</tr>`)}</tfoot>` : null}</table></div>`;
}

// One figure over all subtasks that have acknowledged, for each column.
const ofSubtasks = ({ end_to_end_duration: took, start_delay: delay, alignment, checkpoint_duration: parts, checkpointed_size: written, state_size: size }, key) => [
  ...[took, delay, alignment.duration, parts.sync, parts.async].map((one) => duration(one[key])),
  ...[written, size, alignment.buffered].map((one) => bytes(one[key])),
  inFlight({ processed_data: alignment.processed[key], persisted_data: alignment.persisted[key] }),
];
