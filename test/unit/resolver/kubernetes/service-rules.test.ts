import { describe, expect, it } from 'vitest';
import { createEndpoint, type Endpoint, type EndpointConditions } from '../../../../src/endpoint/endpoint.js';
import { ServiceRules } from '../../../../src/resolver/kubernetes/service-rules.js';
import { parseService, type ServiceFacts } from '../../../../src/resolver/kubernetes/slices/service-ports.js';

const ready = { ready: true, serving: true, terminating: false };
const leaving = { ready: false, serving: true, terminating: true };
const unready = { ready: false, serving: false, terminating: false };

const at = (last: number, nodeName: string, conditions: EndpointConditions = ready): Endpoint =>
  createEndpoint({ address: `10.0.0.${last}`, port: 80, nodeName, conditions });

const facts = (spec: object): ServiceFacts => parseService({ spec: { clusterIP: '10.96.0.7', ...spec } });
const local = facts({ internalTrafficPolicy: 'Local' });
const sticky = facts({ sessionAffinity: 'ClientIP' });

const rules = (nodeName: string | undefined = 'n1', client = 'pod-1'): ServiceRules =>
  new ServiceRules('shop/agent', nodeName, client);
const addresses = (endpoints: readonly Endpoint[]): readonly string[] => endpoints.map(({ address }) => address);

describe('internalTrafficPolicy: Local', () => {
  it('leaves the endpoints of this node, whatever their state: conditions choose among them', () => {
    const set = [at(1, 'n1'), at(2, 'n2'), at(3, 'n1', leaving)];
    expect(addresses(rules().apply(local, set))).toEqual(['10.0.0.1', '10.0.0.3']);
  });

  it('is empty where this node has none, although other nodes have', () => {
    expect(rules('n9').apply(local, [at(1, 'n1'), at(2, 'n2')])).toEqual([]);
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

  it('takes a terminating endpoint only if no other is left', () => {
    expect(addresses(rules().apply(sticky, [at(1, 'n1', leaving), at(2, 'n1')]))).toEqual(['10.0.0.2']);
    expect(addresses(rules().apply(sticky, [at(1, 'n1', leaving), at(2, 'n1', unready)]))).toEqual(['10.0.0.1']);
    expect(rules().apply(sticky, [at(1, 'n1', unready)])).toHaveLength(1);
  });
});

it('without the Service object, or without rules in it, the set stays as it is', () => {
  const set = [at(1, 'n1'), at(2, 'n2')];
  expect(rules().apply(undefined, set)).toBe(set);
  expect(rules().apply(facts({ internalTrafficPolicy: 'Cluster', sessionAffinity: 'None' }), set)).toBe(set);
});
