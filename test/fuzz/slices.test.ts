import { isIP } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Endpoint } from '../../src/endpoint/endpoint.js';
import { classifyAddress } from '../../src/endpoint/unsafe-address.js';
import type { ApiClient, ApiReply, ApiRequest } from '../../src/resolver/kubernetes/api/api-client.js';
import { failureOf } from '../../src/resolver/kubernetes/api/api-failure.js';
import { LineError, LineReader } from '../../src/resolver/kubernetes/api/line-reader.js';
import type { Unchecked } from '../../src/resolver/kubernetes/api/unchecked.js';
import { parseSlice } from '../../src/resolver/kubernetes/slices/endpoint-slice.js';
import { fitsStore, SliceStore } from '../../src/resolver/kubernetes/slices/slice-store.js';
import { listSlices, type SliceList } from '../../src/resolver/kubernetes/watch/slice-list.js';
import { parseWatchEvent } from '../../src/resolver/kubernetes/watch/watch-event.js';
import { drawIndex, type Rng } from '../../src/runtime/rng.js';
import { SettledSet } from '../unit/resolver/kubernetes/slices/settled-set.js';
import { anything, eachCase, enough, LIMIT_MS, mutated, oddAddresses, oneOf } from './cases.js';

const pieces = [
  '[',
  '{',
  ']',
  '}',
  '"',
  '\\',
  ',',
  ':',
  '\n',
  'null',
  '1e999',
  '-1',
  '70000',
  '"addresses":["127.0.0.1"],',
  '"port":0,',
  '"__proto__":{"ready":true},',
  '"IPv6"',
  '"DELETED"',
  '"BOOKMARK"',
  '"ERROR"',
  '\u0000',
  '\ufeff',
  '\\ud800',
];

function sliceObject(rng: Rng, name: string): Record<string, unknown> {
  const endpoint = (): unknown => ({
    addresses: [rng.next() < 0.5 ? `10.0.0.${1 + drawIndex(rng, 9)}` : oneOf(rng, oddAddresses)],
    conditions: { ready: rng.next() < 0.7, terminating: rng.next() < 0.2 },
    targetRef: { uid: `u${drawIndex(rng, 3)}` },
    ...(rng.next() < 0.1 && { hints: { forZones: anything(rng) } }),
  });
  const object: Record<string, unknown> = {
    kind: 'EndpointSlice',
    metadata: { name, resourceVersion: '7', labels: { 'kubernetes.io/service-name': 'orders' } },
    addressType: oneOf(rng, ['IPv4', 'IPv4', 'IPv6']),
    endpoints: Array.from({ length: drawIndex(rng, 5) }, endpoint),
    ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
  };
  // A field of another kind altogether.
  if (rng.next() < 0.3) object[oneOf(rng, ['endpoints', 'ports', 'addressType', 'kind'])] = anything(rng);
  return object;
}

/** What a client would publish on a host with IPv4 and IPv6, where the entries of a pod are joined. */
class Client {
  readonly store: SliceStore = new SliceStore();
  readonly union: SettledSet = new SettledSet({
    families: ['IPv4', 'IPv6'],
    ports: ({ ports }) => ports,
    accepts: ({ unsafe }) => unsafe === undefined,
  });

  put(name: string, object: Unchecked | undefined): void {
    const slice = object === undefined ? undefined : parseSlice(object, 'orders');
    expect(this.store.set(name, slice)).toBe(true);
    this.union.set(name, slice);
    this.union.settle(new Set());
  }

  get endpoints(): readonly Endpoint[] {
    return this.union.addresses.map((address) => this.union.at(address) as Endpoint);
  }

  check(): void {
    expect(new Set(this.endpoints.map(({ key }) => key)).size).toBe(this.endpoints.length);
    for (const { address, otherAddress, port, weight, conditions } of this.endpoints) {
      const otherFits =
        otherAddress === undefined ||
        (isIP(address) === 4 && isIP(otherAddress) === 6 && classifyAddress(otherAddress) === undefined);
      const fits =
        otherFits &&
        isIP(address) !== 0 &&
        classifyAddress(address) === undefined &&
        Number.isInteger(port) &&
        port >= 1 &&
        port <= 65_535 &&
        Number.isFinite(weight) &&
        weight > 0 &&
        Object.values(conditions).every((value) => typeof value === 'boolean');
      if (!fits) throw new Error(`published ${address}:${port} weight ${weight}`);
    }
  }
}

const good = {
  metadata: { name: 'good', resourceVersion: '1', labels: { 'kubernetes.io/service-name': 'orders' } },
  addressType: 'IPv4',
  endpoints: [{ addresses: ['10.1.0.1'] }, { addresses: ['10.1.0.2'] }],
  ports: [{ name: 'http', port: 80 }],
} as unknown as Unchecked;

describe('EndpointSlices', () => {
  it('in a watch: whatever a stream says, applied or refused, only valid endpoints are published', {
    timeout: LIMIT_MS,
  }, async () => {
    let refused = 0;
    let applied = 0;
    await eachCase((rng) => {
      const client = new Client();
      client.put('good', good);
      const before = client.endpoints;
      let events = 0;
      const reader = new LineReader((line) => {
        const event = parseWatchEvent(line);
        if (event.type !== 'put' && event.type !== 'delete') return;
        events++;
        client.put(event.name, event.type === 'put' ? event.object : undefined);
      });
      const event = { type: oneOf(rng, ['ADDED', 'MODIFIED', 'DELETED']), object: sliceObject(rng, 's1') };
      const line = Buffer.from(`${JSON.stringify(event)}\n`);
      const bytes = rng.next() < 0.8 ? mutated(rng, line, pieces) : line;
      try {
        for (let start = 0; start < bytes.length; ) {
          const length = 1 + drawIndex(rng, 200);
          reader.push(bytes.subarray(start, start + length));
          start += length;
        }
      } catch (error) {
        if (!(error instanceof LineError)) throw error;
        refused++;
      }
      client.check();
      // What was not understood has changed nothing.
      if (events === 0) expect(client.endpoints).toEqual(before);
      else applied++;
    });
    // Neither is the rule.
    enough(refused, 1_000);
    enough(applied, 1_000);
  });

  it('in a list: it is applied as a whole or not at all, and fails with our own error', {
    timeout: LIMIT_MS,
  }, async () => {
    let refused = 0;
    let taken = 0;
    const { signal } = new AbortController();
    await eachCase(async (rng) => {
      const items = Array.from({ length: drawIndex(rng, 4) }, (_, index) => sliceObject(rng, `s${index}`));
      const pages = [{ metadata: { resourceVersion: '9', continue: rng.next() < 0.2 ? 'more' : '' }, items }];
      pages.push({ metadata: { resourceVersion: '9', continue: '' }, items: [] });
      const bodies = pages.map((page) => {
        const body = Buffer.from(JSON.stringify(page));
        return rng.next() < 0.7 ? mutated(rng, body, pieces) : body;
      });
      let asked = 0;
      const status = rng.next() < 0.9 ? 200 : oneOf(rng, [0, 204, 403, 410, 429, 500, 999]);
      const server: ApiClient = {
        server: undefined,
        dropIdle: () => {},
        close: () => {},
        get: async (_request: ApiRequest): Promise<ApiReply> => {
          const body = bodies[Math.min(asked++, 1)] as Buffer;
          return {
            status,
            retryAfterMs: undefined,
            discard: () => {},
            read: async (onData) => {
              const at = drawIndex(rng, body.length + 1);
              onData(body.subarray(0, at));
              onData(body.subarray(at));
            },
          };
        },
      };
      let list: SliceList | undefined;
      try {
        list = await listSlices(server, '/slices', '', '0', signal);
      } catch (error) {
        const { kind, message, label } = failureOf(error);
        // Anything else would be a mistake of ours that passes for one of the network.
        if (kind === 'network') throw error;
        if (message.length > 1_200 || label.length > 100) throw new Error(`a message of ${message.length} characters`);
        refused++;
      }
      if (asked > 1_000) throw new Error(`${asked} pages`);
      if (list === undefined) return;
      taken++;
      const client = new Client();
      const slices = list.items.map((item) => parseSlice(item, 'orders')).filter((slice) => slice !== undefined);
      expect(fitsStore(slices)).toBe(true);
      for (const item of list.items) client.put((item.metadata as { name: string }).name, item);
      client.check();
    });
    enough(refused, 1_000);
    enough(taken, 1_000);
  });
});
