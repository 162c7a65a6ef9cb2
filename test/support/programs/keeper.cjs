/**
 * The keeper process of a `KeptFolder`. It outlives the process that started it, then kills servers that are still running and
 * removes their folder. It gets messages over IPC: `{ started: pid }`, `{ ended: pid }`; the end of IPC is the signal.
 *
 * No ES module, whose listeners would come after the end of a process that was killed early: that would be missed.
 */
const { rmSync } = require('node:fs');

const [folder] = process.argv.slice(2);
const pids = new Set();

process.on('message', (/** @type {{ started?: number, ended?: number }} */ { started, ended }) => {
  if (started !== undefined) pids.add(started);
  if (ended !== undefined) pids.delete(ended);
});
// Ctrl-C reaches the whole process group, but the servers' owner decides.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});

process.on('disconnect', () => {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // Already gone.
    }
  }
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  process.exit();
});
