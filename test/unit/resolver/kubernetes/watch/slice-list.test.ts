import { setMaxListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { listSlices, type SliceList } from '../../../../../src/resolver/kubernetes/watch/slice-list.js';
import { settle } from '../../../../../src/testing/fake-clock.js';
import { FakeApiClient, type PendingGet, status, wireList, wireSlice } from '../fake-api-client.js';

function list(client: FakeApiClient): Promise<SliceList> {
  const { signal } = new AbortController();
  // The client of these tests listens for each page.
  setMaxListeners(0, signal);
  const reply = listSlices(client, '/slices', '', '0', signal);
  reply.catch(() => {});
  return reply;
}

/** One endpoint as the API server writes it, with everything there may be. */
function fullEndpoint(index: number): object {
  return {
    addresses: [`10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`],
    conditions: { ready: true, serving: true, terminating: false },
    hints: { forZones: [{ name: 'europe-west1-b' }] },
    nodeName: `gke-prod-default-pool-5f1c2a3b-${index % 5_000}`,
    targetRef: {
      kind: 'Pod',
      namespace: 'shop',
      name: `orders-7d4b9c6f5d-${index}`,
      uid: `0f0f0f0f-0000-4000-8000-${String(index).padStart(12, '0')}`,
    },
    zone: 'europe-west1-b',
  };
}

function fullList(endpoints: number): object {
  const items = Array.from({ length: Math.ceil(endpoints / 100) }, (_, slice) => ({
    ...wireSlice(`orders-${slice}`, slice + 1, []),
    endpoints: Array.from({ length: Math.min(100, endpoints - slice * 100) }, (_, at) =>
      fullEndpoint(slice * 100 + at),
    ),
  }));
  return wireList(9, items);
}

async function open(client: FakeApiClient): Promise<PendingGet> {
  await client.last.open();
  return client.last;
}

describe('a list', () => {
  it('is kept in one piece, however small the chunks in which it arrives', async () => {
    const client = new FakeApiClient();
    const reply = list(client);
    const get = await open(client);
    const piece = new Uint8Array(1);
    for (const byte of Buffer.from(JSON.stringify(wireList(7, [wireSlice('größe', 3, ['10.0.0.1'])])))) {
      piece[0] = byte;
      get.write(piece);
    }
    await get.end();
    expect(await reply).toMatchObject({ version: '7', items: [{ metadata: { name: 'größe' } }] });
  });

  it('with 50,000 complete endpoints fits; the limit is 20 MiB over all pages', async () => {
    const client = new FakeApiClient();
    const reply = list(client);
    const body = JSON.stringify(fullList(50_000));
    await client.last.answer(200, body);
    expect((await reply).items).toHaveLength(500);

    const long = list(client);
    const page = {
      ...wireList(7, []),
      metadata: { resourceVersion: '7', continue: 'x' },
      padding: 'x'.repeat(7_000_000),
    };
    for (let pages = 0; pages < 3; pages++) {
      await client.last.answer(200, page);
      await settle();
    }
    await expect(long).rejects.toMatchObject({ kind: 'protocol', label: 'size' });
    expect(client.all).toHaveLength(4);
  });

  it('is refused if it is not JSON, or no list', async () => {
    for (const [body, why] of [
      ['['.repeat(100_000), /is not JSON/],
      [`{"items":[${'{},'.repeat(1_000)}{}]}`, /no resourceVersion/],
    ] as const) {
      const client = new FakeApiClient();
      const reply = list(client);
      await client.last.answer(200, body);
      await expect(reply).rejects.toMatchObject({
        kind: 'protocol',
        message: expect.stringMatching(why),
      });
    }
  });

  it('is refused if it is not UTF-8: one name would become another', async () => {
    const client = new FakeApiClient();
    const reply = list(client);
    const get = await open(client);
    const body = Buffer.from(JSON.stringify(wireList(7, [wireSlice('s1', 3, ['10.0.0.1'])])));
    body[body.indexOf('s1')] = 0xff;
    get.write(body);
    await get.end();
    await expect(reply).rejects.toMatchObject({ kind: 'protocol' });
  });

  it('ends, however often the server says that there is more', async () => {
    const client = new FakeApiClient();
    const reply = list(client);
    for (let pages = 0; pages < 1_000; pages++) {
      await client.last.answer(200, wireList(7, [], 'more'));
      await settle();
    }
    await expect(reply).rejects.toMatchObject({ kind: 'protocol', label: 'size' });
    expect(client.all).toHaveLength(1_000);
  });

  it('with a deeply nested error body is known by its status', async () => {
    const client = new FakeApiClient();
    const reply = list(client);
    await client.last.answer(503, '['.repeat(60_000));
    await expect(reply).rejects.toMatchObject({ kind: 'throttled' });
    const other = list(client);
    await client.last.answer(410, status(410, 'Expired'));
    await expect(other).rejects.toMatchObject({ kind: 'expired' });
  });
});
