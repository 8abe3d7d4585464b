// The failures of a job, the newest first.
import { html } from "../preact.js";
import { Command, Failure, Message, Notice, Panel, Told, Waiting } from "../components.js";
import { time } from "../format.js";
import { useAnswer } from "../rest.js";
import { t } from "../words.js";

// The record at which a function failed: where it is, and what replays it.
const Kept = ({ jid, record }) => html`<${Notice} title=${t("The record at which it failed is kept.")}>
  <span>${t("Subtask {subtask} of {operator} took it. The debugger processes it once more, with the state that its key had:", { subtask: record.subtask, operator: record.operator })}</span>
  <${Command} text=${`pystate debug ${jid} ${record.number}`} /><span class="mono small soft">${record.file}</span>
<//>`;

export function ExceptionsView({ jid }) {
  const { data, error } = useAnswer(`/jobs/${jid}/exceptions`);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`;
  const { entries, truncated } = data.exceptionHistory;
  if (!entries.length) return html`<${Panel} title=${t("Exceptions")}><p class="empty">${t("It has not failed.")}</p><//>`;
  return html`
    ${entries.map((one, index) => html`<${Panel} key=${one.timestamp} title=${html`<${Message} kind=${one.pystate?.class} text=${one.pystate?.message ?? one.exceptionName} />`} side=${html`<span class="soft small">${time(one.timestamp)}${one.pystate ? ` · ${t("attempt {attempt}", { attempt: one.pystate.attempt })}` : ""}</span>`}>
      ${one.pystate?.message.startsWith(one.exceptionName) ? null : html`<p class="mono small bad-text">${one.exceptionName}</p>`}
      ${one.pystate?.where ? html`<p class="mono small lines">${one.pystate.where}</p>` : null}
      ${one.pystate?.hint ? html`<p class="small"><${Told} text=${one.pystate.hint} /></p>` : null}
      ${one.pystate?.table?.length ? html`<div class="scroll" tabindex="0"><table><tbody>${one.pystate.table.map((row) => html`<tr>${row.map((cell) => html`<td class="mono small">${cell}</td>`)}</tr>`)}</tbody></table></div>` : null}
      ${one.pystate?.record ? html`<${Kept} jid=${jid} record=${one.pystate.record} />` : null}
      <details open=${index === 0}><summary class="small soft">${t("Stack trace")}</summary><pre class="trace" tabindex="0">${one.stacktrace}</pre></details>
    <//>`)}
    ${truncated ? html`<p class="soft small">${t("Older ones are not kept.")}</p>` : null}
    ${entries.some((one) => one.pystate?.record) ? null : html`<p class="small soft">${t("No record is kept. With {option} a job keeps those at which a function fails, for pystate debug.", { option: "-D pystate.debug.keep-failing-records=10" })}</p>`}
    <${Command} text=${`pystate exceptions -v ${jid}`} />`;
}
