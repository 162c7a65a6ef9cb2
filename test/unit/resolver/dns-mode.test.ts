import { describe, expect, it } from 'vitest';
import { endpointConnectionAgeMs } from '../../../src/endpoint/connection-age.js';
import { AddressKind, isSlots, slotMaker } from '../../../src/resolver/dns-mode.js';
import { FakeDnsClient } from '../../support/fixtures/fake-dns-client.js';

const orders = 'orders.shop.svc.cluster.local';
const record = (name: string, port = 80) => ({ name, port, priority: 0, weight: 100 });

describe('AddressKind', () => {
  it.each([
    ['the Service itself is a cluster IP', [record(orders)], 'cluster-ip'],
    ['in any case of letters', [record(orders.toUpperCase())], 'cluster-ip'],
    ['a name below it is a pod', [record(`10-0-0-1.${orders}`)], 'pod'],
    ['several ports of one pod', [record(`a.${orders}`), record(`a.${orders}`, 81)], 'pod'],
    ['another name tells nothing', [record('elsewhere.example')], 'unknown'],
    ['a name that only ends alike tells nothing', [record(`x${orders}`)], 'unknown'],
    ['port 0 is made up', [record(`a.${orders}`, 0)], 'unknown'],
    ['no record tells nothing', 'ENODATA', 'unknown'],
    ['no answer tells nothing', 'ETIMEOUT', 'unknown'],
  ] as const)('%s', async (_title, answer, expected) => {
    const client = new FakeDnsClient();
    client.answers[`SRV ${orders}.`] = answer;
    expect(await new AddressKind().of('10.0.0.1', `${orders}.`, client)).toBe(expected);
  });

  it('queries once per address, and again where it got no answer', async () => {
    const client = new FakeDnsClient();
    const kind = new AddressKind();
    client.answers[`SRV ${orders}.`] = 'ETIMEOUT';
    await kind.of('10.0.0.1', `${orders}.`, client);
    client.answers[`SRV ${orders}.`] = [record(orders)];
    for (let round = 0; round < 3; round++) await kind.of('10.0.0.1', `${orders}.`, client);
    expect(client.asked).toHaveLength(2);
    await kind.of('10.0.0.2', `${orders}.`, client);
    expect(client.asked).toHaveLength(3);
  });
});

describe('slotMaker', () => {
  const target = { address: '10.96.0.7', port: 80, name: undefined, weight: 1 };

  it('creates endpoints that differ only by uid and have a maximum age', () => {
    const slots = slotMaker({ connections: 3, connectionAgeMs: 60_000 })(target);
    expect(slots.map(({ key }) => key)).toEqual(['10.96.0.7:80#slot-1', '10.96.0.7:80#slot-2', '10.96.0.7:80#slot-3']);
    expect(slots.every(({ attributes }) => attributes.get(endpointConnectionAgeMs) === 60_000)).toBe(true);
    expect([isSlots(slots), isSlots([])]).toEqual([true, false]);
  });

  it('returns equal sets from lookup to lookup', () => {
    const make = slotMaker({ connections: 1, connectionAgeMs: 60_000 });
    expect(make(target)[0]?.attributes).toBe(make(target)[0]?.attributes);
  });
});
