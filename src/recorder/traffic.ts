import type { Endpoint } from '../endpoint/endpoint.js';
import { createEndpoint } from '../endpoint/endpoint.js';
import { type RecordedEndpoint, unreadable } from './format.js';
import { type DumpedBalancer, reading } from './read-dump.js';
import { Replica } from './replica.js';
import type { ReplicaSubchannel } from './replica-subchannel.js';

/** No recording is longer than an hour; this leaves room for pauses of the process, in ms. */
const MOST_MS = 7 * 86_400_000;

/** A call as it was made. Those whose end is not in the recording are left out. */
export interface RecordedCall {
  /** When it wanted an endpoint, and when it got one. */
  readonly cameMs: number;
  readonly atMs: number;
  readonly pod: string;
  readonly endMs: number;
  readonly ok: boolean;
  /** Its caller did not wait any longer. */
  readonly gaveUp: boolean;
  /** A text of the same hash as its key. */
  readonly key: string | undefined;
}

/** Which endpoints the picker could choose from, by key, and their weights. */
export interface PickableSet {
  readonly atMs: number;
  readonly weights: ReadonlyMap<string, number>;
}

/** What a recording says of the traffic, whatever the configuration. */
export interface Traffic {
  readonly calls: readonly RecordedCall[];
  /** When calls came that were refused. */
  readonly refusedMs: readonly number[];
  readonly sets: readonly PickableSet[];
  readonly endpoints: ReadonlyMap<string, Endpoint>;
  /** Whether endpoints reported their load. */
  readonly reports: boolean;
  /** Repeated attempts among the calls. */
  readonly retries: number;
}

/** Throws EVENKEEL_RECORDING. */
export function trafficOf({ configuration, parts }: DumpedBalancer): Traffic {
  return reading(() => {
    const running = new Map<number, { cameMs: number; atMs: number; pod: string; key: string | undefined }>();
    const calls: RecordedCall[] = [];
    const refusedMs: number[] = [];
    const sets: PickableSet[] = [];
    const endpoints = new Map<string, Endpoint>();
    let [reports, retries] = [false, 0];
    let lastSet: unknown;
    const see = (replica: Replica, atMs: number): void => {
      const { set } = replica;
      if (set === undefined || set === lastSet) return;
      lastSet = set;
      const ready = set.subchannels as unknown as readonly ReplicaSubchannel[];
      for (const { endpoint } of ready) if (!endpoints.has(endpoint.key)) endpoints.set(endpoint.key, remade(endpoint));
      const weights = new Map(ready.map(({ endpoint }, index) => [endpoint.key, set.weights[index] as number]));
      sets.push({ atMs, weights });
    };
    for (const part of parts) {
      const replica = new Replica(configuration, part);
      see(replica, replica.startMs);
      for (let event = replica.next(); event !== undefined; event = replica.next()) {
        if (!('is' in event)) continue;
        if (event.is === 'waited') {
          const call = running.get(event.call);
          if (call !== undefined) call.cameMs = Math.min(call.atMs, event.sinceMs);
        } else if (event.is === 'refused') refusedMs.push(event.sinceMs);
        else if (event.is === 'pick') {
          see(replica, event.atMs);
          const { call, atMs, recorded, avoid, key } = event;
          if (call === 0 || recorded === undefined) continue;
          if (avoid !== undefined) retries++;
          running.set(call, { cameMs: atMs, atMs, pod: recorded.endpoint.key, key });
        } else if (event.is === 'end') {
          const call = running.get(event.call);
          running.delete(event.call);
          if (call === undefined || event.outcome.kind === 'not-started') continue;
          // An application may say that the endpoint took less than the whole call, or more.
          const { kind, cause } = event.outcome;
          const gaveUp = kind === 'cancelled' || cause === 'timeout';
          calls.push({ ...call, endMs: Math.max(call.atMs, event.atMs), ok: kind === 'success', gaveUp });
        } else if (event.is === 'reported') reports = true;
      }
    }
    calls.sort((a, b) => a.cameMs - b.cameMs);
    const lastMs = calls.reduce((last, { endMs }) => Math.max(last, endMs), 0);
    if (lastMs - (calls[0]?.cameMs ?? lastMs) > MOST_MS) throw unreadable('its times are too far apart');
    return { calls, refusedMs, sets, endpoints, reports, retries };
  });
}

/** Names of endpoints count for `hash`; a pseudonym is as good as any. */
function remade({ key, address, port, zone, name }: RecordedEndpoint): Endpoint {
  const uid = key.split('#')[1];
  return createEndpoint({
    address,
    port: port || 1,
    ...(uid && { uid }),
    ...(zone && { zone }),
    ...(name && { name }),
  });
}
