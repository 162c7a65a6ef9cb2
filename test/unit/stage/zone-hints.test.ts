import { describe, expect, it } from 'vitest';
import { createEndpoint, type EndpointInit } from '../../../src/endpoint/endpoint.js';
import { EndpointSet } from '../../../src/endpoint/endpoint-set.js';
import { topologyFromEnv } from '../../../src/runtime/topology.js';
import { conditions } from '../../../src/stage/conditions.js';
import type { Stage, StageContext } from '../../../src/stage/stage.js';
import { type TopologyHintsOptions, topologyHints } from '../../../src/stage/zone-hints.js';
import { applyStages } from '../../support/fixtures/stage-fixture.js';

/** Members as `3a` (10.1.2.3 hinted for zone a), `3a,b`, `3` (no hint); `!` in front: not ready, `~`: terminating and serving. */
function setOf(text: string): EndpointSet {
  const endpoints = text.split(' ').map((item) => {
    const [, mark, host, zones, nodes] = /^([!~]?)(\d+)([a-z,]*)(?:@([a-z,]+))?$/.exec(item) as unknown as [
      string,
      string,
      string,
      string,
      string?,
    ];
    const init: EndpointInit = {
      address: `10.1.2.${host}`,
      port: 80,
      // Where it runs must not matter (H4).
      zone: 'zone-x',
      nodeName: 'node-x',
      hintZones: zones === '' ? [] : zones.split(',').map((zone) => `zone-${zone}`),
      hintNodes: nodes === undefined ? [] : nodes.split(',').map((node) => `node-${node}`),
      conditions: mark === '' ? {} : { ready: false, serving: mark === '~', terminating: mark === '~' },
    };
    return createEndpoint(init);
  });
  return EndpointSet.of(1, endpoints);
}

function apply(text: string, options: TopologyHintsOptions): string {
  const context = undefined as unknown as StageContext;
  const both: Stage[] = [conditions()(context), topologyHints(options)(context)];
  const hosts = (set: EndpointSet): string => set.entries.map(({ endpoint }) => endpoint.address.slice(7)).join(' ');
  const result = hosts(applyStages(both, setOf(text)));
  // The order of the two stages makes no difference.
  expect(hosts(applyStages([...both].reverse(), setOf(text)))).toBe(result);
  return result;
}

describe('topologyHints, with the rules of kube-proxy', () => {
  const inZoneA = { zone: 'zone-a' };
  const cases: readonly (readonly [title: string, set: string, options: TopologyHintsOptions, expected: string])[] = [
    ['H1 normal filtering', '3a 4b 5c 6a', inZoneA, '3 6'],
    ['H2 no zone of our own', '3a', {}, '3'],
    ['H2 an empty zone of our own', '3a 4b', { zone: '' }, '3 4'],
    ['H1 no endpoint for our zone', '3a', { zone: 'zone-b' }, '3'],
    ['H1 an unready endpoint of our zone is left out', '3a 4b 5c !6a', inZoneA, '3'],
    ['H1 only unready endpoints in our zone: no filter', '!3a 4b 5c !6a', inZoneA, '4 5'],
    ['H1 one ready endpoint without a hint: no filter', '3a 4b 5 6a', inZoneA, '3 4 5 6'],
    ['H1 an unready endpoint without a hint does not count', '3a 4b !5 6a', inZoneA, '3 6'],
    ['H2 hints are lists, any of them counts', '3a,b,c 4b,c 5b,d 6c', { zone: 'zone-c' }, '3 4 6'],
    ['H2 the fallback to terminating endpoints ignores hints', '~3b ~4c', inZoneA, '3 4'],
    ['H2 a terminating endpoint with a hint does not count next to ready ones', '~3a 4b 5b', inZoneA, '4 5'],
    ['H1 same node before same zone', '3a@m 4a@n 5b@o', { ...inZoneA, nodeName: 'node-n' }, '4'],
    ['H1 no endpoint for our node: same zone', '3a@m 4a@o 5b@o', { ...inZoneA, nodeName: 'node-n' }, '3 4'],
    ['H1 one without a node hint: same zone', '3a@n 4a 5b@o', { ...inZoneA, nodeName: 'node-n' }, '3 4'],
    ['H1 neither node nor zone: no filter', '3b@m 4 5b@o', { ...inZoneA, nodeName: 'node-n' }, '3 4 5'],
    ['H1 node hints alone, no zone hints', '3@n 4@m', { nodeName: 'node-n' }, '3'],
    ['H3 the mode is for the whole set', '3a@n 4a@m', { zone: 'zone-a', nodeName: 'node-n' }, '3'],
    ['H4 where endpoints are says nothing', '3 4', { zone: 'zone-x', nodeName: 'node-x' }, '3 4'],
    ['no endpoint at all', '!3a', inZoneA, ''],
  ];
  for (const [title, set, options, expected] of cases) {
    it(title, () => expect(apply(set, options)).toBe(expected));
  }

  it('a set that it does not filter is returned unchanged', () => {
    const set = setOf('3a 4');
    expect(topologyHints(inZoneA)(undefined as never).apply(set)).toBe(set);
  });

  it('standby keeps the other endpoints at weight 0', () => {
    const stage = topologyHints({ ...inZoneA, others: 'standby' })(undefined as never);
    expect(stage.apply(setOf('3a 4b')).entries.map(({ weight }) => weight)).toEqual([1, 0]);
  });

  it('H5: zone and node come from the caller; a helper reads them from the downward API', () => {
    expect(topologyFromEnv({ env: { TOPOLOGY_ZONE: 'z', NODE_NAME: 'n' } })).toEqual({ zone: 'z', nodeName: 'n' });
    expect(topologyFromEnv({ env: { ZONE: 'z' }, zoneVariable: 'ZONE' })).toEqual({ zone: 'z', nodeName: undefined });
    expect(topologyFromEnv({ env: { TOPOLOGY_ZONE: '' } })).toEqual({ zone: undefined, nodeName: undefined });
  });

  it('topologyFromEnv reads nothing from a polluted Object.prototype', () => {
    const polluted = { NODE_NAME: 'n', TOPOLOGY_ZONE: 'z', OTHER: 'o', nodeVariable: 'OTHER', env: { NODE_NAME: 'e' } };
    for (const [name, value] of Object.entries(polluted)) {
      Object.defineProperty(Object.prototype, name, { value, configurable: true });
    }
    try {
      const found = [topologyFromEnv(), topologyFromEnv({}), topologyFromEnv({ env: {} })];
      expect(found.map(({ zone, nodeName }) => [zone, nodeName])).toEqual(Array(3).fill([undefined, undefined]));
    } finally {
      for (const name of Object.keys(polluted)) Reflect.deleteProperty(Object.prototype, name);
    }
  });

  it('refuses unknown options', () => {
    expect(() => topologyHints({ region: 'r' } as never)).toThrow(/region/);
    expect(() => topologyHints({ others: 'gone' } as never)).toThrow(/others/);
    expect(() => topologyHints({ zone: 3 } as never)).toThrow(/zone/);
  });
});
