/**
 * Outlives the process that started MariaDB servers, however that one ends, and leaves nothing of them: ends those that
 * still run and removes their folder. Told over IPC: `{ started: pid }`, `{ ended: pid }`; the end of IPC is the sign.
 */
import { rmSync } from 'node:fs';

const [folder] = process.argv.slice(2);
const pids = new Set();

process.on('message', (/** @type {{ started?: number, ended?: number }} */ { started, ended }) => {
  if (started !== undefined) pids.add(started);
  if (ended !== undefined) pids.delete(ended);
});
// Ctrl-C reaches the whole group; the servers' owner decides.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});

process.on('disconnect', () => {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It is gone.
    }
  }
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  process.exit();
});
