import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { constants, deflateRawSync } from 'node:zlib';
import { staticEndpoints } from 'evenkeel';
import { createAppAgent, createDispatcher } from 'evenkeel/undici';
import * as undici from 'undici';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { titleOf } from '../../support/title-of.js';

const MiB = 1024 * 1024;
/** More than undici takes if nothing is said: 128 MiB. */
const TOO_LONG = 129 * MiB;
const service = 'ws://orders.shop:8080';
/** Before 7.28 and 8.1 undici's WebSocket has no limits at all. */
const hasLimits = 'webSocketOptions' in undici.Agent.prototype;
/** undici 8.2 has one limit, on size. */
const countsFragments =
  'maxFragments' in ((new undici.Agent() as { webSocketOptions?: object }).webSocketOptions ?? {});

/** Such a message, as one frame (RFC 6455, RFC 7692): binary, final and compressed. Made once, for it takes a while. */
const tooLong = ((): Buffer => {
  const zeros = deflateRawSync(Buffer.alloc(TOO_LONG), { level: 1, finishFlush: constants.Z_SYNC_FLUSH }).subarray(
    0,
    -4,
  );
  const head = Buffer.from([0xc2, 127, 0, 0, 0, 0, 0, 0, 0, 0]);
  head.writeBigUInt64BE(BigInt(zeros.length), 2);
  return Buffer.concat([head, zeros]);
})();

/** Sends as many zeros as the path says, in one compressed message of so many fragments. */
let server: WebSocketServer;
let port: number;

beforeAll(async () => {
  server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: { zlibDeflateOptions: { level: 1 } } });
  server.on('connection', (socket, request) => {
    socket.on('error', () => {});
    const { searchParams } = new URL(request.url ?? '', service);
    if (Number(searchParams.get('bytes')) === TOO_LONG) {
      request.socket.write(tooLong);
      return;
    }
    const bytes = Buffer.alloc(Number(searchParams.get('bytes')));
    const fragments = Number(searchParams.get('fragments') ?? 1);
    const length = Math.ceil(bytes.length / fragments);
    for (let index = 0; index < fragments; index++) {
      socket.send(bytes.subarray(index * length, (index + 1) * length), {
        fin: index === fragments - 1,
        compress: true,
      });
    }
  });
  await once(server, 'listening');
  ({ port } = server.address() as AddressInfo);
});
afterAll(() => {
  for (const client of server.clients) client.terminate();
  server.close();
});

const outside = (): string => `ws://127.0.0.1:${port}`;
const resolver = () => staticEndpoints([{ address: '127.0.0.1', port }]);
let opened: undici.Dispatcher[] = [];
const keep = <T extends undici.Dispatcher>(dispatcher: T): T => {
  opened.push(dispatcher);
  return dispatcher;
};
afterEach(async () => {
  for (const dispatcher of opened) await dispatcher.destroy();
  opened = [];
});

/** The length of the message that comes, or the code with which the connection is closed instead. */
async function received(socket: undici.WebSocket | WebSocket): Promise<number | string> {
  socket.binaryType = 'arraybuffer';
  return new Promise((resolve) => {
    socket.addEventListener('message', (({ data }: { data: ArrayBuffer }) => {
      resolve(data.byteLength);
      socket.close();
    }) as never);
    socket.addEventListener('close', (({ code }: { code: number }) => resolve(`closed ${code}`)) as never);
  });
}

const ask = (dispatcher: undici.Dispatcher, url: string): Promise<number | string> =>
  received(new undici.WebSocket(url, { dispatcher }));

const agentOf = (more: Parameters<typeof createAppAgent>[0] = {}) =>
  keep(createAppAgent({ services: ['orders.shop'], options: () => ({ resolver: resolver() }), ...more }));

describe.skipIf(!hasLimits)(
  titleOf('a WebSocket that receives more than it may', hasLimits, 'it needs an undici that has limits'),
  () => {
    it('is closed by an Agent of undici', async () => {
      expect(await ask(keep(new undici.Agent()), `${outside()}/?bytes=${TOO_LONG}`)).toBe('closed 1006');
    });

    const dispatchers = {
      createDispatcher: () => keep(createDispatcher('http://orders.shop:8080', { resolver: resolver() })),
      createAppAgent: () => agentOf(),
      'what compose makes of an agent': () => keep(agentOf().compose(undici.interceptors.dump())),
    };

    it.each(Object.entries(dispatchers))('is closed by ours, too: %s', async (_name, make) => {
      const dispatcher = make();
      for (const url of [service, outside()]) {
        expect(await ask(dispatcher, `${url}/?bytes=1000`)).toBe(1_000);
        expect(await ask(dispatcher, `${url}/?bytes=${TOO_LONG}`)).toBe('closed 1006');
      }
    });

    it('may receive what the options allow', async () => {
      const webSocket = { maxPayloadSize: MiB, maxFragments: 3 };
      const dispatchers = [
        keep(createDispatcher('http://orders.shop:8080', { resolver: resolver(), webSocket })),
        agentOf({ webSocket }),
        agentOf({ options: () => ({ resolver: resolver(), webSocket }) }),
      ];
      for (const dispatcher of dispatchers) {
        expect(await ask(dispatcher, `${service}/?bytes=${MiB}`)).toBe(MiB);
        expect(await ask(dispatcher, `${service}/?bytes=${MiB + 1}`)).toBe('closed 1006');
        expect(await ask(dispatcher, `${service}/?bytes=300&fragments=3`)).toBe(300);
        expect(await ask(dispatcher, `${service}/?bytes=500&fragments=5`)).toBe(countsFragments ? 'closed 1006' : 500);
      }
    });

    it('to another host may receive what `fallbackDispatcher` allows, at the same time as one to a Service', async () => {
      const few = { maxPayloadSize: 1_000 };
      const many = { maxPayloadSize: 3 * MiB };
      for (const [here, there] of [
        [few, many],
        [many, few],
      ] as const) {
        const fallbackDispatcher = keep(new undici.Agent({ webSocket: there } as never));
        const dispatchers = [
          keep(
            createDispatcher('http://orders.shop:8080', { resolver: resolver(), fallbackDispatcher, webSocket: here }),
          ),
          agentOf({ fallbackDispatcher, webSocket: here }),
          agentOf({ fallbackDispatcher, options: () => ({ resolver: resolver(), webSocket: here }) }),
        ];
        const expected = (limits: typeof few): unknown => (limits === few ? 'closed 1006' : 2 * MiB);
        for (const dispatcher of dispatchers) {
          expect(await ask(dispatcher, `${service}/?bytes=${2 * MiB}`)).toBe(expected(here));
          expect(await ask(dispatcher, `${outside()}/?bytes=${2 * MiB}`)).toBe(expected(there));
          // Of both at once, neither takes more than it may.
          const both = await Promise.all(
            [service, outside()].map((url) => ask(dispatcher, `${url}/?bytes=${4 * MiB}`)),
          );
          expect(both).toEqual(['closed 1006', 'closed 1006']);
        }
      }
    });
  },
);

describe.skipIf(globalThis.WebSocket === undefined)(
  titleOf('the global WebSocket', globalThis.WebSocket !== undefined, 'it needs Node 22'),
  () => {
    const before = undici.getGlobalDispatcher();
    afterEach(() => undici.setGlobalDispatcher(before));

    it.each(['Service', 'other host'])(
      'to a %s accepts no more over our agent than over undici’s own',
      async (kind) => {
        undici.setGlobalDispatcher(keep(new undici.Agent()));
        const stock = await received(new WebSocket(`${outside()}/?bytes=${TOO_LONG}`));
        undici.setGlobalDispatcher(agentOf());
        expect(await received(new WebSocket(`${kind === 'Service' ? service : outside()}/?bytes=${TOO_LONG}`))).toBe(
          stock,
        );
      },
    );
  },
);
