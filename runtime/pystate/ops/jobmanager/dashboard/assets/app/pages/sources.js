// The sources and sinks of a job: what is guaranteed between them, how far the sources have read, and what is left.
import { html } from "../preact.js";
import { Badge, Failure, Notice, Panel, Told } from "../components.js";
import { count, nameOfPath } from "../format.js";
import { Partitions, partitionsOf } from "./partitions.js";
import { useOnce, withQuery } from "../rest.js";
import { kindOf, t } from "../words.js";

// How many records each source has left out since the job began, as they could not be deserialized: [[operator, count]].
export function leftOut(metrics) {
  const found = new Map();
  for (const { operator, name, value } of metrics ?? []) if (operator && name === "numRecordsInErrors" && value > 0) found.set(operator, (found.get(operator) ?? 0) + value);
  return [...found.entries()];
}

const LONG = 160;

// A position as text; that of many partitions is one line until it is asked for.
const Position = ({ text }) => (text && text.length > LONG ? html`<details><summary>${text.slice(0, LONG)} …</summary>${text}</details>` : text);

export function Sources({ jid, job, metrics, progress, loggedIn, now }) {
  const { latest } = useOnce(loggedIn ? `/jobs/${jid}/checkpoints?limit=1` : null).data ?? {};
  const path = latest?.completed?.external_path;
  const { data, error } = useOnce(path ? withQuery("/pystate/savepoints/sources", { path }) : null);
  const failed = error?.status === 404 ? null : error; // a checkpoint that later ones have replaced meanwhile
  const partitions = partitionsOf(metrics);
  const guarantees = job.pystate.guarantees ?? [];
  return html`
    ${leftOut(metrics).map(([operator, records]) => html`<${Notice} kind="warn" key=${operator} title=${t("{operator}: {count} records could not be read", { operator, count: count(records) })}>${t("They are left out of the stream, as the source is told to, and go to its side output where it has one.")}<//>`)}
    ${guarantees.length ? html`<${Panel} title=${t("Sources and sinks")}><div class="scroll" tabindex="0"><table class="stack"><thead><tr><th>${t("Source")}</th><th>${t("Sink")}</th><th>${t("Guarantee")}</th><th>${t("Why")}</th></tr></thead>
      <tbody>${guarantees.map((one) => html`<tr key=${one["source-uid"] + one["sink-uid"]}><td data-label=${t("Source")}>${one.source}</td><td data-label=${t("Sink")}>${one.sink}</td><td data-label=${t("Guarantee")}><${Badge} state=${one.guarantee === "exactly-once" ? "COMPLETED" : one.guarantee === "none" ? "FAILED" : "RESTARTING"}>${kindOf(one.guarantee) ?? one.guarantee}<//></td><td class="soft why"><${Told} text=${one.reason} /></td></tr>`)}</tbody></table></div><//>` : null}
    ${data?.sources.length || failed || partitions.length ? html`<${Panel} title=${t("How far the sources have read")} side=${progress?.backlog ? html`<span class="soft small">${t("{count} rows are left", { count: count(progress.backlog) })}</span>` : null}>
      <${Failure} error=${failed} />
      ${data?.sources.length ? html`<div class="scroll" tabindex="0"><table><thead><tr><th>${t("Source")}</th><th>${t("Position in {name}", { name: nameOfPath(path) })}</th></tr></thead>
        <tbody>${data.sources.map((one) => html`<tr key=${one.uid}><td class="name">${one.uid}</td><td class="mono small"><${Position} text=${one.position} /></td></tr>`)}</tbody></table></div>` : null}
      ${partitions.length ? html`<${Partitions} partitions=${partitions} now=${now} byEpochs=${progress?.engine === "micro-batch"} />` : null}
    <//>` : null}`;
}
