import type { Endpoint } from '../endpoint/endpoint.js';
import { RuledLoad } from '../load/load-rule.js';
import { UNLIMITED } from '../pool/subchannel-calls.js';
import type { RecordedSubchannel, SubchannelToRecord } from '../pool/subchannel-recording.js';
import { NOBODY, type Note, type RecordedEndpoint, type StartSubchannel, states } from './format.js';

interface Live {
  readonly subchannel: SubchannelToRecord;
  readonly endpoint: RecordedEndpoint;
  /** The last note about the subchannel's endpoint, while it holds. */
  note: Note | undefined;
}

/** The subchannels of a balancer, by the numbers under which they are recorded. The number of a closed subchannel is used again. */
export class LiveSubchannels {
  readonly #live: (Live | undefined)[] = [];
  readonly #free: number[] = [];
  /**
   * The closed subchannels that keep their number for now, because calls on them may still end, and the picker's set may still contain
   * them.
   */
  readonly #closed = new Set<RecordedSubchannel>();

  /** Gives a subchannel a number. Undefined if all numbers are in use; the subchannel and its calls are then not recorded. */
  add(subchannel: SubchannelToRecord): { readonly id: number; readonly endpoint: RecordedEndpoint } | undefined {
    const id = this.#free.pop() ?? this.#live.length;
    if (id >= NOBODY) return undefined;
    subchannel.recordedAs = id;
    const endpoint = plainEndpoint(subchannel.endpoint);
    this.#live[id] = { subchannel, endpoint, note: undefined };
    return { id, endpoint };
  }

  /** Removes a subchannel. Returns whether it had a number. */
  remove(subchannel: RecordedSubchannel): boolean {
    const live = this.#live[subchannel.recordedAs];
    if (live?.subchannel !== subchannel) return false;
    live.note = undefined;
    this.#closed.add(subchannel);
    return true;
  }

  /** Frees the numbers of closed subchannels without running calls, because the picker is about to get another set. */
  release(): void {
    for (const subchannel of this.#closed) {
      const id = subchannel.recordedAs;
      if (this.#live[id]?.subchannel.inFlight !== 0) continue;
      this.#closed.delete(subchannel);
      subchannel.recordedAs = -1;
      this.#live[id] = undefined;
      this.#free.push(id);
    }
  }

  clear(): void {
    this.#live.length = 0;
    this.#closed.clear();
  }

  /** Keeps a note about an endpoint until it is restored. Returns the note with the endpoint's number, if it has one. */
  note(endpoint: Endpoint, note: Note): Note {
    const live = this.#live.find((each) => each?.endpoint.key === endpoint.key && !this.#closed.has(each.subchannel));
    if (live === undefined) return note;
    const numbered = { ...note, id: live.subchannel.recordedAs };
    live.note = note.what === 'restored' ? undefined : numbered;
    return numbered;
  }

  /** The subchannels and notes with which a part of the recording starts. */
  start(): { readonly subchannels: readonly StartSubchannel[]; readonly notes: readonly Note[] } {
    const live = this.#live.filter((each) => each !== undefined);
    return {
      subchannels: live.map(({ subchannel, endpoint }) => ({
        id: subchannel.recordedAs,
        endpoint,
        state: states.indexOf(subchannel.state),
        room: roomOf(subchannel),
        inFlight: subchannel.inFlight,
        started: subchannel.started,
      })),
      notes: live.flatMap(({ note }) => note ?? []),
    };
  }

  /**
   * What the `load` of the balancer has measured so far, as one row of numbers: first `memory` numbers that hold for all endpoints together,
   * then `fields` numbers for each live subchannel in turn.
   */
  loads(): { readonly memory: number; readonly fields: number; readonly numbers: Float64Array } {
    const live = this.#live.filter((each) => each !== undefined);
    const first = live[0]?.subchannel.load;
    const memory = (first instanceof RuledLoad && first.rule.memory?.()) || [];
    const fields = first instanceof RuledLoad ? first.fields : 0;
    const numbers = new Float64Array(memory.length + live.length * fields);
    numbers.set(memory);
    for (const [index, { subchannel }] of live.entries()) {
      const { load } = subchannel;
      if (load instanceof RuledLoad && load.fields === fields) {
        numbers.set(load.numbers.subarray(load.at, load.at + fields), memory.length + index * fields);
      }
    }
    return { memory: memory.length, fields, numbers };
  }
}

export function plainEndpoint({ key, address, port, name, zone, nodeName }: Endpoint): RecordedEndpoint {
  return {
    key,
    address,
    port,
    ...(name !== undefined && { name }),
    ...(zone !== undefined && { zone }),
    ...(nodeName !== undefined && { node: nodeName }),
  };
}

/**
 * How many calls may run on a subchannel; 2^30 = any number. If the connection has to be read for this each time, the result is −1 minus
 * what it allows now. Never throws.
 */
export function roomOf(subchannel: RecordedSubchannel): number {
  try {
    const { connection, capacity } = subchannel;
    const isPolled = connection !== undefined && connection.watchCapacity === undefined;
    if (isPolled && connection.capacity !== Number.POSITIVE_INFINITY)
      return -1 - Math.max(0, Math.min(capacity, UNLIMITED));
    return Math.min(capacity, UNLIMITED);
  } catch {
    return -1;
  }
}
