// What a job was submitted with, and each setting with where it comes from.
import { html, useState } from "../preact.js";
import { Command, Facts, Failure, Notice, Panel, Waiting } from "../components.js";
import { quoted, time } from "../format.js";
import { useOnce } from "../rest.js";
import { t } from "../words.js";

const LOOKS = { program: "info", "command line": "good", file: "warn" };
const nameOf = (origin) =>
  ({ default: t("default"), "built-in": t("built-in"), file: t("file"), "command line": t("command line"), program: t("program") })[origin] ?? t("submission");

export function SettingsView({ jid, job, session }) {
  const config = useOnce(`/jobs/${jid}/config`);
  const submission = useOnce(session.loggedIn ? `/pystate/jobs/${jid}/submission` : null);
  const of = (entries) => html`<div class="scroll" tabindex="0"><table class="stack one"><tbody>${Object.entries(entries).map(([name, value]) => html`<tr key=${name}><td class="mono">${name}</td><td class="mono">${typeof value === "object" ? JSON.stringify(value) : String(value)}</td></tr>`)}</tbody></table></div>`;
  const own = submission.error?.status === 404;
  const told = Object.keys(config.data?.pystate.configuration ?? {}).length > 0;
  return html`<${Failure} error=${(own ? null : submission.error) ?? config.error} />
    ${own ? html`<${Notice} title=${t("The job is run by its own program, which alone knows its settings.")} />` : null}
    ${submission.data ? html`<${Submission} of=${submission.data} /><${Settings} of=${submission.data.settings} />` : session.loggedIn ? (submission.error ? null : html`<${Waiting} />`) : html`<${Notice} title=${t("Log in to see where each setting comes from.")}><a href="#/login">${t("Log in")}</a><//>`}
    <div class="grid">${!submission.data && told ? html`<${Panel} title=${t("Given to the job")}>${of(config.data.pystate.configuration)}<//>` : null}
    ${config.data ? html`<${Panel} title=${t("Execution")}>${of({ ...config.data["execution-config"], maxParallelism: job.maxParallelism })}<//>` : null}</div>`;
}

const HIDDEN = "******";

function Submission({ of }) {
  const given = of.settings.filter((one) => one.place.startsWith("-D "));
  const secret = given.filter((one) => one.value === HIDDEN);
  const options = [
    ...(of.parallelism ? ["-p", of.parallelism] : []),
    ...(of.savepoint_path ? ["-s", quoted(of.savepoint_path)] : []),
    ...(of.allow_non_restored_state ? ["-n"] : []),
    ...(of.job_name ? ["--name", quoted(of.job_name)] : []),
    ...given.filter((one) => one.value !== HIDDEN).map((one) => `-D ${quoted(`${one.key}=${one.value}`)}`),
  ];
  return html`<${Panel} title=${t("Submitted")}><${Facts} of=${[
    [t("Program"), html`<span class="mono small">${of.job_file}</span>`],
    [t("Working directory"), html`<span class="mono small">${of.working_directory}</span>`],
    [t("Submitted at"), time(of.submitted_at)],
    [t("Parallelism"), of.parallelism ?? "–"],
    of.savepoint_path ? [t("Started from"), html`<a href=${`#/savepoints?path=${encodeURIComponent(of.savepoint_path)}`} class="mono small">${of.savepoint_path}</a>`] : null,
  ]} />
    <p class="small soft">${t("The same once more:")}</p><${Command} text=${["cd", quoted(of.working_directory), "&&", "pystate run -d", ...options, quoted(of.job_file), ...of.arguments.map(quoted)].join(" ")} />
    ${secret.length ? html`<p class="small soft">${t("Secret, and not in the command: {keys}.", { keys: secret.map((one) => one.key).join(", ") })}</p>` : null}<//>`;
}

function Settings({ of }) {
  const [all, showAll] = useState(false);
  const [text, look] = useState("");
  const shown = of.filter((one) => (all || text || one.origin !== "default") && `${one.key} ${one.value ?? ""}`.toLowerCase().includes(text.toLowerCase()));
  return html`<${Panel} title=${t("Settings in force")} side=${html`<div class="row"><input type="search" placeholder=${t("Find an option")} aria-label=${t("Find an option")} value=${text} onInput=${(event) => look(event.target.value)} /><label class="check"><input type="checkbox" checked=${all} onChange=${(event) => showAll(event.target.checked)} />${t("defaults, too")}</label></div>`}>
    <div class="scroll" tabindex="0"><table class="stack one"><thead><tr><th>${t("Option")}</th><th>${t("Value")}</th><th>${t("From")}</th><th>${t("Place")}</th></tr></thead>
    <tbody>${shown.map((one) => html`<tr key=${one.key}><td class="mono">${one.key}</td><td class="mono">${one.value ?? "–"}</td><td><span class=${`badge ${LOOKS[one.origin] ?? ""}`}>${nameOf(one.origin)}</span></td><td class="mono small soft">${one.place}</td></tr>`)}</tbody></table></div>
    ${shown.length ? null : html`<p class="empty">${t("There is none.")}</p>`}
  <//>`;
}
