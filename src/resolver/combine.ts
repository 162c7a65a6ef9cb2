import { ResolveError } from '../errors.js';
import { checkFunction, optionError } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { sortedEndpoints } from './endpoint-list.js';
import { Announcer, follow, nothingYet, type Resolved } from './resolved.js';
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

/**
 * Says what is known of the endpoints, given the states of the combined resolvers. `mayWait` says whether to wait for resolvers that have
 * said nothing yet.
 */
export type Choose = (states: readonly Resolved[], mayWait: boolean) => Resolved;

const chooseFirst: Choose = (states, mayWait) => {
  let empty: Resolved | undefined;
  for (const state of states) {
    if (isSilent(state) && mayWait) return nothingYet;
    if (state.endpoints !== undefined && state.endpoints.length > 0) return state;
    if (state.endpoints !== undefined) empty ??= state;
  }
  return empty ?? nothingKnown(states);
};

const chooseAll: Choose = (states, mayWait) => {
  if (mayWait && states.some(isSilent)) return nothingYet;
  const endpoints = states.flatMap((state) => state.endpoints ?? []);
  // As long as the endpoints of one resolver are unknown, the set cannot be said to be empty.
  if (endpoints.length === 0 && states.some((state) => state.endpoints === undefined)) return nothingKnown(states);
  const error = states.find((state) => state.error !== undefined)?.error;
  const reasons = new Set(states.flatMap(({ emptyBecause }) => emptyBecause ?? []));
  return { endpoints, emptyBecause: reasons.size === 0 ? undefined : [...reasons].join('; '), error };
};

const isSilent = ({ endpoints, error }: Resolved): boolean => endpoints === undefined && error === undefined;

function nothingKnown(states: readonly Resolved[]): Resolved {
  const errors = states.flatMap((state) => state.error ?? []);
  const [first] = errors;
  const permanent = errors.length === states.length && errors.every((error) => error.permanent);
  if (first === undefined || (errors.length === 1 && first.permanent === permanent)) {
    return { ...nothingYet, error: first };
  }
  const message = errors.map((error) => error.message).join('; ');
  return {
    ...nothingYet,
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
    watch: (listener, context) => watchAll(members, choose, patienceMs, listener, context),
  };
}

function watchAll(
  resolvers: readonly Resolver[],
  choose: Choose,
  patienceMs: number,
  listener: ResolverListener,
  context: ResolverContext,
): Resolution {
  const announcer = new Announcer(listener);
  const states: Resolved[] = resolvers.map(() => nothingYet);
  const watches: Resolution[] = [];
  let isPatient = true;
  const evaluate = (): void => {
    const state = choose(states, isPatient && announcer.announced.endpoints === undefined);
    announcer.say({ ...state, endpoints: state.endpoints && sortedEndpoints(state.endpoints) });
  };
  const patience = context.clock.timer(() => {
    isPatient = false;
    evaluate();
  }, patienceMs);
  const close = (): void => {
    announcer.close();
    patience.cancel();
    for (const watch of watches) watch.close();
  };
  try {
    for (const [index, resolver] of resolvers.entries()) {
      const changed = (state: Resolved): void => {
        states[index] = state;
        evaluate();
      };
      watches.push(follow(resolver, context, changed));
    }
  } catch (error) {
    close();
    throw error;
  }
  return {
    refresh: (...news) => {
      for (const watch of watches) watch.refresh(...news);
    },
    close,
  };
}
