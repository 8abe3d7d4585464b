// The job manager: drivers, disks, settings, log.
import { html, useState } from "../preact.js";
import { Badge, Facts, Failure, Panel, Progress, Waiting } from "../components.js";
import { bytes, count, time } from "../format.js";
import { Zone } from "./log.js";
import { askBytes, useAnswer, useOnce } from "../rest.js";
import { t } from "../words.js";

const TAIL = 200_000; // characters of the log that are shown at most

function Log() {
  const [{ text, error }, set] = useState({});
  const look = async () => {
    try {
      set({ text: (await (await askBytes("/jobmanager/log")).text()).slice(-TAIL) });
    } catch (failure) {
      set({ error: failure });
    }
  };
  return html`<${Panel} title=${t("Log")} side=${html`${text === undefined ? null : html`<${Zone} />`}<button type="button" onClick=${look}>${text === undefined ? t("Show the log") : t("Look again")}</button>`}>
    <${Failure} error=${error} />${text === undefined ? null : html`<pre class="log" tabindex="0" aria-label=${t("Log")}>${text}</pre>`}<//>`;
}

export function ClusterPage({ session }) {
  const { data, error } = useAnswer("/overview");
  const disks = useAnswer("/pystate/disks").data;
  const drivers = useAnswer("/taskmanagers").data;
  const settings = useOnce(session.loggedIn ? "/jobmanager/config" : null);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Waiting} />`;
  return html`<h1>${t("Job manager")}</h1>
    <${Panel}><${Facts} of=${[
      [t("Version"), data["pystate-version"], t("REST of Flink {version}", { version: data["flink-version"] })],
      [t("Drivers"), count(data.taskmanagers)],
      [t("Slots"), count(data["slots-total"])],
      [t("Running"), count(data["jobs-running"])],
      [t("Finished"), count(data["jobs-finished"])],
      [t("Canceled"), count(data["jobs-cancelled"])],
      [t("Failed"), count(data["jobs-failed"])],
    ]} /><//>
    <div class="grid">
      <${Panel} title=${t("Disks")}>${(disks?.disks ?? []).map((disk) => html`<div key=${disk.name} class="row"><div style=${{ flex: 1 }}>
        <strong>${disk.name}</strong> ${disk.low ? html`<${Badge} state="FAILED">${t("low")}<//>` : null} <span class="soft small mono">${disk.path}</span>
        <${Progress} done=${disk.total - disk.free} total=${disk.total} label=${disk.name} /><span class="soft small">${t("{free} of {total} free", { free: bytes(disk.free), total: bytes(disk.total) })}</span></div></div>`)}<//>
      <${Panel} title=${t("Drivers")}>${drivers?.taskmanagers.length ? html`<div class="scroll" tabindex="0"><table><thead><tr><th>${t("Job")}</th><th>${t("Process")}</th><th class="right">${t("Slots")}</th><th class="right">${t("Heartbeat")}</th></tr></thead>
        <tbody>${drivers.taskmanagers.map((one) => html`<tr key=${one.id}><td><a class="mono" href=${`#/jobs/${one.id}`}>${one.id.slice(0, 8)}</a></td><td>${one.path}</td><td class="right">${one.slotsNumber}</td><td class="right">${time(one.timeSinceLastHeartbeat)}</td></tr>`)}</tbody></table></div>` : html`<p class="empty">${t("No driver is running.")}</p>`}<//>
    </div>
    ${session.loggedIn ? html`<${Panel} title=${t("Settings")}><${Failure} error=${settings.error} />${settings.data?.length ? html`<div class="scroll" tabindex="0"><table class="stack one"><thead><tr><th>${t("Option")}</th><th>${t("Value")}</th></tr></thead>
      <tbody>${settings.data.map((one) => html`<tr key=${one.key}><td class="mono">${one.key}</td><td class="mono">${one.value}</td></tr>`)}</tbody></table></div>` : settings.data ? html`<p class="empty">${t("All options have their defaults.")}</p>` : null}<//><${Log} />` : null}`;
}
