// Savepoints as versions: the tree, one of them, two of them beside each other.
import { html, useState } from "../preact.js";
import { Badge, Command, Dialog, Facts, Failure, Notice, Panel, Told, Waiting } from "../components.js";
import { bytes, commandLine, count, duration, nameOfPath, quoted, time } from "../format.js";
import { ask, awaitOperation, serverNow, useAnswer, useOnce, withQuery } from "../rest.js";
import { goTo } from "../route.js";
import { kindOf, t } from "../words.js";
import { Confirm, takeSteps } from "./actions.js";
import { SnapshotState } from "./state.js";

export function SavepointsPage({ route, session }) {
  const [withCheckpoints, include] = useState(false);
  const [picked, pick] = useState(route.query.get("path"));
  const [other, compareWith] = useState(null);
  const { data, error, again } = useOnce(session.loggedIn ? withQuery("/pystate/savepoints", { checkpoints: withCheckpoints }) : null);
  const jobs = useAnswer("/jobs/overview").data?.jobs ?? [];
  if (!session.loggedIn) return html`<h1>${t("Savepoints")}</h1><${Notice} title=${t("Savepoints are shown to whoever is logged in.")}><a href="#/login">${t("Log in")}</a><//>`;
  const running = new Set(jobs.filter((job) => ["RUNNING", "RESTARTING", "CREATED", "INITIALIZING"].includes(job.state)).map((job) => job.jid));
  const known = new Map();
  const visit = (node) => {
    if (node.snapshot) known.set(node.snapshot.path, node.snapshot);
    (node.snapshots ?? node.jobs ?? []).forEach(visit);
  };
  data?.trees.forEach(visit);
  const current = known.get(picked);
  const tools = { picked, other, pick: (path) => { compareWith(null); pick(path === picked ? null : path); }, running };
  return html`
    <div class="title"><h1>${t("Savepoints")}</h1><label class="check"><input type="checkbox" checked=${withCheckpoints} onChange=${(event) => include(event.target.checked)} />${t("retained checkpoints, too")}</label><button onClick=${again}>${t("Look again")}</button></div>
    <${Failure} error=${error} />
    ${!data ? (error ? null : html`<${Waiting} />`) : html`
    <${Panel} title=${t("Versions")} side=${html`<span class="soft small mono">${data.directories.join(", ")}</span>`}>
      ${data.trees.length ? html`<ul class="tree">${data.trees.map((node) => html`<${Node} key=${node.id ?? node["job-id"]} node=${node} tools=${tools} />`)}</ul>` : html`<p class="empty">${t("There is none yet.")} <code>pystate savepoint JOB</code></p>`}
    <//>
    ${data.damaged.map((one) => html`<${Notice} kind="bad" key=${one.path} title=${one.path}><${Told} text=${one.problem} /><//>`)}`}
    ${picked ? html`<${Version} key=${picked} path=${picked} summary=${current} jobs=${jobs} others=${[...known.values()].filter((one) => one.path !== picked)} other=${other} compareWith=${compareWith} gone=${() => { pick(null); again(); }} />` : null}`;
}

// The first letters of an id; of a snapshot that has none, and goes by its path, the name of its folder.
const nameOfId = (id) => (id.includes("/") ? nameOfPath(id) : id.slice(0, 12));

function Node({ node, tools }) {
  if ("job-id" in node) return html`<li>
    <div class="version job"><a class="name" href=${`#/jobs/${node["job-id"]}`}>${node["job-name"]}</a><span class="soft small mono">${node["job-id"].slice(0, 8)}</span>${tools.running.has(node["job-id"]) ? html`<${Badge} state="RUNNING">${t("running")}<//>` : null}${node["new-code"] ? html`<span class="badge info">${t("new code")}</span>` : null}</div>
    ${node.snapshots.length ? html`<ul>${node.snapshots.map((one) => html`<${Node} key=${one.id} node=${one} tools=${tools} />`)}</ul>` : null}
  </li>`;
  const found = node.snapshot;
  return html`<li>
    ${found ? html`<button class=${`version ${tools.picked === found.path || tools.other === found.path ? "picked" : ""}`} aria-pressed=${tools.picked === found.path} onClick=${() => tools.pick(found.path)}>
      <span class="mono">${nameOfId(node.id ?? "")}</span><span>${time(found.timestamp)}</span><span class="soft">${bytes(found.size)}</span>${found.kind === "checkpoint" ? html`<span class="badge">${t("checkpoint")}</span>` : null}${found.message ? html`<em>${found.message}</em>` : null}</button>` : html`<div class="version"><span class="mono">${node.id}</span><span class="soft">${t("deleted, or elsewhere")}</span></div>`}
    ${node.jobs.length ? html`<ul>${node.jobs.map((one) => html`<${Node} key=${one["job-id"]} node=${one} tools=${tools} />`)}</ul>` : null}
  </li>`;
}

function Version({ path, summary, jobs, others, other, compareWith, gone }) {
  const [check, set] = useState(null);
  const [asked, askFor] = useState(null);
  const verify = async () => {
    set({ waits: true });
    try {
      set({ data: await ask(withQuery("/pystate/savepoints/verification", { path })) });
    } catch (error) {
      set({ error });
    }
  };
  const dispose = async () => {
    const { "request-id": id } = await ask("/savepoint-disposal", { method: "POST", body: { "savepoint-path": path } });
    await awaitOperation(`/savepoint-disposal/${id}`);
    gone();
  };
  return html`
    <${Panel} title=${nameOfPath(path)} side=${html`<div class="actions"><button class="main" onClick=${() => askFor("fork")}>${t("Start a job from here")}</button><button onClick=${verify}>${t("Verify")}</button><button class="danger" onClick=${() => askFor("dispose")}>${t("Delete")}</button></div>`}>
      ${summary ? html`<${Facts} of=${[
        [t("Taken"), time(summary.timestamp), t("{age} ago", { age: duration(serverNow() - summary.timestamp) })],
        [t("Job"), summary["job-name"], summary["job-id"].slice(0, 8)],
        [t("Size"), bytes(summary.size)],
        [t("Format"), summary.format],
        [t("Parallelism"), `${summary.parallelism}`, t("at most {most}", { most: summary["max-parallelism"] })],
        [t("Operators"), count(summary.operators.length)],
        [t("Program"), summary["code-fingerprint"]?.slice(0, 10) ?? "–"],
        summary.message ? [t("Message"), summary.message] : null,
      ]} />` : null}
      ${check ? html`<${Command} text=${commandLine("pystate savepoints verify", [path])} />` : null}
      ${check?.waits ? html`<${Waiting} />` : null}<${Failure} error=${check?.error} />
      ${check?.data ? html`<${Notice} kind=${check.data.sound ? "good" : "bad"} title=${check.data.sound ? t("It is sound: {files} files, {size} were read.", { files: check.data.files, size: bytes(check.data.bytes) }) : t("It can't be relied on.")}>${check.data.problems.map((one) => html`<span class="mono small">${one.part} ${one.file}: ${one.what ?? one.problem}</span>`)}<//>` : null}
      ${others.length ? html`<div class="row"><label class="field">${t("Compare with")}<select value=${other ?? ""} onChange=${(event) => compareWith(event.target.value || null)}><option value="">–</option>${others.map((one) => html`<option key=${one.path} value=${one.path}>${nameOfPath(one.path)} · ${time(one.timestamp)}</option>`)}</select></label></div>` : null}
    <//>
    ${other ? html`<${Difference} before=${path} after=${other} />` : null}
    <${SnapshotState} path=${path} />
    ${asked === "fork" ? html`<${Fork} path=${path} summary=${summary} jobs=${jobs} onClose=${() => askFor(null)} />` : null}
    ${asked === "dispose" ? html`<${Confirm} title=${t("Delete this savepoint?")} what=${t("Its files are deleted for good. It is refused where a job was started from it and still needs it.")} command=${commandLine("pystate savepoints dispose", [path])} button=${t("Delete")} danger run=${dispose} onClose=${() => askFor(null)} />` : null}`;
}

// A job from a version: of the program of a job that is known here, as it is today.
function Fork({ path, summary, jobs, onClose }) {
  const known = jobs.filter((job) => !job.pystate?.embedded).sort((a, b) => rank(b) - rank(a) || b["start-time"] - a["start-time"]);
  function rank(job) {
    return job.jid === summary?.["job-id"] ? 2 : job.name === summary?.["job-name"] ? 1 : 0;
  }
  const [chosen, choose] = useState(null);
  const [given, give] = useState({});
  const source = known.find((job) => job.jid === chosen) ?? known[0];
  const submission = useOnce(source ? `/pystate/jobs/${source.jid}/submission` : null).data;
  const set = (name) => (event) => give({ ...given, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  const program = submission ? `${quoted(submission.job_file)}${submission.arguments.map((one) => ` ${quoted(one)}`).join("")}` : "job.py";
  const ended = !source || ["FINISHED", "CANCELED", "FAILED"].includes(source.state);
  const inPlace = !ended && (given.inPlace ?? false);
  const parallelism = Number(given.parallelism) || (submission?.parallelism ?? summary?.parallelism ?? 1);
  const command = `${inPlace ? `pystate stop ${source.jid} && ` : ""}${submission ? `cd ${quoted(submission.working_directory)} && ` : ""}pystate run -d -s ${quoted(path)}${given.parallelism ? ` -p ${given.parallelism}` : submission?.parallelism ? ` -p ${submission.parallelism}` : ""}${given.name && !inPlace ? ` --name ${quoted(given.name)}` : ""}${given.without ? " -n" : ""} ${program}`;
  const what = inPlace
    ? t("{job} is stopped with a savepoint, and goes on under a new id with the state of {name} and the program as its file is today. If that does not run it goes on from where it stopped. The job manager does all that, also when this page is closed.", { job: source.name, name: nameOfPath(path) })
    : t("A new job starts with the state of {name}, and with the program as its file is today.", { name: nameOfPath(path) });
  const start = async (_, show) => {
    if (inPlace) {
      const body = { savepoint_path: path, parallelism, allow_non_restored_state: Boolean(given.without) };
      await takeSteps(source.jid, () => ask(`/pystate/jobs/${source.jid}/replacement`, { method: "POST", body }), show);
      return;
    }
    const body = { savepoint_path: path, parallelism: given.parallelism ? Number(given.parallelism) : null, job_name: given.name || null, allow_non_restored_state: Boolean(given.without) };
    const { job_id: jid } = await ask(`/pystate/jobs/${source.jid}/fork`, { method: "POST", body });
    goTo(`/jobs/${jid}`);
  };
  if (!source) return html`<${Dialog} title=${t("Start a job from this version?")} onClose=${onClose}><p>${t("No job is known here whose program could be started. This starts any program from it:")}</p><${Command} text=${command} /><div class="actions"><button onClick=${onClose}>${t("Back")}</button></div><//>`;
  return html`<${Confirm} title=${inPlace ? t("Put the job back to this version?") : t("Start a job from this version?")} what=${what} command=${command} button=${inPlace ? t("Put it back") : t("Start it")} danger=${inPlace} run=${start} onClose=${onClose}>
    <label class="field">${t("Program and settings of")}<select value=${source.jid} onChange=${(event) => choose(event.target.value)}>${known.map((job) => html`<option key=${job.jid} value=${job.jid}>${job.name} · ${job.jid.slice(0, 8)} · ${job.state} · ${time(job["start-time"])}</option>`)}</select></label>
    ${submission ? html`<p class="mono small">${program}</p>` : null}
    ${ended ? null : html`<label class="check"><input type="checkbox" checked=${inPlace} onChange=${set("inPlace")} />${t("in place of {name}, which runs", { name: source.name })}</label>`}
    <div class="row">${inPlace ? null : html`<label class="field">${t("Name")}<input value=${given.name ?? ""} placeholder=${submission?.job_name ?? source.name} maxlength="200" onInput=${set("name")} /></label>`}<label class="field">${t("Parallelism")}<input type="number" min="1" max=${summary?.["max-parallelism"] ?? 32768} value=${given.parallelism ?? ""} placeholder=${submission?.parallelism ?? summary?.parallelism ?? ""} onInput=${set("parallelism")} /></label></div>
    <label class="check"><input type="checkbox" checked=${given.without ?? false} onChange=${set("without")} />${t("leave out state that the program has no more")}</label>
    ${ended ? html`<p class="small soft">${t("Environment variables of an ended job are not kept: the new one has those of the job manager.")}</p>` : inPlace ? null : html`<${Notice} kind="warn" title=${t("{name} runs, and goes on.", { name: source.name })}><span>${t("Both read the same sources and write to the same sinks.")}</span><//>`}
  <//>`;
}

function Difference({ before, after }) {
  const { data, error } = useOnce(withQuery("/pystate/savepoints/comparison", { before, after }));
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`;
  const side = (state, name, form) => (state ? form(state[name]) : "–");
  const look = { added: "good", removed: "bad", changed: "warn" };
  return html`<${Panel} title=${t("{before} and {after}", { before: nameOfPath(before), after: nameOfPath(after) })} side=${html`<${Command} text=${commandLine("pystate savepoints diff", [before, after])} />`}>
    <div class="scroll" tabindex="0"><table><thead><tr><th>${t("Operator")}</th><th>${t("State")}</th><th>${t("Change")}</th><th class="right">${t("Entries before")}</th><th class="right">${t("after")}</th><th class="right">${t("Size before")}</th><th class="right">${t("after")}</th></tr></thead>
    <tbody>${data.operators.flatMap((operator) => [
      html`<tr key=${operator.uid}><td><span class="name">${operator.uid}</span></td><td></td><td><span class=${`badge ${look[operator.change] ?? ""}`}>${kindOf(operator.change) ?? operator.change}</span></td><td colspan="4"></td></tr>`,
      ...(operator.states ?? []).map((state) => html`<tr key=${`${operator.uid}/${state.name}`}><td></td><td class="mono">${state.name}</td><td><span class=${`badge ${look[state.change] ?? ""}`}>${kindOf(state.change) ?? state.change}</span></td><td class="right">${side(state.before, "entries", count)}</td><td class="right">${side(state.after, "entries", count)}</td><td class="right">${side(state.before, "bytes", bytes)}</td><td class="right">${side(state.after, "bytes", bytes)}</td></tr>`),
    ])}</tbody></table></div>
    ${data.sources.length ? html`<div class="scroll" tabindex="0"><table><thead><tr><th>${t("Source")}</th><th>${t("Position before")}</th><th>${t("after")}</th></tr></thead><tbody>${data.sources.map((one) => html`<tr key=${one.uid}><td class="name">${one.uid}</td><td class="mono small">${one.before?.position ?? "–"}</td><td class="mono small">${one.after?.position ?? "–"}</td></tr>`)}</tbody></table></div>` : null}
  <//>`;
}
