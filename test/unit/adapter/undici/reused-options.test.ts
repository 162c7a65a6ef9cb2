import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Agent, type Dispatcher, Headers } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  appInterceptor,
  createAppAgent,
  createDispatcher,
  type DispatcherOptions,
  type ServiceDispatcher,
} from '../../../../src/adapter/undici/index.js';
import { staticEndpoints } from '../../../../src/resolver/static.js';
import { exactStages } from '../../../../src/stage/standard-stages.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';
import { connected } from '../../../support/fixtures/connected.js';
import { FakeDnsClient } from '../../../support/fixtures/fake-dns-client.js';
import { until } from '../../../support/until.js';

const origin = 'http://orders.shop:8080';

/** What came to the pod, as `<user> <url>`. */
let came: string[];
/** What the pod does with the first request to each URL. */
let first: 'answer' | 'reset' | 'hang' | 'refuse';
let server: Server;
let port: number;
let endpoints: { address: string; port: number }[];
let opened: { destroy(): Promise<void> }[];

beforeEach(async () => {
  came = [];
  first = 'answer';
  opened = [];
  server = createServer((request, response) => {
    const what = `${request.headers['x-user']} ${request.url}`;
    const isFirst = !came.includes(what);
    came.push(what);
    if (!isFirst || first === 'answer') response.end();
    else if (first === 'reset') request.socket.destroy();
    else if (first === 'refuse') response.writeHead(503).end();
  });
  server.listen(0, '0.0.0.0');
  await once(server, 'listening');
  ({ port } = server.address() as AddressInfo);
  endpoints = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, port }));
});
afterEach(async () => {
  for (const dispatcher of opened) await dispatcher.destroy();
  server.closeAllConnections();
  server.close();
});

const keep = <T extends { destroy(): Promise<void> }>(dispatcher: T): T => {
  opened.push(dispatcher);
  return dispatcher;
};

interface Reused {
  readonly headers: unknown;
  /** The same object, for another user. */
  change(): void;
}

const object = (): Reused => {
  const headers: Record<string, string> = { 'x-user': 'carol' };
  return { headers, change: () => Object.assign(headers, { 'x-user': 'bob' }) };
};

/** All the forms undici takes headers in. */
const forms: readonly (readonly [string, () => Reused])[] = [
  ['an object', object],
  [
    'an object with a list',
    () => {
      const values = ['carol'];
      return { headers: { 'x-user': values }, change: () => values.splice(0, 1, 'bob') };
    },
  ],
  [
    'a list of names and values',
    () => {
      const headers = ['x-user', 'carol'];
      return { headers, change: () => headers.splice(1, 1, 'bob') };
    },
  ],
  [
    'Headers',
    () => {
      const headers = new Headers({ 'x-user': 'carol' });
      return { headers, change: () => headers.set('x-user', 'bob') };
    },
  ],
  [
    'a Map',
    () => {
      const headers = new Map([['x-user', 'carol']]);
      return { headers, change: () => headers.set('x-user', 'bob') };
    },
  ],
  [
    'a Set of pairs',
    () => {
      const pair = ['x-user', 'carol'];
      return { headers: new Set([pair]), change: () => pair.splice(1, 1, 'bob') };
    },
  ],
  [
    'pairs that are made as they are asked for',
    () => {
      const pair = ['x-user', 'carol'];
      const headers = {
        *[Symbol.iterator]() {
          yield pair;
        },
      };
      return { headers, change: () => pair.splice(1, 1, 'bob') };
    },
  ],
  [
    'an object with a prototype',
    () => {
      class Mine {
        'x-user' = 'carol';
      }
      const headers = new Mine();
      return { headers, change: () => Object.assign(headers, { 'x-user': 'bob' }) };
    },
  ],
];

/** Two requests with one options object, changed once the first has been given to `dispatch`. */
async function ask(
  dispatcher: Pick<Dispatcher, 'request'>,
  { headers, change }: Reused,
  meanwhile: () => unknown = () => {},
): Promise<void> {
  const query = { of: ['carol'] };
  const options = { origin: new URL(origin), method: 'GET', path: '/1', headers, query };
  const one = dispatcher.request(options as never);
  change();
  query.of[0] = 'bob';
  options.path = '/2';
  const two = dispatcher.request(options as never);
  // Whatever it is used for after that.
  options.origin.host = 'elsewhere.example.com';
  options.path = '/3';
  options.method = 'DELETE';
  query.of.push('nobody');
  await meanwhile();
  for (const { body } of await Promise.all([one, two])) await body.dump();
}

async function balanced(options: DispatcherOptions = {}): Promise<ServiceDispatcher> {
  const dispatcher = keep(
    createDispatcher(origin, { resolver: staticEndpoints(endpoints), stages: exactStages([]), ...options }),
  );
  await connected(dispatcher.balancer, endpoints.length);
  return dispatcher;
}

const each = ['bob /2?of=bob', 'carol /1?of=carol'];
const arrived = (): string[] => came.toSorted();

describe.each(forms)('headers and options that the caller reuses, %s', (_form, headers) => {
  it('may change while the request waits for a pod', async () => {
    const resolver = new FakeResolver();
    const dispatcher = keep(createDispatcher(origin, { resolver, stages: exactStages([]) }));
    await ask(dispatcher, headers(), () => resolver.update(...endpoints));
    expect(arrived()).toEqual(each);
  });

  it('may change while it waits for a free connection', async () => {
    endpoints = endpoints.slice(1);
    await ask(await balanced({ connections: 1 }), headers());
    expect(arrived()).toEqual(each);
  });

  it('may change before it is sent again because its connection died', async () => {
    first = 'reset';
    await ask(await balanced(), headers());
    expect(arrived()).toEqual([...each, ...each].toSorted());
  });

  it('may change before it is sent again because of its response', async () => {
    first = 'refuse';
    await ask(await balanced({ retry: { statuses: [503] } }), headers());
    expect(arrived()).toEqual([...each, ...each].toSorted());
  });

  it('may change before a hedge is sent', async () => {
    first = 'hang';
    await ask(await balanced({ hedge: { afterMs: 1 } }), headers());
    expect(arrived()).toEqual([...each, ...each].toSorted());
  });

  it.each(['agent', 'interceptor'] as const)('may change while an %s waits for DNS', async (kind) => {
    const dns = new FakeDnsClient();
    dns.answers['A orders.shop.svc.cluster.local.'] = ['10.0.0.1'];
    const shared = {
      discovery: { dns: { client: () => dns, clusterDomain: 'cluster.local' } },
      options: () => ({ resolver: staticEndpoints(endpoints), stages: exactStages([]) }),
    };
    const dispatcher =
      kind === 'agent' ? keep(createAppAgent(shared)) : keep(new Agent().compose(keep(appInterceptor(shared))));
    await ask(dispatcher, headers());
    expect(dns.asked).toContain('A orders.shop.svc.cluster.local.');
    expect(arrived()).toEqual(each);
  });
});

it('options inherited from a prototype are read as undici reads them', async () => {
  class Request {
    readonly method = 'GET';
    readonly path = '/1';
    get headers(): Record<string, string> {
      return { 'x-user': 'carol' };
    }
  }
  const dispatcher = await balanced();
  for (const options of [new Request(), Object.create(new Request())]) {
    await (await dispatcher.request(options as never)).body.dump();
  }
  expect(came).toEqual(['carol /1', 'carol /1']);
});

it('headers that cannot be iterated over fail their request, and its handler gets the error', async () => {
  const dispatcher = await balanced();
  const broken = new Error('no more headers');
  const headers = {
    [Symbol.iterator]: () => {
      throw broken;
    },
  };
  await expect(dispatcher.request({ path: '/', method: 'GET', headers } as never)).rejects.toBe(broken);
  await expect(
    dispatcher.request({ path: '/', method: 'GET', headers: new Set(['x-user']) } as never),
  ).rejects.toMatchObject({ code: 'UND_ERR_INVALID_ARG' });
  await until('nothing runs', () => dispatcher.balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0));
});
