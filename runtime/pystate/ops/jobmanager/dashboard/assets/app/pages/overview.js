// All jobs, and what needs a person.
import { html, useState } from "../preact.js";
import { Badge, Command, Facts, Failure, kept, Load, Notice, Panel, Spark, useClock, Told, usePages, Waiting } from "../components.js";
import { age, bytes, count, duration, nameOf, percent, rate, time } from "../format.js";
import { FIGURES, historyOf } from "../history.js";
import { serverNow, useAnswer } from "../rest.js";
import { goTo } from "../route.js";
import { t } from "../words.js";

const ENDED = ["FINISHED", "CANCELED", "FAILED"];
const PAGE = 50;
const SPARK = 120; // answers: two minutes

// What needs a person, the most urgent first: {kind, title, text, command}.
function troubles(jobs, figures, disks) {
  const found = [];
  for (const job of jobs) {
    const about = figures.get(job.jid);
    const name = `${nameOf(job)} (${job.jid.slice(0, 8)})`;
    if (job.state === "FAILED" && serverNow() - job["end-time"] < 86_400_000)
      found.push({ kind: "bad", title: t("{name} has failed", { name }), text: t("It is not restarted any more. See why, mend that, and start it from its last checkpoint or savepoint."), command: `pystate exceptions ${job.jid}`, jid: job.jid });
    if (job.pystate.rescaling?.unreadable && !job.pystate.rescaling.unfinished)
      found.push({ kind: "bad", title: t("What was written down of a rescale of {name} can't be read", { name }), text: html`<${Told} text=${job.pystate.rescaling.failure.message} />`, command: `pystate exceptions ${job.jid}`, jid: job.jid });
    if (job.pystate.rescaling?.unfinished)
      found.push({ kind: "bad", title: t("{name} was stopped, and nothing runs in its place", { name }), text: html`<${Told} text=${job.pystate.rescaling.failure.message} />`, command: `pystate rescale ${job.jid} -p ${job.pystate.rescaling.parallelism}`, jid: job.jid });
    if (["RESTARTING", "FAILING"].includes(job.state))
      found.push({ kind: "warn", title: t("{name} is restarting", { name }), text: t("Restarts so far: {count}. See what it fails of.", { count: job.pystate.restarts }), command: `pystate exceptions ${job.jid}`, jid: job.jid });
    if (job.pystate["silent-since"] && !ENDED.includes(job.state))
      found.push({ kind: "bad", title: t("The driver of {name} gives no answer", { name }), text: t("Since {when}.", { when: time(job.pystate["silent-since"]) }), command: `pystate logs ${job.jid}`, jid: job.jid });
    // more than not, or several since one was completed while somebody looks
    if (about?.["failed-checkpoints"] > 0 && (about["failed-checkpoints"] >= about["completed-checkpoints"] || historyOf(job.jid).failing >= 2))
      found.push({ kind: "warn", title: t("Checkpoints of {name} fail", { name }), text: t("{failed} failed, {completed} completed: after a failure it would begin far back.", { failed: about["failed-checkpoints"], completed: about["completed-checkpoints"] }), command: `pystate checkpoints ${job.jid}`, jid: job.jid });
    if (about?.["back-pressured"] > 0.5)
      found.push({ kind: "warn", title: t("{name} is back-pressured", { name }), text: t("A subtask waits {share} of its time for what comes after it.", { share: percent(about["back-pressured"]) }), command: `pystate watch ${job.jid}`, jid: job.jid });
  }
  for (const disk of disks?.disks ?? [])
    if (disk.low) found.push({ kind: "bad", title: t("The disk of {name} is nearly full", { name: disk.name }), text: `${disk.path}: ${t("{free} of {total} free", { free: bytes(disk.free), total: bytes(disk.total) })}`, command: "pystate savepoints gc" });
  return found;
}

const Trouble = ({ of }) => html`<${Notice} kind=${of.kind} title=${of.jid ? html`<a class="clamp" title=${of.title} href=${`#/jobs/${of.jid}`}>${of.title}</a>` : of.title}>
  <span>${of.text}</span><${Command} text=${of.command} />
<//>`;

const Rates = kept(({ jid, label }) => {
  const { recordsIn, recordsOut } = historyOf(jid);
  return html`<${Spark} values=${recordsIn.slice(-SPARK)} second=${recordsOut.slice(-SPARK)} label=${label} />`;
});

// All that it shows is given as text: a second later most of it is the same.
const Row = kept(({ jid, name, state, restarts, uptime, rateIn, rateOut, seen, label, busy, pressed, age, took, size, lag }) => html`<tr class="pick" onClick=${() => goTo(`/jobs/${jid}`)}>
  <td><a class="name clamp" title=${name} href=${`#/jobs/${jid}`}>${name}</a><div class="soft small mono">${jid.slice(0, 8)}</div></td>
  <td><${Badge} state=${state} />${restarts ? html`<div class="soft small">${restarts}</div>` : null}</td>
  <td class="right" data-label=${t("Uptime")}>${uptime}</td>
  <td class="right" data-label=${t("Records in, out")}>${rateIn}<br /><span class="soft">${rateOut}</span></td>
  <td><${Rates} jid=${jid} seen=${seen} label=${label} /></td>
  <td data-label=${t("Busiest subtask")}>${busy === null ? null : html`<div class="meter"><${Load} busy=${busy} pressed=${pressed} /><span>${percent(busy)}</span></div>`}</td>
  <td class="right" data-label=${t("Last checkpoint")}>${age}<br /><span class="soft">${took}</span></td>
  <td class="right" data-label=${t("State size")}>${size}</td>
  <td class="right" data-label=${t("Watermark lag")}>${lag}</td>
</tr>`);

function Running({ jobs, figures, now }) {
  const { shown, more } = usePages(jobs, PAGE);
  const label = t("Records in and out over the last minutes");
  const row = (job) => {
    const about = figures.get(job.jid);
    const last = about?.["last-checkpoint"];
    const lag = about?.watermark === null || !about ? null : now - about.watermark;
    return html`<${Row} key=${job.jid} jid=${job.jid} name=${nameOf(job)} state=${job.state} label=${label} seen=${historyOf(job.jid).at.at(-1)}
      restarts=${job.pystate.restarts ? t("restarts: {count}", { count: job.pystate.restarts }) : ""} uptime=${duration(now - job["start-time"])}
      rateIn=${rate(about?.["records-in-per-second"])} rateOut=${rate(about?.["records-out-per-second"])}
      busy=${about ? Math.round(about.busy * 100) / 100 : null} pressed=${about ? Math.round(about["back-pressured"] * 100) / 100 : null}
      age=${last ? t("{age} ago", { age: age(now, last) }) : "–"} took=${last ? duration(about["last-checkpoint-duration"]) : ""}
      size=${bytes(about?.["state-size"] ?? null)} lag=${lag === null ? "–" : duration(Math.max(0, lag))} />`;
  };
  return html`<div class="scroll" tabindex="0"><table class="stack">
    <thead><tr><th>${t("Job")}</th><th>${t("State")}</th><th class="right">${t("Uptime")}</th><th class="right">${t("Records in, out")}</th><th><span class="hidden-text">${t("Records over time")}</span></th><th>${t("Busiest subtask")}</th><th class="right">${t("Last checkpoint")}</th><th class="right">${t("State size")}</th><th class="right">${t("Watermark lag")}</th></tr></thead>
    <tbody>${shown.map(row)}</tbody>
  </table></div>${more}`;
}

function Ended({ jobs }) {
  const { shown, more } = usePages(jobs, PAGE);
  return html`<div class="scroll" tabindex="0"><table class="stack">
    <thead><tr><th>${t("Job")}</th><th>${t("State")}</th><th class="right">${t("Started")}</th><th class="right">${t("Ended")}</th><th class="right">${t("Duration")}</th></tr></thead>
    <tbody>${shown.map((job) => html`<tr key=${job.jid} class="pick" onClick=${() => goTo(`/jobs/${job.jid}`)}>
      <td><a class="name clamp" title=${job.name} href=${`#/jobs/${job.jid}`}>${nameOf(job)}</a> <span class="soft small mono">${job.jid.slice(0, 8)}</span></td><td><${Badge} state=${job.state} /></td>
      <td class="right" data-label=${t("Started")}>${time(job["start-time"])}</td><td class="right" data-label=${t("Ended")}>${time(job["end-time"])}</td><td class="right" data-label=${t("Duration")}>${duration(job.duration)}</td></tr>`)}</tbody>
  </table></div>
  ${more}`;
}

export function OverviewPage() {
  const now = useClock();
  const { data, error } = useAnswer("/jobs/overview");
  const figures = useAnswer(FIGURES).data;
  const disks = useAnswer("/pystate/disks").data;
  const [wanted, want] = useState("");
  const all = data?.jobs ?? [];
  const byJob = new Map((figures?.jobs ?? []).map((one) => [one.jid, one]));
  const jobs = all.filter((job) => `${job.name} ${job.jid}`.toLowerCase().includes(wanted.toLowerCase()));
  const running = jobs.filter((job) => !ENDED.includes(job.state)).sort((a, b) => b["start-time"] - a["start-time"]);
  const ended = jobs.filter((job) => ENDED.includes(job.state)).sort((a, b) => b["end-time"] - a["end-time"]);
  const needs = troubles(all, byJob, disks);
  const sum = (name) => (figures?.jobs ?? []).reduce((total, one) => total + one[name], 0);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`;
  return html`
    <div class="title"><h1>${t("Jobs")}</h1>${all.length > 8 ? html`<input type="search" aria-label=${t("Find a job")} placeholder=${t("Find a job")} value=${wanted} onInput=${(event) => want(event.target.value)} />` : null}</div>
    <${Failure} error=${error} />
    ${needs.length ? html`<section aria-label=${t("What needs you")} class="grid">${needs.slice(0, 12).map((one) => html`<${Trouble} key=${one.title} of=${one} />`)}</section>` : null}
    <${Panel}><${Facts} of=${[
      [t("Running"), count(all.filter((job) => job.state === "RUNNING").length)],
      [t("Failed"), count(all.filter((job) => job.state === "FAILED").length)],
      [t("Records in"), rate(sum("records-in-per-second"))],
      [t("Records out"), rate(sum("records-out-per-second"))],
      [t("State"), bytes(sum("state-size"))],
      [t("Needs you"), needs.length ? html`<span class="bad-text">${needs.length}</span>` : t("nothing")],
    ]} /><//>
    <${Panel} title=${t("Running jobs")}>${running.length ? html`<${Running} jobs=${running} figures=${byJob} now=${now} />` : html`<p class="empty">${t("No job is running.")} <code>pystate run job.py</code></p>`}<//>
    ${ended.length ? html`<${Panel} title=${t("Ended jobs")}><${Ended} jobs=${ended} /><//>` : null}`;
}
