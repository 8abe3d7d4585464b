// The failures of a job, the newest first.
import { html } from "../preact.js";
import { Command, Failure, Panel, Waiting } from "../components.js";
import { time } from "../format.js";
import { useAnswer } from "../rest.js";
import { t } from "../words.js";

export function ExceptionsView({ jid }) {
  const { data, error } = useAnswer(`/jobs/${jid}/exceptions`);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`;
  const { entries, truncated } = data.exceptionHistory;
  if (!entries.length) return html`<${Panel} title=${t("Exceptions")}><p class="empty">${t("It has not failed.")}</p><//>`;
  return html`
    ${entries.map((one, index) => html`<${Panel} key=${one.timestamp} title=${one.pystate?.message ?? one.exceptionName} side=${html`<span class="soft small">${time(one.timestamp)}${one.pystate ? ` · ${t("attempt {attempt}", { attempt: one.pystate.attempt })}` : ""}</span>`}>
      <p class="mono small bad-text">${one.exceptionName}</p>
      ${one.pystate?.where ? html`<p class="mono small">${one.pystate.where}</p>` : null}
      ${one.pystate?.hint ? html`<p class="small">${one.pystate.hint}</p>` : null}
      ${one.pystate?.table?.length ? html`<div class="scroll" tabindex="0"><table><tbody>${one.pystate.table.map((row) => html`<tr>${row.map((cell) => html`<td class="mono small">${cell}</td>`)}</tr>`)}</tbody></table></div>` : null}
      <details open=${index === 0}><summary class="small soft">${t("Stack trace")}</summary><pre class="trace" tabindex="0">${one.stacktrace}</pre></details>
    <//>`)}
    ${truncated ? html`<p class="soft small">${t("Older ones are not kept.")}</p>` : null}
    <${Command} text=${`pystate exceptions -v ${jid}`} />`;
}
