// What is measured of a job's tasks, from the list of all its metrics.

export const NO_WATERMARK = -(2 ** 63);
const SUMS = ["recordsIn", "recordsOut", "bytesIn", "bytesOut", "allIn", "allOut", "state"];

// Return a Map of vertex id to {name, subtasks: [{index, busy, pressed, recordsIn, ...}], and sums over the subtasks}.
export function tasksOf(metrics) {
  const tasks = new Map();
  for (const one of metrics ?? []) {
    if (!one.vertex || one.subtask === null || one.operator !== null) continue;
    const task = tasks.get(one.vertex) ?? { id: one.vertex, name: one.task, byIndex: new Map() };
    tasks.set(one.vertex, task);
    const subtask = task.byIndex.get(one.subtask) ?? {};
    task.byIndex.set(one.subtask, subtask);
    subtask[one.name] = one.value;
  }
  for (const task of tasks.values()) {
    task.subtasks = [...task.byIndex.entries()].sort(([a], [b]) => a - b).map(([index, found]) => ({
      index,
      busy: (found.busyTimeMsPerSecond ?? 0) / 1000,
      pressed: (found.backPressuredTimeMsPerSecond ?? 0) / 1000,
      recordsIn: found.numRecordsInPerSecond ?? 0,
      recordsOut: found.numRecordsOutPerSecond ?? 0,
      bytesIn: found.numBytesInPerSecond ?? 0,
      bytesOut: found.numBytesOutPerSecond ?? 0,
      allIn: found.numRecordsIn ?? 0,
      allOut: found.numRecordsOut ?? 0,
      state: found.lastCheckpointStateSize ?? null,
      watermark: [found.currentOutputWatermark, found.currentInputWatermark].find((one) => one > NO_WATERMARK) ?? null,
      lastEpoch: found.lastEpochDurationMs > 0 ? found.lastEpochDurationMs : null,
      alignment: (found.checkpointAlignmentTime ?? 0) / 1e6,
      startDelay: (found.checkpointStartDelayNanos ?? 0) / 1e6,
    }));
    const total = (name) => task.subtasks.reduce((sum, one) => sum + (one[name] ?? 0), 0);
    const most = (name) => Math.max(0, ...task.subtasks.map((one) => one[name] ?? 0));
    const sums = Object.fromEntries(SUMS.map((name) => [name, total(name)]));
    const watermarks = task.subtasks.map((one) => one.watermark).filter((one) => one !== null);
    const watermark = watermarks.length ? Math.min(...watermarks) : null; // that of those that have one, as of the job
    Object.assign(task, { ...sums, watermark, busy: most("busy"), pressed: most("pressed"), parallelism: task.subtasks.length });
    task.skewed = ["allIn", "state"].some((name) => isSkewed(task.subtasks.map((one) => one[name] ?? 0)));
  }
  return tasks;
}

// Whether one of several values is far above the others: more than twice their mean, and not all of them small.
export function isSkewed(values) {
  if (values.length < 2) return false;
  return values.some((value, index) => value > 100 && isOutlier(values, index));
}

export function isOutlier(values, index) {
  const others = values.filter((_, other) => other !== index);
  const mean = others.reduce((sum, value) => sum + value, 0) / Math.max(1, others.length);
  return values.length > 1 && values[index] > 2 * mean && values[index] > 100;
}
