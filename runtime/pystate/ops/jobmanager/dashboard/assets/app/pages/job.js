// One job: its graph, checkpoints, state, failures, log and settings.
import { html, useEffect, useRef, useState } from "../preact.js";
import { Badge, Facts, Failure, Load, Message, Notice, Panel, Progress, Tabs, Told, useClock, useOrder, usePages, Waiting } from "../components.js";
import { age, byteRate, bytes, count, duration, nameOf, nameOfPath, percent, rate, time } from "../format.js";
import { FIGURES, historyOf } from "../history.js";
import { Plot, stacked } from "../plots.js";
import { useAnswer } from "../rest.js";
import { isOutlier, tasksOf } from "../tasks.js";
import { t } from "../words.js";
import { Actions } from "./actions.js";
import { Barriers } from "./barriers.js";
import { CheckpointsView } from "./checkpoints.js";
import { ExceptionsView } from "./exceptions.js";
import { Graph } from "./graph.js";
import { LogView } from "./log.js";
import { AllMetrics, MetricPlots, usePicks } from "./metrics.js";
import { SettingsView } from "./settings.js";
import { Sources } from "./sources.js";
import { StateView } from "./state.js";

const MOST_TASKS = 20; // that are listed before somebody asks for more
const ENDED = ["FINISHED", "CANCELED", "FAILED"];

export function JobPage({ route, session }) {
  const [, jid = "", view = "graph"] = route.parts;
  const base = `/jobs/${jid}`;
  const isId = /^[0-9a-f]{32}$/i.test(jid);
  const { data: job, error } = useAnswer(isId ? base : null);
  const now = useClock();
  if (!isId) return html`<${Notice} kind="bad" title=${t("This is not the id of a job.")}><a href="#/">${t("Jobs")}</a><//>`;
  if (!job) return error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`;
  const tab = (name, key) => [name, `#/jobs/${jid}${key === "graph" ? "" : `/${key}`}`, view === key];
  const end = job["end-time"] > 0 ? job["end-time"] : now;
  const since = job.timestamps[job.state];
  const failure = job.pystate.failure?.pystate;
  const runs = job.state === "RUNNING";
  return html`
    <div class="title"><h1 class="clamp" title=${job.name}>${nameOf(job)}</h1><${Badge} state=${job.state} /><${Actions} job=${job} /></div>
    <p class="soft small"><span class="mono">${jid}</span> · ${t("started {when}", { when: time(job["start-time"]) })} · ${duration(end - job["start-time"])}${job.pystate.attempt ? ` · ${t("restarts: {count}", { count: job.pystate.attempt })}` : ""}${since ? ` · ${t("{state} since {when}", { state: job.state, when: time(since) })}` : ""}</p>
    <${Failure} error=${error} />
    <${Rescaled} of=${job.pystate.rescaling} ended=${ENDED.includes(job.state)} />
    ${job.pystate["waits-for"] ? html`<${Notice} kind="warn" title=${t("It waits")}><${Told} text=${job.pystate["waits-for"]} /><//>` : null}
    ${failure && view !== "exceptions" ? html`<${Notice} kind=${runs ? "warn" : "bad"} title=${html`<${Message} kind=${failure.class} text=${failure.message} />`}>${runs ? html`<span>${t("That was its last failure; it runs again since {when}.", { when: time(since) })}</span>` : null}${failure.where ? html`<span class="mono small lines">${failure.where}</span>` : null}<${Told} text=${failure.hint} /><a href=${`#/jobs/${jid}/exceptions`}>${t("Where it failed, and at which record")}</a><//>` : null}
    <${Tabs} label=${t("Views of the job")} of=${[tab(t("Graph"), "graph"), tab(t("Checkpoints"), "checkpoints"), tab(t("State"), "state"), tab(t("Exceptions"), "exceptions"), tab(t("Log"), "log"), tab(t("Settings"), "settings")]} />
    ${view === "checkpoints" ? html`<${CheckpointsView} jid=${jid} job=${job} />` : null}
    ${view === "state" ? html`<${StateView} jid=${jid} job=${job} session=${session} />` : null}
    ${view === "exceptions" ? html`<${ExceptionsView} jid=${jid} />` : null}
    ${view === "log" ? html`<${LogView} jid=${jid} />` : null}
    ${view === "settings" ? html`<${SettingsView} jid=${jid} job=${job} session=${session} />` : null}
    ${view === "graph" ? html`<${GraphView} jid=${jid} job=${job} session=${session} now=${now} />` : null}`;
}

// What the job manager does, or has done, to give the job another parallelism or an earlier state.
function Rescaled({ of, ended }) {
  if (!of) return null;
  const to = of["job-id"];
  const link = to ? html`<a href=${`#/jobs/${to}`}>${t("To the job that runs now")}</a>` : null;
  const after = of.managers > 1 ? html`<span>${t("A job manager died meanwhile; the next one went on.")}</span>` : null;
  if (of.status.id !== "COMPLETED") {
    const title = of.snapshot === null ? t("The job gets parallelism {count}.", { count: of.parallelism }) : t("The job is put back to {name}.", { name: nameOfPath(of.snapshot) });
    return html`<${Notice} kind="warn" title=${title}><${Told} text=${of.step} />${after}<//>`;
  }
  if (of.failure) return html`<${Notice} kind=${of.unfinished || of.unreadable ? "bad" : "warn"} title=${html`<${Message} kind=${of.failure.class} text=${of.failure.message} />`}><${Told} text=${of.failure.hint} />${after}${link}<//>`;
  return ended ? html`<${Notice} title=${of.snapshot === null ? t("It goes on with parallelism {count} under another id.", { count: of.parallelism }) : t("It goes on from {name} under another id.", { name: nameOfPath(of.snapshot) })}>${after}${link}<//>` : null;
}

function GraphView({ jid, job, session, now }) {
  const [picked, pick] = useState(null);
  const figures = useAnswer(FIGURES).data?.jobs.find((one) => one.jid === jid);
  const metrics = useAnswer(session.loggedIn ? `/pystate/jobs/${jid}/metrics` : null).data;
  const progress = useAnswer(session.loggedIn ? `/pystate/jobs/${jid}/progress` : null).data;
  const tasks = tasksOf(metrics?.metrics);
  const plots = usePicks(job.name);
  const subtasks = useRef(null);
  useEffect(() => subtasks.current?.scrollIntoView({ block: "nearest" }), [picked]); // of a large graph they are below the screen
  const kept = historyOf(jid);
  const task = tasks.get(picked);
  const lag = figures?.watermark ? Math.max(0, now - figures.watermark) : null;
  return html`
    <${Panel}><${Facts} of=${[
      [t("Records in"), rate(figures?.["records-in-per-second"])],
      [t("Records out"), rate(figures?.["records-out-per-second"])],
      [t("Busiest subtask"), percent(figures?.busy ?? null)],
      [t("Back-pressure"), percent(figures?.["back-pressured"] ?? null)],
      [t("State"), bytes(figures?.["state-size"] ?? null)],
      [t("Last checkpoint"), figures?.["last-checkpoint"] ? t("{age} ago", { age: age(now, figures["last-checkpoint"]) }) : "–", figures?.["last-checkpoint"] ? t("took {time}", { time: duration(figures["last-checkpoint-duration"]) }) : null],
      [t("Watermark lag"), lag === null ? "–" : duration(lag), progress?.["watermark-task"] && lag !== null ? progress["watermark-task"] : null],
      progress?.backlog !== undefined && progress?.backlog !== null ? [t("Backlog"), count(progress.backlog)] : null,
    ]} />
    ${progress?.restore ? html`<p class="small soft">${t("Restoring checkpoint {id}", { id: progress.restore["checkpoint-id"] ?? "" })}</p><${Progress} done=${progress.restore.bytes ?? 0} total=${progress.restore.total ?? 1} label=${t("Restore")} />` : null}<//>
    ${session.loggedIn ? null : html`<${Notice} title=${t("Log in to see rates, load and state of each task.")}><a href="#/login">${t("Log in")}</a><//>`}
    <${Panel} title=${t("Job graph")} side=${html`<div class="legend"><span><i style=${{ background: "var(--busy)" }}></i>${t("busy")}</span><span><i style=${{ background: "var(--pressed)" }}></i>${t("back-pressured")}</span><span><i style=${{ background: "var(--idle)" }}></i>${t("idle")}</span></div>`}>
      ${job.plan.nodes.length ? html`<${Graph} plan=${job.plan.nodes} tasks=${tasks} picked=${picked} pick=${pick} now=${now} />` : html`<p class="empty">${t("The job has no plan yet.")}</p>`}
    <//>
    ${picked ? html`<div class="below" ref=${subtasks}><${Subtasks} task=${task} node=${job.plan.nodes.find((one) => one.id === picked)} now=${now} metrics=${metrics?.metrics ?? []} plots=${plots} /></div>` : job.plan.nodes.length ? html`<p class="soft small">${t("Pick a task to see its subtasks.")}</p>` : null}
    ${job.vertices.length ? html`<${Tasks} vertices=${job.vertices} picked=${picked} pick=${pick} tasks=${tasks} now=${now} />` : null}
    ${kept.at.length ? html`<div class="grid">
      <${Panel} title=${t("Records per second")}><${Plot} label=${t("Records per second, in and out")} unit=${(value) => count(value)} data=${[kept.at, kept.recordsIn, kept.recordsOut]} series=${[{ label: t("in"), color: "--c4" }, { label: t("out"), color: "--c1" }]} /><//>
      ${progress?.["epoch-durations"]?.length ? html`<${Panel} title=${t("Last epochs")} side=${progress["epoch-running"] ? html`<span class="soft small">${t("epoch {epoch} runs for {time}", { epoch: (progress.epoch ?? -1) + 1, time: duration(progress["epoch-running"]) })}</span>` : null}>
        <${Plot} time=${false} label=${t("Duration of the last epochs")} unit=${duration} data=${[progress["epoch-durations"].map((_, index) => progress.epoch - progress["epoch-durations"].length + 1 + index), progress["epoch-durations"]]} series=${[{ label: t("duration"), color: "--c1", bars: true }]} /><//>` : html`<${Panel} title=${t("Busiest subtask")}><${Plot} label=${t("Share of time that the busiest subtask works")} unit=${(value) => `${Math.round(value)} %`} data=${[kept.at, kept.busy]} series=${[{ label: t("busy"), color: "--c4" }]} /><//>`}
    </div>` : null}
    ${session.loggedIn ? html`<${MetricPlots} jid=${jid} metrics=${metrics?.metrics} plots=${plots} picked=${picked} />` : null}
    ${progress?.epochs?.length ? html`<${Timeline} epochs=${progress.epochs} />` : null}
    ${progress?.engine === "real-time" ? html`<${Barriers} jid=${jid} />` : null}
    <${Sources} jid=${jid} job=${job} metrics=${metrics?.metrics} progress=${progress} loggedIn=${session.loggedIn} now=${now} />
    ${job.pystate.warnings?.map((text) => html`<${Notice} kind="warn" key=${text}><${Told} text=${text} /><//>`)}`;
}

// The tasks as a list, with what each has read and written since it began.
function Tasks({ vertices, picked, pick, tasks, now }) {
  const { shown, more } = usePages(vertices, MOST_TASKS);
  const lag = (id) => (tasks.get(id)?.watermark ? duration(Math.max(0, now - tasks.get(id).watermark)) : "–");
  return html`<${Panel} title=${t("Tasks")}><div class="scroll" tabindex="0"><table class="tasks"><thead><tr><th>${t("Task")}</th><th>${t("State")}</th><th class="right">${t("Parallelism")}</th><th class="right">${t("Busiest subtask")}</th><th class="right">${t("Back-pressure")}</th><th class="right">${t("Records in, all")}</th><th class="right">${t("Bytes in")}</th><th class="right">${t("Records out, all")}</th><th class="right">${t("Bytes out")}</th><th class="right">${t("Watermark lag")}</th><th class="right">${t("Started")}</th><th class="right">${t("Duration")}</th></tr></thead>
    <tbody>${shown.map((one) => html`<tr key=${one.id} class=${`pick ${picked === one.id ? "picked" : ""}`} onClick=${() => pick(picked === one.id ? null : one.id)}>
      <td><button class="plain" aria-expanded=${picked === one.id}>${one.name}</button></td><td><${Badge} state=${one.status} /></td><td class="right">${one.parallelism}</td>
      <td class="right">${percent(tasks.get(one.id)?.busy ?? null)}</td><td class="right">${percent(tasks.get(one.id)?.pressed ?? null)}</td>
      <td class="right">${count(one.metrics["read-records"])}</td><td class="right">${bytes(one.metrics["read-bytes"])}</td><td class="right">${count(one.metrics["write-records"])}</td><td class="right">${bytes(one.metrics["write-bytes"])}</td>
      <td class="right">${lag(one.id)}</td><td class="right">${time(one["start-time"])}</td><td class="right">${duration(one.duration)}</td></tr>`)}</tbody></table></div>${more}<//>`;
}

// What each of the last epochs took, part by part, at the time when it began.
function Timeline({ epochs }) {
  const part = (name) => epochs.map((one) => one[name]);
  const rest = epochs.map((one) => one.duration - one.sources - one.planning - one.log - one.run);
  const layers = [part("run"), part("planning"), part("log"), part("sources"), rest];
  const series = [{ label: t("the rest"), color: "--calm", bars: true, raw: rest }, { label: t("asking sources"), color: "--c2", bars: true, raw: part("sources") }, { label: t("writing down"), color: "--c3", bars: true, raw: part("log") }, { label: t("planning"), color: "--c1", bars: true, raw: part("planning") }, { label: t("reading, computing, handing on"), color: "--c4", bars: true, raw: part("run") }];
  return html`<${Panel} title=${t("Time line of epochs")} side=${html`<span class="soft small">${t("the last {count} that were looked at", { count: epochs.length })}</span>`}>
    <${Plot} label=${t("What the parts of the last epochs took")} unit=${duration} data=${[epochs.map((one) => one.began / 1000), ...stacked(layers)]} series=${series} /><//>`;
}

const COLUMNS = { index: (one) => one.index, ...Object.fromEntries(["busy", "allIn", "recordsIn", "recordsOut", "bytesIn", "bytesOut", "state", "lastEpoch", "alignment", "startDelay"].map((name) => [name, (one) => one[name]])), lag: (one) => (one.watermark === null ? null : -one.watermark) };

function Subtasks({ task, node, now, metrics, plots }) {
  const { sorted, head } = useOrder(task?.subtasks ?? [], COLUMNS);
  if (!task) return html`<${Panel} title=${node?.description.split("<br/>")[0] ?? ""}><p class="empty">${t("Nothing is measured of this task yet.")}</p><//>`;
  const most = (name) => Math.max(1e-9, ...task.subtasks.map((one) => one[name] ?? 0));
  const cell = (one, name, text) => html`<td class="wide"><div class="meter"><div class="bar"><i class="busy" style=${{ width: `${((one[name] ?? 0) / most(name)) * 100}%` }}></i></div><span class=${isOutlier(task.subtasks.map((other) => other[name] ?? 0), one.index) ? "outlier" : ""}>${text(one[name])}</span></div></td>`;
  return html`<${Panel} title=${t("Subtasks of {name}", { name: task.name })} side=${html`<span class="mono soft small">${node?.uid ?? ""}</span>`}>
    <div class="scroll" tabindex="0"><table class="subtasks"><thead><tr>${head("index", t("Subtask"))}${head("busy", t("Load"), "")}${head("allIn", t("Records in, all"), "")}${head("recordsIn", t("Records in"), "")}${head("recordsOut", t("Records out"), "")}${head("bytesIn", t("Bytes in"))}${head("bytesOut", t("Bytes out"))}${head("state", t("State size"), "")}${head("lastEpoch", t("Last epoch"))}${head("alignment", t("Alignment"))}${head("startDelay", t("Start delay"))}${head("lag", t("Watermark lag"))}</tr></thead>
    <tbody>${sorted.map((one) => html`<tr key=${one.index}><td class="right">${one.index}</td>
      <td class="wide"><div class="meter"><${Load} busy=${one.busy} pressed=${one.pressed} /><span>${percent(one.busy)}</span></div></td>
      ${cell(one, "allIn", count)}${cell(one, "recordsIn", rate)}${cell(one, "recordsOut", rate)}<td class="right">${byteRate(one.bytesIn)}</td><td class="right">${byteRate(one.bytesOut)}</td>${cell(one, "state", bytes)}
      <td class=${`right ${isOutlier(task.subtasks.map((other) => other.lastEpoch ?? 0), one.index) ? "outlier" : ""}`}>${duration(one.lastEpoch)}</td><td class="right">${duration(one.alignment)}</td><td class="right">${duration(one.startDelay)}</td><td class="right">${one.watermark === null ? "–" : duration(Math.max(0, now - one.watermark))}</td></tr>`)}</tbody></table></div>
    <${AllMetrics} of=${metrics.filter((one) => one.vertex === task.id)} plots=${plots} />
    ${task.skewed ? html`<${Notice} kind="warn" title=${t("One subtask has far more than the others.")}>${t("Its key groups hold more records or more state than the others': see which on the page State.")}<//>` : null}
  <//>`;
}
