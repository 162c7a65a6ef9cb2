import { describe, expect, it } from 'vitest';
import {
  createEndpoint,
  type Endpoint,
  type EndpointConditions,
  type EndpointInit,
} from '../../../../src/endpoint/endpoint.js';
import { EndpointSet } from '../../../../src/endpoint/endpoint-set.js';
import { ServiceRules } from '../../../../src/resolver/kubernetes/service-rules.js';
import { parseService, type ServiceFacts } from '../../../../src/resolver/kubernetes/slices/service-ports.js';
import type { StageContext } from '../../../../src/stage/stage.js';
import { topologyHints } from '../../../../src/stage/zone-hints.js';

const ready = { ready: true, serving: true, terminating: false };
const leaving = { ready: false, serving: true, terminating: true };
const unready = { ready: false, serving: false, terminating: false };

type Hints = Pick<EndpointInit, 'hintZones' | 'hintNodes'>;
const at = (last: number, nodeName: string, conditions: EndpointConditions = ready, hints: Hints = {}): Endpoint =>
  createEndpoint({ address: `10.0.0.${last}`, port: 80, nodeName, conditions, ...hints });

const facts = (spec: object): ServiceFacts => parseService({ spec: { clusterIP: '10.96.0.7', ...spec } });
const local = facts({ internalTrafficPolicy: 'Local' });
const sticky = facts({ sessionAffinity: 'ClientIP' });

const rules = (nodeName: string | undefined = 'n1', name = 'pod-1', zone = ''): ServiceRules =>
  new ServiceRules('shop/agent', { zone, nodeName, name });
const addresses = (endpoints: readonly Endpoint[]): readonly string[] => endpoints.map(({ address }) => address);

describe('internalTrafficPolicy: Local', () => {
  it('leaves the endpoints of this node, whatever their state: conditions choose among them', () => {
    const set = [at(1, 'n1'), at(2, 'n2'), at(3, 'n1', leaving)];
    expect(addresses(rules().apply(local, set))).toEqual(['10.0.0.1', '10.0.0.3']);
  });

  it('is empty where this node has none, although other nodes have', () => {
    expect(rules('n9').apply(local, [at(1, 'n1'), at(2, 'n2')])).toEqual([]);
  });

  it('takes no account of hints: they are about all clients of the Service, and only those of this node come here', () => {
    const hinted = [at(1, 'n1', ready, { hintNodes: ['n9'] }), at(2, 'n1', ready, { hintNodes: ['n1'] }), at(3, 'n2')];
    const own = rules().apply(local, hinted);
    const stage = topologyHints({ nodeName: 'n1' })(undefined as unknown as StageContext);
    const used = stage.apply(EndpointSet.of(1, own)).entries.map(({ endpoint }) => endpoint);
    expect(addresses(used)).toEqual(['10.0.0.1', '10.0.0.2']);
  });

  it('without knowing the node: an error that says what to set, and no other node is called', () => {
    expect(rules('').failure(local)?.message).toBe(
      'Service shop/agent has internalTrafficPolicy: Local, and the node of this process is unknown: set NODE_NAME (fieldRef: spec.nodeName)',
    );
    expect(rules('n1').failure(local)).toBeUndefined();
    expect(rules('').failure(facts({ internalTrafficPolicy: 'Cluster' }))).toBeUndefined();
  });

  it('means nothing for a headless Service: no client goes through kube-proxy there', () => {
    const set = [at(1, 'n1'), at(2, 'n2')];
    const headless = facts({ clusterIP: 'None', internalTrafficPolicy: 'Local', sessionAffinity: 'ClientIP' });
    expect(rules('').failure(headless)).toBeUndefined();
    expect(rules().apply(headless, set)).toBe(set);
  });
});

describe('sessionAffinity: ClientIP', () => {
  const set = [1, 2, 3, 4, 5, 6].map((last) => at(last, 'n1'));

  it('is one endpoint, the same in all processes of a pod', () => {
    const [one, ...more] = rules().apply(sticky, set);
    expect(more).toEqual([]);
    expect(rules().apply(sticky, [...set].reverse())).toEqual([one]);
  });

  it('is spread evenly over pods', () => {
    const counts = new Map<string, number>();
    for (let client = 0; client < 6_000; client++) {
      const [one] = rules('n1', `pod-${client}`).apply(sticky, set);
      counts.set(one?.key ?? '', (counts.get(one?.key ?? '') ?? 0) + 1);
    }
    // 1,000 each; the standard deviation is 29.
    for (const count of counts.values()) expect(Math.abs(count - 1_000)).toBeLessThan(150);
    expect(counts.size).toBe(6);
  });

  it('stays while the endpoint is usable, whatever joins, and moves on when it is not', () => {
    const sticking = rules();
    const [first] = sticking.apply(sticky, set.slice(0, 2));
    expect(sticking.apply(sticky, set)).toEqual([first]);
    const without = set.map((endpoint) =>
      endpoint.key === first?.key ? { ...endpoint, conditions: unready } : endpoint,
    );
    const [second] = sticking.apply(sticky, without);
    expect(second?.key).not.toBe(first?.key);
    expect(sticking.apply(sticky, set)).toEqual([second]);
  });

  it('is one of those that hints leave for this zone or node, and moves on when they leave others', () => {
    const zones = (...names: string[]): readonly Endpoint[] =>
      names.map((zone, index) => at(index + 1, 'n1', ready, { hintZones: [zone] }));
    for (let client = 0; client < 100; client++) {
      const sticking = rules('n1', `pod-${client}`, 'z2');
      const before = sticking.apply(sticky, zones('z1', 'z1', 'z2', 'z2', 'z1', 'z1'));
      expect(['10.0.0.3', '10.0.0.4'], `client ${client}`).toContain(addresses(before)[0]);
      expect(addresses(sticking.apply(sticky, zones('z2', 'z1', 'z1', 'z1', 'z1', 'z1')))).toEqual(['10.0.0.1']);
    }
    const nodes = ['n2', 'n1', 'n2'].map((node, index) =>
      at(index + 1, node, ready, { hintNodes: [node], hintZones: ['z1'] }),
    );
    for (let client = 0; client < 100; client++) {
      expect(addresses(rules('n1', `pod-${client}`, 'z1').apply(sticky, nodes))).toEqual(['10.0.0.2']);
    }
  });

  it('is one of all where one ready endpoint has no hint, or hints name other places', () => {
    const mixed = [at(1, 'n1', ready, { hintZones: ['z1'] }), at(2, 'n1')];
    const elsewhere = [1, 2].map((last) => at(last, 'n1', ready, { hintZones: ['z9'] }));
    for (const endpoints of [mixed, elsewhere]) {
      const seen = new Set<string>();
      for (let client = 0; client < 100; client++) {
        seen.add(addresses(rules('n1', `pod-${client}`, 'z1').apply(sticky, endpoints)).join());
      }
      expect([...seen].sort()).toEqual(['10.0.0.1', '10.0.0.2']);
    }
  });

  it('takes a terminating endpoint only if no other is left', () => {
    expect(addresses(rules().apply(sticky, [at(1, 'n1', leaving), at(2, 'n1')]))).toEqual(['10.0.0.2']);
    expect(addresses(rules().apply(sticky, [at(1, 'n1', leaving), at(2, 'n1', unready)]))).toEqual(['10.0.0.1']);
    expect(rules().apply(sticky, [at(1, 'n1', unready)])).toHaveLength(1);
  });
});

it('a Service that became an ExternalName is an error: its slices stay, and lead to the pods it had', () => {
  const external = parseService({ spec: { type: 'ExternalName', externalName: 'db.example.com' } });
  expect(rules().failure(external)?.message).toBe(
    'Service shop/agent has the type ExternalName: its name leads elsewhere, and its EndpointSlices are old',
  );
});

it('without the Service object, or without rules in it, the set stays as it is', () => {
  const set = [at(1, 'n1'), at(2, 'n2')];
  expect(rules().apply(undefined, set)).toBe(set);
  expect(rules().apply(facts({ internalTrafficPolicy: 'Cluster', sessionAffinity: 'None' }), set)).toBe(set);
});
