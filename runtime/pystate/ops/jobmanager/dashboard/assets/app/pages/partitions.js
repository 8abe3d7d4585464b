// Kafka's partitions as a source's readers tell of them: by topic, and those with the most left first.
import { html, useRef, useState } from "../preact.js";
import { Notice, usePages } from "../components.js";
import { count, duration, rate } from "../format.js";
import { t } from "../words.js";

const PARTITION = /(?:^|\.)KafkaSourceReader\.topic\.(.+)\.partition\.(\d+)\.(currentOffset|pendingRecords)$/;
const FEW = 12;
const SHOWN = 20;
const RATE_OVER_S = 30;
const RATE_OF_EPOCHS_OVER_S = 180; // what an epoch has read is told at its end
const STUCK_S = 20;

// [{key, operator, topic, partition, currentOffset, pendingRecords}].
export function partitionsOf(metrics) {
  const found = new Map();
  for (const { operator, name, value } of metrics ?? []) {
    const [, topic, partition, what] = (operator && PARTITION.exec(name)) || [];
    if (!what || typeof value !== "number") continue; // "NaN" where it isn't known
    const key = `${operator} ${topic} ${partition}`;
    found.set(key, { ...(found.get(key) ?? { key, operator, topic, partition: Number(partition) }), [what]: value });
  }
  return [...found.values()].sort((a, b) => a.topic.localeCompare(b.topic) || a.partition - b.partition);
}

// [{key, operator, topic, left, read, partitions}]; read is of which offset on: the sum over all partitions.
export function topicsOf(partitions) {
  const found = new Map();
  for (const one of partitions) {
    const key = `${one.operator} ${one.topic}`;
    const topic = found.get(key) ?? { key, operator: one.operator, topic: one.topic, left: null, read: 0, partitions: [] };
    found.set(key, topic);
    topic.partitions.push(one);
    topic.read += one.currentOffset + 1;
    if (one.pendingRecords !== undefined) topic.left = (topic.left ?? 0) + one.pendingRecords;
  }
  for (const topic of found.values()) topic.partitions.sort((a, b) => (b.pendingRecords ?? 0) - (a.pendingRecords ?? 0) || (b.currentOffset < 0 ? -1 : 0) - (a.currentOffset < 0 ? -1 : 0) || a.partition - b.partition);
  return [...found.values()].sort((a, b) => (b.left ?? 0) - (a.left ?? 0)); // of as many left: by name, as they came
}

// How fast each of several counts grows, per second, and for how long it didn't: {speed, still}, of functions of its key, which
// give null before it is known. Of counts that grow by epochs nobody knows that one stands still.
export function growth(kept, counts, now, byEpochs = false) {
  const span = byEpochs ? RATE_OF_EPOCHS_OVER_S : RATE_OVER_S;
  for (const [key, value] of counts) {
    const points = kept.get(key) ?? [];
    kept.set(key, points);
    if (points.length && value < points[points.length - 1].value) points.length = 0; // read again from an earlier place
    if (!points.length || now > points[points.length - 1].now) points.push({ now, value });
    while (points.length > 2 && now - points[1].now >= span) points.shift();
  }
  const over = (key) => {
    const points = kept.get(key) ?? [];
    const [first, last] = [points[0], points[points.length - 1]];
    return first ? { seconds: last.now - first.now, grown: last.value - first.value } : { seconds: 0, grown: 0 };
  };
  const speed = (key) => {
    const { seconds, grown } = over(key);
    return seconds < 2 || (byEpochs && !grown) ? null : grown / seconds;
  };
  const still = (key) => !byEpochs && over(key).seconds >= STUCK_S && over(key).grown === 0;
  return { speed, still };
}

export function Partitions({ partitions, now, byEpochs }) {
  const [turned, turn] = useState(new Set());
  const kept = useRef(new Map());
  const topics = topicsOf(partitions);
  const counts = [...topics.map((one) => [one.key, one.read]), ...partitions.map((one) => [one.key, one.currentOffset + 1])];
  const { speed, still } = growth(kept.current, counts, now / 1000, byEpochs);
  const most = Math.max(1, ...partitions.map((one) => one.pendingRecords ?? 0));
  const isOpen = (one) => turned.has(one.key) !== (partitions.length <= FEW);
  const flip = (key) => turn((before) => new Set(before.has(key) ? [...before].filter((one) => one !== key) : [...before, key]));
  const unknown = byEpochs ? [] : topics.filter((one) => one.left === null);
  const stuck = topics.filter((one) => one.left > 0 && still(one.key));
  return html`${unknown.length ? html`<${Notice} kind="warn" title=${t("How many records are left of {topics} is not known now.", { topics: unknown.map((one) => one.topic).join(", ") })}>${t("Kafka gives no answer: there may be records since what was read last.")}<//>` : null}${stuck.length ? html`<${Notice} kind="warn" title=${t("Nothing is read of {topics} now, though records are left.", { topics: stuck.map((one) => one.topic).join(", ") })}>${t("Kafka may be away, or what comes after the source may hold it up: the log and the load of the tasks tell.")}<//>` : null}<div class="scroll" tabindex="0"><table class="stack partitions"><thead><tr><th>${t("Topic")}</th><th class="right">${t("Partition")}</th><th class="right">${t("Offset read now")}</th><th>${t("Records left")}</th><th class="right">${t("Read per second")}</th><th class="right">${t("Read up in")}</th></tr></thead>
    ${topics.map((one) => html`<tbody key=${one.key}>
      <tr class=${`pick ${isOpen(one) ? "picked" : ""}`} onClick=${() => flip(one.key)}><td><button class="plain mono" aria-expanded=${isOpen(one)}>${one.topic}</button></td><td class="right" data-label=${t("Partition")}>${t("all {count}", { count: one.partitions.length })}</td><td class="none"></td><td data-label=${t("Records left")}><strong>${count(one.left)}</strong></td><td class="right" data-label=${t("Read per second")}>${rate(speed(one.key))}</td><td class="right" data-label=${t("Read up in")}>${readUpIn(one.left, speed(one.key))}</td></tr>
      ${isOpen(one) ? html`<${Rows} of=${one.partitions} most=${most} speed=${speed} />` : null}</tbody>`)}</table></div>`;
}

const readUpIn = (left, speed) => (left === 0 ? t("read up") : left && speed ? duration((left / speed) * 1000) : "–");

function Rows({ of, most, speed }) {
  const { shown, more } = usePages(of, SHOWN);
  return html`${shown.map((one) => html`<tr key=${one.key} class="sub"><td class="none"></td><td class="right" data-label=${t("Partition")}>${one.partition}</td><td class="right" data-label=${t("Offset read now")}>${one.currentOffset < 0 ? t("nothing yet") : one.currentOffset}</td>
      <td class="wide" data-label=${t("Records left")}><div class="meter"><div class="bar"><i class="pressed" style=${{ width: `${((one.pendingRecords ?? 0) / most) * 100}%` }}></i></div><span>${count(one.pendingRecords)}</span></div></td><td class="right" data-label=${t("Read per second")}>${rate(speed(one.key))}</td><td class="right" data-label=${t("Read up in")}>${one.currentOffset < 0 && one.pendingRecords === 0 ? t("no records") : readUpIn(one.pendingRecords, speed(one.key))}</td></tr>`)}
    ${more ? html`<tr class="sub"><td></td><td colspan="5">${more}</td></tr>` : null}`;
}
