// The last minutes of each job's rates, kept while the page is open.
import { tap } from "./rest.js";

const MOST = 300;
const SERIES = ["at", "recordsIn", "recordsOut", "busy", "lag"];
const byJob = new Map();

export const FIGURES = "/pystate/jobs/figures";

tap(FIGURES, ({ now, jobs }) => {
  for (const job of jobs) {
    const kept = byJob.get(job.jid) ?? { at: [], recordsIn: [], recordsOut: [], busy: [], lag: [] };
    byJob.set(job.jid, kept);
    kept.at.push(now / 1000);
    kept.recordsIn.push(job["records-in-per-second"]);
    kept.recordsOut.push(job["records-out-per-second"]);
    kept.busy.push(job.busy * 100);
    kept.lag.push(job.watermark === null ? null : Math.max(0, now - job.watermark) / 1000);
    if (kept.completed !== job["last-checkpoint"]) Object.assign(kept, { completed: job["last-checkpoint"], failedThen: job["failed-checkpoints"] });
    kept.failing = job["failed-checkpoints"] - kept.failedThen;
    if (kept.at.length > MOST) SERIES.forEach((name) => kept[name].shift());
  }
  for (const jid of byJob.keys()) if (!jobs.some((job) => job.jid === jid)) byJob.delete(jid);
});

export const historyOf = (jid) => byJob.get(jid) ?? { at: [], recordsIn: [], recordsOut: [], busy: [], lag: [] };
