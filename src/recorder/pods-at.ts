import type { LoadFacts } from '../load/load.js';
import { keepsOrder } from '../picker/preference-order.js';
import type { RecordedEndpoint } from './format.js';
import { type LastCall, LastCalls } from './last-calls.js';
import { type LeftOut, leftOutOf } from './left-out.js';
import { type DumpedBalancer, reading } from './read-dump.js';
import { Replica } from './replica.js';
import type { ReplicaSubchannel } from './replica-subchannel.js';

/** An endpoint of a balancer at one moment of its recording. */
export interface PodAt {
  readonly endpoint: RecordedEndpoint;
  /** Whether the endpoint was in the set, and whether the picker could choose it. */
  readonly what: 'in use' | 'out' | 'gone';
  /** Why the picker could not choose the endpoint. */
  readonly leftOut: LeftOut | undefined;
  /** When the endpoint was last in the set, if it is gone. */
  readonly listedUntilMs: number | undefined;
  /** How many calls had started on the endpoint so far in the recording. */
  readonly calls: number;
  readonly inFlight: number;
  readonly facts: LoadFacts;
  readonly last: LastCall | undefined;
}

/** What a recording shows about some endpoints at one moment. */
export interface PodsAt {
  readonly atMs: number;
  readonly version: number;
  /** How many endpoints the set had (`listed`), and how many of them the picker could choose from (`ready`). */
  readonly listed: number;
  readonly ready: number;
  /** How many endpoints are in the picker's order of preference, if it keeps one. */
  readonly order: number | undefined;
  readonly pods: readonly PodAt[];
}

interface Seen {
  readonly endpoint: RecordedEndpoint;
  /** The moment that is looked at or, for an endpoint that is no longer in the set, the last moment when it was. */
  atMs: number;
  calls: number;
}

/**
 * The endpoints that `isMeant` accepts, as they were at `untilMs`, or when the recording ended if that is earlier; endpoints without a call
 * are included. Throws EVENKEEL_RECORDING.
 */
export function podsAt(
  { configuration, parts, nowMs }: DumpedBalancer,
  isMeant: (endpoint: RecordedEndpoint) => boolean,
  untilMs: number | undefined,
): PodsAt | undefined {
  return reading(() => {
    const until = untilMs ?? Number.POSITIVE_INFINITY;
    const lastCalls = new LastCalls();
    const seen = new Map<string, Seen>();
    let present: Seen[] = [];
    const see = ({ members, out }: Replica, atMs: number): void => {
      for (const each of present) each.atMs = atMs;
      present = [];
      const listed = [...members.map(({ subchannel }) => subchannel.endpoint), ...out.map(({ endpoint }) => endpoint)];
      for (const endpoint of listed) {
        if (endpoint === undefined || !isMeant(endpoint)) continue;
        const one = seen.get(endpoint.key) ?? { endpoint, atMs, calls: 0 };
        seen.set(endpoint.key, one);
        present.push(one);
      }
    };
    let replica: Replica | undefined;
    for (const part of parts) {
      const next = new Replica(configuration, part);
      if (next.startMs > until) break;
      replica = next;
      see(replica, next.startMs);
      for (let event = replica.next(until); event !== undefined; event = replica.next(until)) {
        if (!('is' in event)) continue;
        if (event.is === 'set') see(replica, event.atMs);
        else if (event.is === 'end') lastCalls.ended(event);
        else if (event.is === 'pick' && event.call !== 0 && event.recorded !== undefined) {
          const pickedPod = seen.get(event.recorded.endpoint.key);
          if (pickedPod !== undefined) pickedPod.calls++;
        }
      }
    }
    if (replica === undefined) return undefined;
    const atMs = Math.min(until, nowMs);
    const leftOut = new Map(leftOutOf(replica).map((each) => [each.endpoint.key, each]));
    const ready = (replica.set?.targets ?? []) as unknown as readonly ReplicaSubchannel[];
    const subchannels = new Map([...replica.subchannels].map((subchannel) => [subchannel.endpoint.key, subchannel]));
    const pods = [...seen.values()].map(({ endpoint, atMs: listedUntilMs, calls }): PodAt => {
      const { key } = endpoint;
      const subchannel = subchannels.get(key);
      const why = leftOut.get(key);
      const isReady = why === undefined && ready.some((each) => each.endpoint.key === key);
      const what = why !== undefined ? 'out' : isReady ? 'in use' : 'gone';
      return {
        endpoint,
        what,
        leftOut: why,
        listedUntilMs: what === 'gone' ? listedUntilMs : undefined,
        calls,
        inFlight: subchannel?.inFlight ?? 0,
        facts: subchannel?.facts(atMs) ?? {},
        last: subchannel && lastCalls.of(subchannel),
      };
    });
    const { set } = replica;
    const isOrdered = configuration.picker?.name === 'preferenceOrder' && set !== undefined && keepsOrder(set);
    const order = isOrdered ? set.all.length : undefined;
    const listed = replica.members.length + replica.out.filter(({ id }) => id < 0).length;
    return { atMs, version: replica.version, listed, ready: ready.length, order, pods };
  });
}
