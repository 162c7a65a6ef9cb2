import { describe, expect, it } from 'vitest';
import { createEndpoint, type EndpointConditions } from '../../../src/endpoint/endpoint.js';
import { EndpointSet } from '../../../src/endpoint/endpoint-set.js';
import { conditions } from '../../../src/stage/conditions.js';

const states: Readonly<Record<string, EndpointConditions>> = {
  R: { ready: true, serving: true, terminating: false },
  N: { ready: false, serving: false, terminating: false },
  X: { ready: false, serving: false, terminating: true },
  T: { ready: false, serving: true, terminating: true },
  /** Ready and terminating: publishNotReadyAddresses. */
  P: { ready: true, serving: false, terminating: true },
};

function usable(text: string): string {
  const endpoints = text
    .split(' ')
    .filter(Boolean)
    .map((item, index) =>
      createEndpoint({
        address: `10.0.0.${index + 1}`,
        port: 80,
        name: item,
        conditions: states[item.slice(-1)] ?? {},
      }),
    );
  return conditions()(undefined as never)
    .apply(EndpointSet.of(1, endpoints))
    .entries.map(({ endpoint }) => endpoint.name)
    .join(' ');
}

describe('conditions', () => {
  it.each([
    ['U1 ready ones', 'aR bR', 'aR bR'],
    ['U1 leaves out what is not ready', 'aR bN cX dT', 'aR'],
    ['U1 ready counts whatever else is said', 'aP bT', 'aP'],
    ['U2 none ready: serving and terminating', 'aT bN cX dT', 'aT dT'],
    ['U3 neither: never used', 'aN bX', ''],
    ['U4 one ready endpoint of any slice is enough to leave the terminating ones of all others', 'aT bT cT dR', 'dR'],
    ['U5 nothing at all', '', ''],
  ])('%s', (_title, set, expected) => expect(usable(set)).toBe(expected));

  it('U8: a set in which all are ready comes back as it is', () => {
    const set = EndpointSet.of(1, [createEndpoint({ address: '10.0.0.1', port: 80 })]);
    expect(conditions()(undefined as never).apply(set)).toBe(set);
  });
});
