import { describe, expect, it } from 'vitest';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { ResolveError } from '../../../src/errors.js';
import {
  type Choice,
  type ChoiceOptions,
  choose,
  type Known,
  nothingChosen,
} from '../../../src/resolver/discovery-choice.js';
import { resolveDnsOptions } from '../../../src/resolver/dns.js';
import { NothingSoFar } from '../../../src/resolver/polling.js';
import { nothingYet, type Resolved } from '../../../src/resolver/resolved.js';
import { LeftToDns, WrongTarget } from '../../../src/resolver/wrong-target.js';

const { host: _host, port: _port, srv: _srv, ...dns } = resolveDnsOptions({ host: 'x', port: 1, clusterDomain: 'a.b' });
const options: ChoiceOptions = {
  target: 'orders.shop:80',
  host: 'orders.shop',
  port: 80,
  dns,
  slots: { connections: 2, connectionAgeMs: 60_000 },
  sliceGraceMs: 2_500,
};
const unknown: Known = {
  names: undefined,
  unwatched: undefined,
  slices: nothingYet,
  sliceCount: undefined,
  isService: false,
  isFirstSlice: false,
  reachesNone: false,
  dns: undefined,
  waitedFor: undefined,
};
const set = (address?: string): Resolved => ({
  ...nothingYet,
  endpoints: address === undefined ? [] : [createEndpoint({ address, port: 80 })],
});
const failed = (error: ResolveError, known = nothingYet): Resolved => ({ ...known, error });
const refused = new ResolveError('refused', { code: 'EVENKEEL_FORBIDDEN', permanent: true });
const away = new ResolveError('away');
const noService = new WrongTarget('service', 'no such Service');
const elsewhere = new LeftToDns('elsewhere');
const nothing = new NothingSoFar('DNS has no such name');
const chosen = (mode: Choice['mode'], state: Resolved): Choice => ({ ...nothingChosen, mode, state });

/** What is chosen, in short: the mode, the addresses, the error, whether DNS is queried, what is waited for. */
function outcome(known: Partial<Known>, last = nothingChosen): string {
  const { mode, state, needsDns, wait } = choose(options, { ...unknown, ...known }, last);
  const addresses = state.endpoints?.map(({ address }) => address).join() ?? 'no set';
  const error = state.error && `(${state.error.message})`;
  return [mode, addresses || '∅', error, needsDns && 'asks DNS', wait && `waits for ${wait.until}`]
    .filter(Boolean)
    .join(', ');
}

describe('with no set so far, discovery', () => {
  it.each([
    ['waits for the API server', {}, 'no set, waits for slices'],
    ['asks DNS when that was long enough', { waitedFor: 'slices' }, 'no set, asks DNS, waits for slices'],
    ['asks DNS where no slices are watched', { unwatched: { kind: 'no-service' } }, 'no set, asks DNS'],
    ['asks DNS if there is no slice', { slices: set(), sliceCount: 0 }, 'no set, asks DNS'],
    ['uses slices', { slices: set('10.0.0.1'), dns: set('10.0.0.9') }, 'slices, 10.0.0.1'],
    ['believes an empty set of a Service', { slices: set(), isService: true }, 'slices, ∅'],
    [
      'waits for endpoints where the first slice has just appeared',
      { slices: set(), isService: true, isFirstSlice: true, dns: failed(nothing) },
      'no set, asks DNS, waits for first endpoints',
    ],
    ['uses what DNS has', { slices: failed(away), dns: set('10.0.0.9') }, 'dns, 10.0.0.9, asks DNS'],
    [
      'waits for word on a Service that neither knows',
      { slices: set(), sliceCount: 0, dns: failed(nothing) },
      'no set, asks DNS, waits for service',
    ],
    [
      'is empty where DNS knows no name and access is refused',
      { slices: failed(refused), dns: failed(nothing) },
      'dns, ∅, (orders.shop:80: DNS has no such name; EndpointSlices are not watched: refused), asks DNS',
    ],
    [
      'asks no DNS about a port that the Service does not have',
      { slices: failed(new WrongTarget('port', 'no such port')), dns: set('10.0.0.9') },
      'no set, (no such port)',
    ],
  ] as [string, Partial<Known>, string][])('%s', (_title, known, expected) => {
    expect(outcome(known)).toBe(expected);
  });
});

describe('with a set from slices, discovery', () => {
  const last = chosen('slices', set('10.0.0.1'));
  it.each([
    ['keeps it through an outage', { slices: failed(away, set('10.0.0.1')) }, 'slices, 10.0.0.1, (away)'],
    [
      'asks DNS in an outage in which no endpoint can be connected to',
      { slices: failed(away, set('10.0.0.1')), reachesNone: true },
      'slices, 10.0.0.1, (away), asks DNS',
    ],
    [
      'uses what DNS has then',
      { slices: failed(away, set('10.0.0.1')), reachesNone: true, dns: set('10.0.0.9') },
      'dns, 10.0.0.9, asks DNS',
    ],
    [
      'asks no DNS about a Service that does not exist, whatever can be connected to',
      { slices: failed(noService, set('10.0.0.1')), reachesNone: true },
      'slices, 10.0.0.1, (no such Service)',
    ],
    [
      'asks DNS at once about a Service whose slices do not say who may be called',
      { slices: failed(elsewhere, set('10.0.0.1')) },
      'slices, 10.0.0.1, (elsewhere), asks DNS, waits for lasting refusal',
    ],
    [
      'waits whether a refusal lasts',
      { slices: failed(refused, set('10.0.0.1')) },
      'slices, 10.0.0.1, (refused), waits for lasting refusal',
    ],
    [
      'asks DNS if it lasts, and keeps the set until DNS has one',
      { slices: failed(refused, set('10.0.0.1')), waitedFor: 'lasting refusal', dns: set() },
      'slices, 10.0.0.1, (refused), asks DNS, waits for lasting refusal',
    ],
    [
      'keeps it where the Service has lost the port, also if access was refused for long before',
      { slices: failed(new WrongTarget('port', 'no such port'), set('10.0.0.1')), waitedFor: 'lasting refusal' },
      'slices, 10.0.0.1, (no such port)',
    ],
  ] as [string, Partial<Known>, string][])('%s', (_title, known, expected) => {
    expect(outcome(known, last)).toBe(expected);
  });
});

describe('with a set from DNS, discovery', () => {
  it.each([
    ['keeps it while DNS fails', { dns: failed(away, set('10.0.0.9')) }, 'dns, 10.0.0.9, (away), asks DNS'],
    ['is empty when DNS is', { dns: set() }, 'dns, ∅, asks DNS'],
    [
      'says that there is no such Service when DNS has none either',
      { slices: failed(noService), dns: set() },
      'dns, ∅, (no such Service), asks DNS',
    ],
    ['uses slices when they come', { slices: set('10.0.0.1'), dns: set('10.0.0.9') }, 'slices, 10.0.0.1'],
  ] as [string, Partial<Known>, string][])('%s', (_title, known, expected) => {
    expect(outcome(known, chosen('dns', set('10.0.0.9')))).toBe(expected);
  });
});
