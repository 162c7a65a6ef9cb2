import type { Endpoint, StageFactory } from '../../../index.js';
import { readOnlyOutcome } from '../outcome.js';
import { serverProbe } from './server-probe.js';

/** Asks one server. */
export type Ask = (endpoint: Endpoint, sql: string, signal: AbortSignal) => Promise<readonly Record<string, unknown>[]>;

const QUESTION = 'SELECT @@global.read_only AS read_only, @@global.innodb_read_only AS innodb_read_only';
/** How often a server on standby is asked, in ms. */
const INTERVAL_MS = 1_000;
const TIMEOUT_MS = 1_000;

/**
 * Servers that take no writes are on standby: they are asked when they connect and once they refused a statement because of it, then
 * every second until they take writes. While none does, callers wait.
 */
export function writable(ask: Ask): StageFactory {
  return serverProbe({
    ask: async (endpoint, signal) => {
      const [row] = await ask(endpoint, QUESTION, signal);
      return isOn(row?.read_only) || isOn(row?.innodb_read_only) ? 'it is read-only' : undefined;
    },
    objection: (outcome) => (outcome === readOnlyOutcome ? 'it refused a statement since it is read-only' : undefined),
    intervalMs: INTERVAL_MS,
    timeoutMs: TIMEOUT_MS,
    keepsAsking: false,
    isFinal: true,
  });
}

/** MySQL and older MariaDB answer 0 and 1, newer MariaDB answers words (ON, NO_LOCK …). */
function isOn(value: unknown): boolean {
  return value !== undefined && value !== null && !['0', 'OFF', ''].includes(String(value).toUpperCase());
}
