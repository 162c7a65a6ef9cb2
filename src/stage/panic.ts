import type { Endpoint } from '../endpoint/endpoint.js';
import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import { notify } from '../observe/observer.js';
import { checkNoOptions } from '../runtime/check.js';
import { described } from '../runtime/described.js';
import type { Stage, StageContext, StageFactory, Tracker } from './stage.js';

/**
 * The last stage, which decides what happens to suspect endpoints. While at most half of the set meets an ejection criterion, suspect
 * endpoints get weight 0: they stay connected and are not picked. If more than half do, all are used: the fault is then more likely in the
 * caller, the network or a shared dependency, and sending everything to the few remaining endpoints would overload them too. All are also
 * used if no other endpoint is connected.
 *
 * With n endpoints of which k fail: k ≤ n / 2 → k are ejected; k > n / 2 → none.
 * Source: the panic threshold of Envoy, and Finagle's PanicMode.
 */
export const panic = (...none: []): StageFactory => {
  checkNoOptions('panic', none);
  return described((context) => new Panic(context), 'panic');
};

/** Whether more than half of the eligible endpoints meet an ejection criterion, counting those over the limit and on probation. */
export function deservesPanic(set: EndpointSet): boolean {
  const { total, suspects } = countSuspects(set);
  return suspects * 2 > total;
}

function countSuspects(set: EndpointSet): { total: number; suspects: number } {
  let total = 0;
  let suspects = 0;
  for (const entry of set.entries) {
    if (entry.weight <= 0) continue;
    total++;
    if (isSuspect(entry)) suspects++;
  }
  return { total, suspects };
}

class Panic implements Stage {
  readonly #context: StageContext;
  readonly #connected = new Set<string>();
  /** Whether the last set contained a suspect endpoint; only then do changes of connections matter. */
  #hasSuspects = false;
  #panicking = false;

  constructor(context: StageContext) {
    this.#context = context;
  }

  track({ key }: Endpoint): Tracker {
    const set = (connected: boolean): void => {
      if (connected) this.#connected.add(key);
      else this.#connected.delete(key);
      if (this.#hasSuspects) this.#context.invalidate();
    };
    return { connected: () => set(true), disconnected: () => set(false), closed: () => set(false) };
  }

  apply(set: EndpointSet): EndpointSet {
    const { total, suspects } = countSuspects(set);
    this.#hasSuspects = suspects > 0;
    const panicking = suspects * 2 > total || (suspects > 0 && this.#onlySuspectsConnected(set));
    if (panicking !== this.#panicking) {
      this.#panicking = panicking;
      notify(this.#context.observer, 'panicChanged', { panicking, suspects, total });
    }
    return set.map(panicking ? lifted : stoodBy);
  }

  #onlySuspectsConnected(set: EndpointSet): boolean {
    const connected = set.entries.filter(({ endpoint, weight }) => weight > 0 && this.#connected.has(endpoint.key));
    return connected.length > 0 && connected.every(isSuspect);
  }
}

function isSuspect({ suspect, overLimit, probation }: EndpointEntry): boolean {
  return suspect || overLimit === true || probation !== undefined;
}

function lifted(entry: EndpointEntry): EndpointEntry {
  if (!isSuspect(entry)) return entry;
  const { overLimit: _overLimit, probation: _probation, ...rest } = entry;
  return { ...rest, suspect: false };
}

function stoodBy(entry: EndpointEntry): EndpointEntry {
  return entry.suspect && entry.weight > 0 ? { ...entry, weight: 0 } : entry;
}
