import { type Endpoint, isEndpoint } from '../endpoint/endpoint.js';
import { asError, isResolveError, ResolveError } from '../errors.js';
import { Warnings } from '../observe/warnings.js';
import { optionError } from '../runtime/check.js';
import { ignoreRejection } from '../runtime/ignore-rejection.js';
import { sameEndpoints } from './endpoint-list.js';
import type { Resolution, Resolver, ResolverContext, ResolverListener } from './resolver.js';

/** What a resolver knows now. A state, and not a series of events, so that whoever reads it late or twice has missed nothing. */
export interface Resolved {
  /** The last set; undefined before the first. */
  readonly endpoints: readonly Endpoint[] | undefined;
  /** Why the set is empty, in words. */
  readonly emptyBecause: string | undefined;
  /** Why the set may be outdated, or is unknown; undefined while it is right. */
  readonly error: ResolveError | undefined;
}

/** The state of a resolver that has said nothing yet. */
export const nothingYet: Resolved = Object.freeze({
  endpoints: undefined,
  emptyBecause: undefined,
  error: undefined,
});

/** Tells a listener how each state of a resolver differs from the one before: each set once, each failure once, and when it is over. */
export class Announcer {
  readonly #listener: ResolverListener;
  #announced: Resolved = nothingYet;
  #latest: Resolved = nothingYet;
  #isClosed = false;

  constructor(listener: ResolverListener) {
    this.#listener = listener;
  }

  /** The state that the listener knows. */
  get announced(): Resolved {
    return this.#announced;
  }

  say(state: Resolved): void {
    if (this.#isClosed) return;
    this.#latest = state;
    const { endpoints, error } = state;
    if (endpoints !== undefined && !isSameSet(this.#announced, endpoints, state.emptyBecause))
      this.#publish(endpoints, state);
    // While it took the set, the listener may have closed the watch, or made it say something newer.
    if (this.#isClosed || this.#latest !== state) return;
    const { error: before } = this.#announced;
    // As long as there is no set, nothing has recovered.
    if (error === undefined && endpoints === undefined) return;
    this.#announced = { ...this.#announced, error };
    if (error === undefined) {
      if (before !== undefined) this.#listener.fresh();
    } else if (before === undefined || !isSameError(before, error)) this.#listener.fail(error);
  }

  close(): void {
    this.#isClosed = true;
  }

  #publish(endpoints: readonly Endpoint[], { emptyBecause }: Resolved): void {
    // For the listener, a set ends every earlier failure.
    this.#announced = { endpoints, emptyBecause, error: undefined };
    if (endpoints.length > 0 || emptyBecause === undefined) this.#listener.update(endpoints);
    else this.#listener.update(endpoints, emptyBecause);
  }
}

function isSameSet(announced: Resolved, endpoints: readonly Endpoint[], emptyBecause: string | undefined): boolean {
  if (announced.endpoints === undefined || !sameEndpoints(announced.endpoints, endpoints)) return false;
  return endpoints.length > 0 || announced.emptyBecause === emptyBecause;
}

/** Whether two errors say the same. A problem that turned out to be permanent is another one, although its message stays. */
function isSameError(a: ResolveError, b: ResolveError): boolean {
  return a.code === b.code && a.permanent === b.permanent && a.message === b.message;
}

/**
 * Watches a resolver and keeps what it last said, which `changed` gets whenever the resolver has said something. The resolver may be the
 * application's: what it says is checked, and what it throws later than in `watch` becomes a warning. Throws what `watch` throws, and
 * EVENKEEL_OPTION if that returns something else than a resolution.
 */
export function follow(resolver: Resolver, context: ResolverContext, changed: (state: Resolved) => void): Resolution {
  const { name } = resolver;
  const warnings = new Warnings(context.observer, context.clock);
  let state = nothingYet;
  let isClosed = false;
  const say = (next: Resolved): void => {
    // A resolver that was closed has no further say, even if it continues.
    if (isClosed) return;
    state = next;
    changed(next);
  };
  const fail = (reason: unknown): void => say({ ...state, error: resolveErrorOf(name, reason) });
  const update = (endpoints: readonly Endpoint[], reason: unknown): void => {
    if (!Array.isArray(endpoints) || !endpoints.every(isEndpoint)) {
      fail(new ResolveError(`the resolver ${name} listed something that createEndpoint did not make`));
      return;
    }
    const emptyBecause = endpoints.length === 0 && typeof reason === 'string' ? reason : undefined;
    say({ endpoints: [...endpoints], emptyBecause, error: undefined });
  };
  const fresh = (): void => say({ ...state, error: undefined });
  const resolution = resolver.watch({ update, fail, fresh }, context);
  if (typeof resolution?.close !== 'function') {
    isClosed = true;
    ignoreRejection(resolution);
    throw optionError('resolver.watch()', 'an object with refresh and close', resolution);
  }
  const call = (what: 'refresh' | 'close', ...news: Parameters<Resolution['refresh']>): void => {
    warnings.guarded(`the resolver threw at ${what}`, () => resolution[what](...news), undefined);
  };
  return {
    refresh: (...news) => {
      if (!isClosed) call('refresh', ...news);
    },
    close: () => {
      isClosed = true;
      call('close');
    },
  };
}

function resolveErrorOf(name: string, reason: unknown): ResolveError {
  return isResolveError(reason) ? reason : new ResolveError(`${name}: ${asError(reason).message}`, { cause: reason });
}
