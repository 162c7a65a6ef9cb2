import { describe, expect, it } from 'vitest';
import type { ApiClient, ApiReply, ApiRequest } from '../../../../../src/resolver/kubernetes/api/api-client.js';
import { SliceStore } from '../../../../../src/resolver/kubernetes/slices/slice-store.js';
import { ListWatch } from '../../../../../src/resolver/kubernetes/watch/list-watch.js';
import { drawIndex, type Rng } from '../../../../../src/runtime/rng.js';
import { FakeClock } from '../../../../../src/testing/fake-clock.js';
import { seededRng } from '../../../../../src/testing/seeded-rng.js';
import type { EndpointSliceObject } from '../../../../servers/index.js';
import {
  answerList,
  bookmarkLine,
  eventLine,
  ObjectStore,
  type StoredObject,
  type StoreEvent,
} from '../../../../servers/index.js';

/** Ways a stream goes wrong. `none` ends it as it should. */
const mutations = [
  'none',
  'cut',
  'cut and reset',
  'garbage line',
  'garbage inside a line',
  'no UTF-8 inside a line',
  'empty line',
  'page of a proxy',
  'swapped events',
  'repeated event',
  'another kind',
  'unknown type',
  'error 410',
  'error 429',
  'error 500',
  'status 503',
  'status 410',
  'no answer',
] as const;

/** An API server in memory whose every stream is spoilt in some way. Other writes go on meanwhile. */
class SpoilingServer implements ApiClient {
  readonly server = undefined;
  readonly store = new ObjectStore(60);
  streams = 0;
  streamingLists = 0;
  /** Off: streams are as they should be and stay open. */
  spoiling = true;
  readonly met = new Set<string>();
  readonly #rng: Rng;

  constructor(rng: Rng) {
    this.#rng = rng;
    for (let write = 0; write < 10; write++) this.write();
  }

  /** Some write to some slice. */
  write(): void {
    const name = `s${drawIndex(this.#rng, 6)}`;
    if (this.#rng.next() < 0.15) this.store.delete('endpointslices', 'shop', name);
    else this.store.put('endpointslices', randomSlice(name, this.#rng));
  }

  async get(request: ApiRequest): Promise<ApiReply> {
    if (request.query.watch !== 'true') return this.#list(request);
    this.streams += 1;
    const mutation = this.spoiling ? (mutations[drawIndex(this.#rng, mutations.length)] as string) : 'none';
    this.met.add(mutation);
    if (mutation === 'no answer') throw Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
    if (mutation.startsWith('status')) return wholeReply(Number(mutation.slice(-3)), '{"kind":"Status"}');
    return {
      status: 200,
      retryAfterMs: undefined,
      discard: () => {},
      read: (onData) => this.#stream(request, mutation, onData),
    };
  }

  dropIdle(): void {}

  close(): void {}

  #list(request: ApiRequest): ApiReply {
    if (this.spoiling && this.#rng.next() < 0.2) return wholeReply(200, '{"kind":"EndpointSliceList","items":[');
    const answer = answerList(this.store, {
      resource: 'endpointslices',
      namespace: 'shop',
      matches: () => true,
      selective: true,
      resourceVersion: request.query.resourceVersion ?? '',
      resourceVersionMatch: '',
      limit: 0,
      continueToken: '',
      epoch: 0,
      pagesFromCache: false,
    });
    return answer.kind === 'page'
      ? wholeReply(200, answer.body)
      : wholeReply(answer.status.code, JSON.stringify(answer.status));
  }

  async #stream(request: ApiRequest, mutation: string, onData: (chunk: Uint8Array) => void): Promise<void> {
    const lines = request.query.sendInitialEvents === 'true' ? this.#state() : this.#missed(request);
    if (lines === undefined) {
      this.#send(Buffer.from(`${errorLine(410)}\n`), onData);
      return;
    }
    const unsubscribe = this.store.subscribe((event) => lines.push(lineOf(event)));
    for (let more = drawIndex(this.#rng, 5); this.spoiling && more > 0; more--) this.write();
    unsubscribe();
    if (this.#rng.next() < 0.3) lines.push(bookmarkLine('endpointslices', this.store.revision));
    this.#spoil(lines, mutation);
    const text = Buffer.from(lines.map((line) => `${line}\n`).join(''), 'latin1');
    if (!this.spoiling) {
      this.#send(text, onData);
      return await new Promise<never>((_, reject) => {
        request.signal.addEventListener('abort', () => reject(request.signal.reason));
      });
    }
    const cut = mutation.startsWith('cut') ? drawIndex(this.#rng, text.length + 1) : text.length;
    this.#send(text.subarray(0, cut), onData);
    if (mutation === 'cut and reset') throw Object.assign(new Error('reset'), { code: 'ECONNRESET' });
  }

  #missed(request: ApiRequest): string[] | undefined {
    return this.store.eventsAfter('endpointslices', Number(request.query.resourceVersion))?.map(lineOf);
  }

  /** What a streaming list begins with. */
  #state(): string[] {
    this.streamingLists += 1;
    const objects = this.store.list('endpointslices', 'shop').reverse();
    const lines = objects.map(({ eventText }) => latin1(eventLine('ADDED', eventText)));
    return [...lines, bookmarkLine('endpointslices', this.store.revision, true)];
  }

  /** In pieces cut anywhere, also inside a character. */
  #send(bytes: Buffer, onData: (chunk: Uint8Array) => void): void {
    for (let start = 0; start < bytes.length; ) {
      const length = 1 + drawIndex(this.#rng, 300);
      onData(bytes.subarray(start, start + length));
      start += length;
    }
  }

  /** Lines are kept as latin1 text of their UTF-8 bytes, so that any byte can be put into them. */
  #spoil(lines: string[], mutation: string): void {
    const at = drawIndex(this.#rng, lines.length + 1);
    const line = lines[at];
    const middle = line === undefined ? 0 : drawIndex(this.#rng, line.length);
    const intoLine = (text: string): void => {
      if (line !== undefined) lines[at] = line.slice(0, middle) + text + line.slice(middle);
      else lines.push(text);
    };
    const between = (text: string): void => {
      lines.splice(at, 0, text);
    };
    if (mutation === 'garbage line') between('{"type":"MODIFIED","object":');
    else if (mutation === 'garbage inside a line') intoLine('\u0001');
    else if (mutation === 'no UTF-8 inside a line') intoLine('\xff\xfe');
    else if (mutation === 'empty line') between('');
    else if (mutation === 'page of a proxy') between('<html><body>502 Bad Gateway</body></html>');
    else if (mutation === 'another kind')
      between('{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"s1","resourceVersion":"999999"}}}');
    else if (mutation === 'unknown type')
      between('{"type":"MOVED","object":{"kind":"EndpointSlice","metadata":{"name":"s1","resourceVersion":"999999"}}}');
    else if (mutation === 'repeated event' && line !== undefined) between(line);
    else if (mutation.startsWith('error')) between(errorLine(Number(mutation.slice(-3))));
    else if (mutation === 'swapped events') {
      const [a, b] = [lines[at], lines[at + 1]];
      // Only events of different slices: order within one slice is what the API promises.
      if (a !== undefined && b !== undefined && nameIn(a) !== nameIn(b)) [lines[at], lines[at + 1]] = [b, a];
    }
  }
}

const latin1 = (text: string): string => Buffer.from(text).toString('latin1');

function lineOf(event: StoreEvent): string {
  if (event.after === undefined)
    return latin1(eventLine('DELETED', (event.before as StoredObject).at(event.revision).eventText));
  return latin1(eventLine(event.before === undefined ? 'ADDED' : 'MODIFIED', event.after.eventText));
}

function nameIn(line: string): string | undefined {
  return /"name":"(s\d)"/.exec(line)?.[1];
}

function errorLine(code: number): string {
  return JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code, message: 'spoilt' } });
}

function wholeReply(status: number, body: string): ApiReply {
  return {
    status,
    retryAfterMs: undefined,
    discard: () => {},
    read: async (onData) => onData(Buffer.from(body)),
  };
}

function randomSlice(name: string, rng: Rng): EndpointSliceObject {
  const endpoints = Array.from({ length: drawIndex(rng, 5) }, () => ({
    addresses: [`10.0.0.${1 + drawIndex(rng, 9)}`],
    conditions: { ready: rng.next() < 0.7, serving: true, terminating: rng.next() < 0.2 },
    nodeName: ['nœud', 'узел', '節點', 'node-😀'][drawIndex(rng, 4)] as string,
  }));
  return {
    metadata: { name, namespace: 'shop', labels: { 'kubernetes.io/service-name': 'orders' } },
    addressType: 'IPv4',
    endpoints,
    ports: [{ name: 'http', port: 80 }],
  };
}

/** What a client should have, as text. */
function truth(store: ObjectStore): string {
  const lines = store.list('endpointslices', 'shop').map(({ name, object }) => {
    const { endpoints } = object as EndpointSliceObject;
    const members = (endpoints ?? []).map(({ addresses, conditions, nodeName }) => [
      addresses[0],
      conditions,
      nodeName,
    ]);
    return JSON.stringify([name, members]);
  });
  return lines.join('\n');
}

function beliefs(slices: SliceStore): string {
  return [...slices.values()]
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, members }) =>
      JSON.stringify([name, members.map(({ address, conditions, nodeName }) => [address, conditions, nodeName])]),
    )
    .join('\n');
}

describe('W7 corrupted streams', () => {
  it('10,000 of them, corrupted in every way, end in the correct set', async () => {
    let streams = 0;
    let streamingLists = 0;
    const met = new Set<string>();
    for (let seed = 1; seed <= 100; seed++) {
      const rng = seededRng(seed);
      const server = new SpoilingServer(rng);
      const clock = new FakeClock();
      const slices = new SliceStore();
      const loop = new ListWatch({
        client: server,
        namespace: async () => 'shop',
        service: 'orders',
        clock,
        rng,
        streamingLists: seed % 2 === 0,
        listener: {
          replaced: (list) => slices.replace(list),
          changed: (name, slice) => slices.set(name, slice),
          failed: () => {},
          confirmed: () => {},
          warned: () => {},
        },
      });
      loop.start();
      for (let round = 0; round < 5; round++) {
        server.spoiling = true;
        const goal = server.streams + 20;
        while (server.streams < goal) await clock.advanceAsync(clock.nextInMs ?? 0);
        server.spoiling = false;
        // Quiet: the stream that is open now stays so, and what was missed has come.
        for (let minute = 0; minute < 3; minute++) await clock.advanceAsync(61_000);
        expect(beliefs(slices), `seed ${seed}, round ${round}`).toBe(truth(server.store));
      }
      loop.close();
      streams += server.streams;
      streamingLists += server.streamingLists;
      for (const mutation of server.met) met.add(mutation);
      expect(clock.timers).toBe(0);
    }
    expect(streams).toBeGreaterThanOrEqual(10_000);
    expect(streamingLists).toBeGreaterThanOrEqual(40);
    expect([...met].sort()).toEqual([...mutations].sort());
  }, 120_000);
});
