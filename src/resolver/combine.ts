import type { Endpoint } from '../endpoint/endpoint.js';
import { ResolveError } from '../errors.js';
import { checkFunction, optionError } from '../runtime/check.js';
import type { Timer } from '../runtime/clock.js';
import type { Complete } from '../runtime/complete.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { sameEndpoints, sortedEndpoints } from './endpoint-list.js';
import type { Resolution, Resolver, ResolverContext, ResolverListener } from './resolver.js';

/**
 * Options of `firstAvailable` and `union`: how long to wait for resolvers that have not answered. An invalid one throws EVENKEEL_OPTION.
 */
export interface CombineOptions {
  /** How long the first set waits for resolvers that have neither found endpoints nor failed yet, in ms. @defaultValue 2000 */
  readonly patienceMs?: number | undefined;
}

const combineTable: OptionTable<Complete<CombineOptions>> = optionTable('options', {
  patienceMs: numberOption(2_000, { min: 0, max: 600_000 }),
});

/**
 * Uses the endpoints of the first resolver in the list that has any, so that traffic fails over to the next one in the list if it has
 * none. All resolvers are watched from the start, so no lookup is needed at that moment. The set is empty if no resolver has endpoints and
 * at least one of them is certain that there are none. Throws EVENKEEL_OPTION.
 *
 * @example firstAvailable([endpointSlices({ … }), dns({ host: 'orders.eu.example', port: 8080 })])
 */
export function firstAvailable(resolvers: readonly Resolver[], options?: CombineOptions): Resolver {
  return combined('first of', resolvers, options, chooseFirst);
}

/**
 * Creates a resolver that publishes the endpoints of all `resolvers` as one set. If one of them fails, its last endpoints stay in the
 * set. Throws EVENKEEL_OPTION.
 *
 * @example union([dns({ host: 'orders.blue', port: 8080 }), dns({ host: 'orders.green', port: 8080 })])
 */
export function union(resolvers: readonly Resolver[], options?: CombineOptions): Resolver {
  return combined('union of', resolvers, options, chooseAll);
}

/** The last result of one of the combined resolvers. */
interface Source {
  readonly endpoints: readonly Endpoint[] | undefined;
  /** The reason why the resolver found no endpoints, as text. */
  readonly reason?: string | undefined;
  /** The last error; set while the endpoints may be outdated or are unknown. */
  readonly error: ResolveError | undefined;
}

/** The combined result. Undefined endpoints mean that they are not known yet. */
type Choice = Source;

/** Combines the results of several resolvers. `mayWait` says whether to wait for resolvers that have no result yet. */
type Choose = (sources: readonly Source[], mayWait: boolean) => Choice;

const wait: Choice = { endpoints: undefined, error: undefined };

const chooseFirst: Choose = (sources, mayWait) => {
  let empty: Source | undefined;
  for (const source of sources) {
    if (source.endpoints === undefined && source.error === undefined && mayWait) return wait;
    if (source.endpoints !== undefined && source.endpoints.length > 0) return source;
    if (source.endpoints !== undefined) empty ??= source;
  }
  return empty ?? nothingKnown(sources);
};

const chooseAll: Choose = (sources, mayWait) => {
  const silent = sources.some((source) => source.endpoints === undefined && source.error === undefined);
  if (silent && mayWait) return wait;
  const error = sources.find((source) => source.error !== undefined)?.error;
  const endpoints = sources.flatMap((source) => source.endpoints ?? []);
  // As long as the endpoints of one resolver are unknown, the set cannot be said to be empty.
  const partial = endpoints.length === 0 && sources.some((source) => source.endpoints === undefined);
  const reasons = new Set(sources.flatMap(({ reason }) => reason ?? []));
  const reason = reasons.size === 0 ? undefined : [...reasons].join('; ');
  return partial ? nothingKnown(sources) : { endpoints, reason, error };
};

function nothingKnown(sources: readonly Source[]): Choice {
  const errors = sources.flatMap((source) => source.error ?? []);
  const [first] = errors;
  const permanent = errors.length === sources.length && errors.every((error) => error.permanent);
  if (first === undefined || (errors.length === 1 && first.permanent === permanent)) {
    return { endpoints: undefined, error: first };
  }
  const message = errors.map((error) => error.message).join('; ');
  return {
    endpoints: undefined,
    error: new ResolveError(message, { code: sameCode(errors), permanent, cause: first }),
  };
}

function sameCode(errors: readonly ResolveError[]): 'EVENKEEL_RESOLVE' | 'EVENKEEL_FORBIDDEN' {
  return errors.every((error) => error.code === 'EVENKEEL_FORBIDDEN') ? 'EVENKEEL_FORBIDDEN' : 'EVENKEEL_RESOLVE';
}

function combined(
  word: string,
  resolvers: readonly Resolver[],
  options: CombineOptions = {},
  choose: Choose,
): Resolver {
  if (!Array.isArray(resolvers) || resolvers.length === 0) {
    throw optionError('resolvers', 'a list of at least one resolver', resolvers);
  }
  for (const resolver of resolvers) checkFunction('resolvers[].watch', resolver?.watch);
  const { patienceMs } = combineTable.resolve(options);
  const members = [...resolvers];
  return {
    name: `${word} ${members.map((resolver) => resolver.name).join(', ')}`,
    watch: (listener, context) => new CombinedWatch(members, choose, patienceMs, listener, context),
  };
}

class CombinedWatch implements Resolution {
  readonly #choose: Choose;
  readonly #listener: ResolverListener;
  readonly #sources: Source[];
  readonly #resolutions: Resolution[] = [];
  readonly #patience: Timer;
  #patient = true;
  #closed = false;
  #last: readonly Endpoint[] | undefined;
  #reportedError: string | undefined;

  constructor(
    resolvers: readonly Resolver[],
    choose: Choose,
    patienceMs: number,
    listener: ResolverListener,
    context: ResolverContext,
  ) {
    this.#choose = choose;
    this.#listener = listener;
    this.#sources = resolvers.map(() => wait);
    this.#patience = context.clock.timer(() => {
      this.#patient = false;
      this.#evaluate();
    }, patienceMs);
    try {
      for (const [index, resolver] of resolvers.entries()) {
        const listener: ResolverListener = {
          update: (endpoints, reason) => this.#update(index, { endpoints, reason, error: undefined }),
          fail: (error) => this.#update(index, { ...this.#sources[index], error } as Source),
          fresh: () => this.#update(index, { ...this.#sources[index], error: undefined } as Source),
        };
        this.#resolutions.push(resolver.watch(listener, context));
      }
    } catch (error) {
      this.close();
      throw error;
    }
  }

  refresh(failingSinceMs?: number): void {
    for (const resolution of this.#resolutions) resolution.refresh(failingSinceMs);
  }

  close(): void {
    this.#closed = true;
    this.#patience.cancel();
    for (const resolution of this.#resolutions) resolution.close();
  }

  #update(index: number, source: Source): void {
    this.#sources[index] = source;
    this.#evaluate();
  }

  #evaluate(): void {
    if (this.#closed) return;
    const { endpoints, reason, error } = this.#choose(this.#sources, this.#patient && this.#last === undefined);
    if (endpoints !== undefined) this.#publish(endpoints, reason);
    // The listener may have closed this watch while it handled the update.
    if (!this.#closed) this.#tell(error, endpoints !== undefined);
  }

  #publish(endpoints: readonly Endpoint[], reason: string | undefined): void {
    const sorted = sortedEndpoints(endpoints);
    if (this.#last !== undefined && sameEndpoints(this.#last, sorted)) return;
    this.#last = sorted;
    this.#reportedError = undefined; // an update of the set ends every earlier failure
    if (sorted.length > 0) this.#listener.update(sorted);
    else this.#listener.update(sorted, reason);
  }

  #tell(error: ResolveError | undefined, known: boolean): void {
    // The same message counts as a new failure if a temporary problem has become permanent.
    const news = error && `${error.permanent} ${error.message}`;
    if (news === this.#reportedError) return;
    if (error !== undefined) this.#listener.fail(error);
    else if (known) this.#listener.fresh();
    else return;
    this.#reportedError = news;
  }
}
