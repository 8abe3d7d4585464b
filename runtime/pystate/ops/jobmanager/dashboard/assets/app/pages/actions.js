// What can be done with a job: each with what will happen, and the command that does the same.
import { html, useState } from "../preact.js";
import { Command, Dialog, Failure, Notice, Told } from "../components.js";
import { quoted } from "../format.js";
import { ask, awaitOperation } from "../rest.js";
import { goTo } from "../route.js";
import { t } from "../words.js";

const ENDED = ["FINISHED", "CANCELED", "FAILED"];

// A question before something is done; `run` gets the fields and what shows lines of how it goes, and returns a text to show, or nothing.
export function Confirm({ title, what, command, button, danger, run, onClose, children }) {
  const [state, set] = useState({});
  const submit = async (event) => {
    event.preventDefault();
    set({ busy: true });
    try {
      const told = await run(Object.fromEntries(new FormData(event.target)), (lines, goesOn) => set({ busy: true, lines, goesOn }));
      if (told) set({ told });
      else onClose();
    } catch (error) {
      set(({ lines, goesOn }) => ({ error, lines, goesOn }));
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit} method="dialog">
      <p>${what}</p>${state.told || state.lines ? null : children}
      <${Command} text=${command} />
      ${state.lines ? html`<ol class="steps" role="log" aria-label=${t("What is done")}>${state.lines.map((line, index) => html`<li key=${index}><${Told} text=${line} /></li>`)}</ol>` : null}
      <${Failure} error=${state.error} />
      ${state.error && state.goesOn ? html`<a href=${`#/jobs/${state.goesOn}`} onClick=${onClose}>${t("To the job that runs now")}</a>` : null}
      ${state.told ? html`<${Notice} kind="good" title=${state.told} />` : null}
      <div class="actions"><button type="button" onClick=${onClose}>${state.told || state.lines ? t("Close") : t("Back")}</button>${state.told || (state.error && state.lines) ? null : html`<button class=${`main ${danger ? "danger" : ""}`} disabled=${state.busy}>${state.busy ? t("One moment …") : button}</button>`}</div>
    </form>
  <//>`;
}

// Take steps that the job manager does by itself, and go to the job that runs after them; `trigger` returns its answer.
export async function takeSteps(jid, trigger, show) {
  const { "request-id": id } = await trigger();
  let runs = null;
  await awaitOperation(`/jobs/${jid}/rescaling/${id}`, ({ lines, "job-id": job }) => {
    runs = job ?? null;
    show(lines, runs);
  });
  const stays = location.hash.includes(jid) || !location.hash.startsWith("#/jobs/");
  if (runs && runs !== jid && stays) goTo(`/jobs/${runs}`);
}

export function Actions({ job }) {
  const [open, show] = useState(null);
  const [message, say] = useState("");
  const [drain, setDrain] = useState(false);
  const [parallelism, setParallelism] = useState(Math.max(1, ...job.vertices.map((one) => one.parallelism)));
  const { jid } = job;
  const runs = job.state === "RUNNING";
  const ended = ENDED.includes(job.state);
  if (ended && open === null) return null; // what is open tells how it went, also of a job that has ended by it
  const close = () => show(null);
  const location = (operation) => t("It is at {path}", { path: operation.location });
  const field = html`<label class="field">${t("Message, to find it again")}<input value=${message} maxlength="500" onInput=${(event) => say(event.target.value)} /></label>`;
  const told = message ? ` --message ${quoted(message)}` : "";
  const savepoint = async () => {
    const { "request-id": id } = await ask(`/jobs/${jid}/savepoints`, { method: "POST", body: { "cancel-job": false, message: message || null } });
    return location(await awaitOperation(`/jobs/${jid}/savepoints/${id}`));
  };
  const stop = async () => {
    const { "request-id": id } = await ask(`/jobs/${jid}/stop`, { method: "POST", body: { drain, message: message || null } });
    return location(await awaitOperation(`/jobs/${jid}/savepoints/${id}`));
  };
  const checkpoint = async () => {
    const { "request-id": id } = await ask(`/jobs/${jid}/checkpoints`, { method: "POST", body: {} });
    const operation = await awaitOperation(`/jobs/${jid}/checkpoints/${id}`);
    return t("Checkpoint {id} is completed.", { id: operation.checkpointId ?? operation["checkpoint-id"] ?? "" });
  };
  const rescale = (_, show) => takeSteps(jid, () => ask(`/jobs/${jid}/rescaling?parallelism=${parallelism}`, { method: "PATCH" }), show);
  const cancel = async () => {
    await ask(`/jobs/${jid}?mode=cancel`, { method: "PATCH" });
  };
  return html`<div class="actions">
    ${ended ? null : html`
      <button disabled=${!runs} onClick=${() => show("savepoint")}>${t("Savepoint")}</button>
      <button disabled=${!runs} onClick=${() => show("checkpoint")}>${t("Checkpoint")}</button>
      <button disabled=${!runs} onClick=${() => show("rescale")}>${t("Rescale")}</button>
      <button disabled=${!runs} onClick=${() => show("stop")}>${t("Stop")}</button>
      <button class="danger" onClick=${() => show("cancel")}>${t("Cancel")}</button>`}
    ${open === "savepoint" ? html`<${Confirm} title=${t("Take a savepoint?")} what=${t("The job goes on. The savepoint stays until somebody deletes it.")} command=${`pystate savepoint ${jid}${told}`} button=${t("Take it")} run=${savepoint} onClose=${close}>${field}<//>` : null}
    ${open === "checkpoint" ? html`<${Confirm} title=${t("Take a checkpoint now?")} what=${t("The job goes on. The checkpoint is replaced by later ones, as the settings say.")} command=${`pystate checkpoint ${jid}`} button=${t("Take it")} run=${checkpoint} onClose=${close} />` : null}
    ${open === "rescale" ? html`<${Confirm} title=${t("Rescale the job?")} what=${t("A savepoint is taken, the job stops at it, and goes on from it at the new parallelism under a new id. If that does not run it goes on as it was. The job manager does all that, also when this page is closed.")} command=${`pystate rescale ${jid} -p ${parallelism}`} button=${t("Rescale it")} run=${rescale} onClose=${close}><label class="field">${t("Parallelism")}<input type="number" required min="1" max=${job.maxParallelism > 0 ? job.maxParallelism : 32768} value=${parallelism} onInput=${(event) => setParallelism(event.target.value)} /></label><//>` : null}
    ${open === "stop" ? html`<${Confirm} title=${t("Stop the job with a savepoint?")} what=${drain ? t("All windows and timers fire, a savepoint is taken, and the job ends.") : t("A savepoint is taken, and the job ends at it. It can be started from it again. If the savepoint fails the job goes on.")} command=${`pystate stop${drain ? " --drain" : ""} ${jid}${told}`} button=${t("Stop")} danger run=${stop} onClose=${close}>${field}<label class="check"><input type="checkbox" checked=${drain} onChange=${(event) => setDrain(event.target.checked)} />${t("drain: the job will not be started from it to go on")}</label><//>` : null}
    ${open === "cancel" ? html`<${Confirm} title=${t("Cancel the job?")} what=${t("It ends at once and without a savepoint. What came after its last checkpoint is not in any state that is kept, and its checkpoints are deleted unless the settings retain them.")} command=${`pystate cancel ${jid}`} button=${t("Cancel the job")} danger run=${cancel} onClose=${close} />` : null}
  </div>`;
}
