// A job's state by operator, state and key group; the rows of a snapshot; the value of a key in the running job.
import { html, useState } from "../preact.js";
import { Command, Facts, Failure, Notice, Panel, useClock, Waiting } from "../components.js";
import { age, bytes, commandLine, count, nameOfPath } from "../format.js";
import { useAnswer, useOnce, withQuery } from "../rest.js";
import { t } from "../words.js";

const PAGE = 25;

export function StateView({ jid, job, session }) {
  const { data } = useAnswer(`/jobs/${jid}/checkpoints?limit=1`);
  if (!session.loggedIn) return html`<${Notice} title=${t("State is shown to whoever is logged in.")}><a href="#/login">${t("Log in")}</a><//>`;
  const latest = [data?.latest.completed, data?.latest.savepoint].filter(Boolean).sort((a, b) => b.trigger_timestamp - a.trigger_timestamp)[0];
  return html`<${LiveKey} jid=${jid} running=${job.state === "RUNNING"} />
    ${!data ? html`<${Waiting} />` : latest ? html`<${FixedSnapshot} key=${jid} path=${latest.external_path ?? latest.path} />` : html`<${Panel} title=${t("State of the last checkpoint")}><p class="empty">${t("None is completed yet.")}</p><//>`}`;
}

// The snapshot that was the latest when the page was opened: the next ones don't take it away while somebody reads.
function FixedSnapshot({ path }) {
  const [fixed, fix] = useState(path);
  return html`<${SnapshotState} key=${fixed} path=${fixed} side=${fixed === path ? null : html`<button onClick=${() => fix(path)}>${t("Show the newest, {name}", { name: nameOfPath(path) })}</button>`} />`;
}

export function SnapshotState({ path, side }) {
  const { data, error } = useOnce(withQuery("/pystate/savepoints/inspection", { path }));
  const [picked, pick] = useState(null);
  if (!data) return error ? html`<${Panel} title=${t("State of {name}", { name: nameOfPath(path) })} side=${side}><${Failure} error=${error} /><//>` : html`<${Waiting} />`;
  const { operators } = data;
  const most = Math.max(1, ...operators.map((one) => one.bytes));
  const states = operators.flatMap((operator) => operator.states.map((state) => ({ operator, state, key: `${operator.uid}/${state.kind}/${state.name}` })));
  const current = states.find((one) => one.key === picked);
  return html`
    <${Panel} title=${t("State of {name}", { name: nameOfPath(path) })} side=${side}>
      <div class="scroll" tabindex="0"><table><thead><tr><th>${t("Operator")}</th><th>${t("State")}</th><th>${t("Kind")}</th><th>${t("Type")}</th><th class="right">${t("Entries")}</th><th class="right">${t("Size")}</th><th>${t("Share")}</th></tr></thead>
      <tbody>${states.map(({ operator, state, key }) => html`<tr key=${key} class=${`pick ${picked === key ? "picked" : ""}`} onClick=${() => pick(picked === key ? null : key)}>
        <td><span class="name">${operator.name}</span> <span class="soft small mono">${operator.uid}</span></td><td><button class="plain mono" aria-expanded=${picked === key}>${state.name || "–"}</button></td><td>${state.kind.toLowerCase()}${state.ttl ? html` <span class="badge">TTL</span>` : null}</td><td class="mono small">${state.type}</td><td class="right">${count(state.entries)}</td><td class="right">${bytes(state.bytes)}</td>
        <td class="wide"><div class="bar"><i class="busy" style=${{ width: `${((state.bytes ?? 0) / most) * 100}%` }}></i></div></td></tr>`)}
        ${operators.filter((one) => one.timers.length).flatMap((operator) => operator.timers.map((timers) => html`<tr key=${`${operator.uid}-${JSON.stringify(timers)}`}><td><span class="name">${operator.name}</span></td><td>${t("timers")}</td><td>${timers.domain ?? ""}</td><td class="mono small">${timers.service ?? ""}</td><td class="right">${count(timers.count ?? timers.timers)}</td><td></td><td></td></tr>`))}
      </tbody></table></div>
      ${states.length ? null : html`<p class="empty">${t("There is no state in it.")}</p>`}
      <${Command} text=${commandLine("pystate savepoints inspect", [path])} />
    <//>
    ${data.sources.length ? html`<${Panel} title=${t("What the sources had read")}><div class="scroll" tabindex="0"><table><thead><tr><th>${t("Source")}</th><th>${t("Position")}</th></tr></thead><tbody>${data.sources.map((one) => html`<tr key=${one.uid}><td class="name">${one.uid}</td><td class="mono small">${one.position}</td></tr>`)}</tbody></table></div><//>` : null}
    ${current && current.operator["key-type"] ? html`<${KeyGroups} key=${`${path} ${current.operator.uid}`} path=${path} operator=${current.operator} state=${current.state.name} />` : null}
    ${current && current.state.name ? html`<${Rows} key=${`${path} ${picked}`} path=${path} uid=${current.operator.uid} state=${current.state.name} keyed=${Boolean(current.operator["key-type"])} />` : null}`;
}

function KeyGroups({ path, operator, state }) {
  const { data, error } = useOnce(withQuery("/pystate/savepoints/key-groups", { path, uid: operator.uid }));
  const [group, pickGroup] = useState(null);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`;
  const found = data.states.find((one) => one.name === state);
  const sizes = Array.from({ length: data["max-parallelism"] }, (_, group) => found?.bytes[group] ?? 0);
  const most = Math.max(1, ...sizes);
  const firsts = new Set(data.subtasks.map(([first]) => first));
  const top = sizes.map((size, group) => ({ size, group })).sort((a, b) => b.size - a.size).slice(0, 5).filter((one) => one.size > 0);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const bySubtask = data.subtasks.map(([first, last]) => sizes.slice(first, last + 1).reduce((sum, size) => sum + size, 0));
  return html`<${Panel} title=${t("Key groups of {operator} / {state}", { operator: operator.name, state })} side=${html`<span class="soft small">${t("a mark begins a subtask; stronger is more")}</span>`}>
    ${data.native && !found ? html`<p class="soft">${t("It is in files of the backend, which do not say it. A savepoint in the canonical format does.")}</p>` : html`
    <div class="heat" role="img" aria-label=${t("Bytes by key group; the heaviest: {groups}", { groups: top.map((one) => `${one.group} (${bytes(one.size)})`).join(", ") })}>
      ${sizes.map((size, group) => html`<i key=${group} class=${`${size ? "" : "none"} ${firsts.has(group) ? "edge" : ""}`} style=${{ opacity: size ? 0.18 + 0.82 * (size / most) : 1 }} title=${`${t("key group {group}", { group })}: ${bytes(size)}`}></i>`)}
    </div>
    <p class="small">${t("Heaviest key groups:")} ${top.map((one) => html`<button key=${one.group} class="small" aria-pressed=${group === one.group} onClick=${() => pickGroup(one.group)}>${one.group} · ${bytes(one.size)} · ${Math.round((one.size / Math.max(1, total)) * 100)} %</button> `)}</p>
    <form class="row" onSubmit=${(event) => { event.preventDefault(); pickGroup(Number(new FormData(event.target).get("group"))); }}><label class="field">${t("Key group")}<input name="group" type="number" min="0" max=${data["max-parallelism"] - 1} required value=${group ?? ""} /></label><button>${t("Show its largest keys")}</button></form>
    ${group === null ? null : html`<${HeavyKeys} path=${path} uid=${operator.uid} state=${state} group=${group} />`}
    <p class="small soft">${t("By subtask:")} ${bySubtask.map((size, index) => `${index}: ${bytes(size)}`).join(" · ")}</p>`}
  <//>`;
}

function HeavyKeys({ path, uid, state, group }) {
  const { data, error } = useOnce(withQuery("/pystate/savepoints/keys", { path, uid, state, "key-group": group, limit: 20 }));
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`;
  return html`<h3>${t("The largest of {count} keys in key group {group}", { count: data.count, group })}</h3><div class="scroll" tabindex="0"><table><thead><tr><th>${t("Key")}</th><th class="right">${t("Entries")}</th><th class="right">${t("Size")}</th><th>${t("Share")}</th></tr></thead>
    <tbody>${data.keys.map((one) => html`<tr key=${one.key}><td class="mono">${one.key}</td><td class="right">${count(one.entries)}</td><td class="right">${bytes(one.bytes)}</td><td class="wide"><div class="bar"><i class="busy" style=${{ width: `${(one.bytes / Math.max(1, data.keys[0].bytes)) * 100}%` }}></i></div></td></tr>`)}</tbody></table></div>`;
}

function Rows({ path, uid, state, keyed }) {
  const [offset, move] = useState(0);
  const [key, setKey] = useState("");
  const { data, error } = useOnce(withQuery("/pystate/savepoints/rows", { path, uid, state, key: key || null, offset, limit: PAGE }));
  const find = (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    move(0);
    setKey(given.get("key").trim());
  };
  return html`<${Panel} title=${t("Rows of {state}", { state })} side=${keyed ? html`<form class="row" onSubmit=${find}><label class="field">${t("Key")}<input name="key" size="14" /></label><button>${t("Find")}</button></form>` : null}>
    <${Failure} error=${error} />
    ${data ? html`<div class="scroll" tabindex="0"><table class="compact"><thead><tr>${data.columns.map((name) => html`<th key=${name}>${name}</th>`)}</tr></thead><tbody>${data.rows.map((row, index) => html`<tr key=${index}>${row.map((cell) => html`<td class="mono small">${cell.length > 400 ? `${cell.slice(0, 400)}…` : cell}</td>`)}</tr>`)}</tbody></table></div>
      ${data.rows.length ? null : html`<p class="empty">${t("There are no rows.")}</p>`}
      <div class="actions"><button disabled=${offset === 0} onClick=${() => move(Math.max(0, offset - PAGE))}>${t("Before")}</button><button disabled=${!data.more} onClick=${() => move(offset + PAGE)}>${t("Next")}</button><span class="soft small">${data.rows.length ? `${offset + 1}–${offset + data.rows.length}` : ""}</span></div>` : error ? null : html`<${Waiting} />`}
    <${Command} text=${commandLine("pystate state read", [path, uid, state], { "--key": key })} />
  <//>`;
}

function LiveKey({ jid, running }) {
  const states = useOnce(running ? `/pystate/jobs/${jid}/queryable-state` : null);
  const [wanted, want] = useState(null);
  const path = wanted ? withQuery(`/pystate/jobs/${jid}/queryable-state/value`, wanted) : null;
  const { data, error } = useAnswer(path);
  const submit = (event) => {
    event.preventDefault();
    want(Object.fromEntries(new FormData(event.target)));
  };
  if (!running) return html`<${Panel} title=${t("A key of the running job")}><p class="soft">${t("The job does not run: there is nobody to ask for a key. Its last checkpoint, below, has the values of then.")}</p><//>`;
  if ((states.error && states.error.status === 404) || states.data?.states.length === 0) return html`<${Panel} title=${t("A key of the running job")}><p class="soft">${t("No state of it can be queried: it was not started with queryable-state.enable = true, or declares none as queryable.")}</p><//>`;
  if (!states.data) return states.error ? html`<${Failure} error=${states.error} />` : html`<${Waiting} />`;
  return html`<${Panel} title=${t("A key of the running job")}>
    <form class="row" onSubmit=${submit}>
      <label class="field">${t("State")}<select name="state">${states.data.states.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}</select></label>
      <label class="field">${t("Key")}<input name="key" required /></label>
      <label class="field">${t("Consistency")}<select name="consistency"><option value="checkpointed">${t("of the last completed checkpoint")}</option><option value="live">${t("of the last finished epoch")}</option></select></label>
      <button class="main">${t("Watch")}</button>
      ${wanted ? html`<button type="button" onClick=${() => want(null)}>${t("Stop watching")}</button>` : null}
    </form>
    ${wanted ? html`<${Failure} error=${error} />${data?.version && (!error || error.status === 503) ? html`<${Looked} key=${path} at=${data} consistency=${wanted.consistency} />` : error ? null : html`<${Waiting} />`}<${Command} text=${commandLine("pystate query", [jid, wanted.state, wanted.key], { "--consistency": wanted.consistency === "live" ? "live" : null })} />` : null}
  <//>`;
}

// What a key had when it was looked at last, and of which version of the state that is.
function Looked({ at, consistency }) {
  const now = useClock();
  const { version } = at;
  const of = version["checkpoint-id"] !== null ? t("checkpoint {id}", { id: version["checkpoint-id"] }) : version.epoch < 0 ? t("what the job started from") : t("epoch {epoch}", { epoch: version.epoch });
  const kept = consistency === "live" ? t("A failure may take it back: it is in no checkpoint yet.") : t("A failure does not take it back.");
  const value = "value" in at ? html`<code class="value">${JSON.stringify(at.value)}</code>` : null;
  const rows = at.entries?.map((one) => [JSON.stringify(one.key), JSON.stringify(one.value)]) ?? at.elements?.map((one, index) => [String(index), JSON.stringify(one)]);
  return html`<${Facts} of=${[value ? [t("Value"), value] : [at.entries ? t("Entries") : t("Elements"), `${count(rows?.length ?? 0)}${at.cursor ? ` ${t("and more")}` : ""}`], [t("As of"), of, t("{age} ago", { age: age(now, version.timestamp) })], [t("Consistency"), consistency === "live" ? t("of the last finished epoch") : t("of the last completed checkpoint"), kept]]} />
    ${rows ? html`<div class="scroll" tabindex="0"><table class="compact"><thead><tr><th>${at.entries ? t("Key") : "#"}</th><th>${t("Value")}</th></tr></thead><tbody>${rows.map(([key, shown]) => html`<tr key=${key}><td class="mono small">${key}</td><td class="mono small">${shown}</td></tr>`)}</tbody></table></div>` : null}`;
}
