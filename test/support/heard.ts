import { readFileSync } from 'node:fs';
import { until } from './until.js';

/** The kernel's states for a connection that this side has not closed: both sides open, or ended by the other side. */
const OPEN: ReadonlySet<string> = new Set(['01', '08']);

/** Whether a connection to a port of this machine is open on our side. Undefined if the kernel does not say. */
function isOpenTo(port: number): boolean | undefined {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  try {
    return ['tcp', 'tcp6'].some((table) =>
      readFileSync(`/proc/self/net/${table}`, 'utf8')
        .split('\n')
        .some((line) => {
          const [, , remote = '', state = ''] = line.trim().split(/\s+/);
          return remote.endsWith(wanted) && OPEN.has(state);
        }),
    );
  } catch {
    return undefined;
  }
}

/** Resolves when this process has noticed that `pod` is gone, and has closed its side of all connections to it. */
export async function heard({ port }: { readonly port: number }): Promise<void> {
  if (isOpenTo(port) === undefined) await new Promise((resolve) => setTimeout(resolve, 50));
  await until(`connections to port ${port} are closed`, () => isOpenTo(port) !== true);
  // Listeners are called in the following turns.
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}
