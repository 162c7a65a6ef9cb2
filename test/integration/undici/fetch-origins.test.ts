import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { staticEndpoints } from 'evenkeel';
import { createFetch, type ServiceFetch } from 'evenkeel/undici';
import { Agent } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const headers = { authorization: 'Bearer only-for-orders', cookie: 'session=1' };

interface Heard {
  readonly path: string | undefined;
  readonly headers: IncomingHttpHeaders;
}

/** A server in this process that answers with its name. */
async function serve(name: string, heard: Heard[]): Promise<Server> {
  const server = createServer((request, response) => {
    heard.push({ path: request.url, headers: request.headers });
    const to = new URL(request.url as string, 'http://here').searchParams.get('to');
    if (to !== null) response.writeHead(307, { location: to });
    response.end(name);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

describe('createFetch', () => {
  let pod: Server;
  let other: Server;
  let atPod: Heard[];
  let atOther: Heard[];
  let orders: ServiceFetch;
  let fallbackDispatcher: Agent | undefined;

  const open = (options: { fallbackDispatcher?: Agent } = {}): void => {
    const resolver = staticEndpoints([{ address: '127.0.0.1', port: portOf(pod) }]);
    orders = createFetch('http://orders.shop:8080', { resolver, clusterDomain: 'cluster.local', ...options });
  };

  beforeEach(async () => {
    atPod = [];
    atOther = [];
    pod = await serve('pod', atPod);
    other = await serve('other', atOther);
  });
  afterEach(async () => {
    await orders.close();
    await fallbackDispatcher?.close();
    fallbackDispatcher = undefined;
    for (const server of [pod, other]) {
      server.closeAllConnections();
      server.close();
    }
  });

  /** How a client can write the host with this port into a path. */
  const spellings = (port: number): string[] => [
    `//127.0.0.1:${port}/x`,
    `/\\127.0.0.1:${port}/x`,
    `\\\\127.0.0.1:${port}/x`,
    `\\/127.0.0.1:${port}/x`,
    `///127.0.0.1:${port}/x`,
    `/\t/127.0.0.1:${port}/x`,
    `/\n/127.0.0.1:${port}/x`,
    `/\r\n\\127.0.0.1:${port}/x`,
    ` //127.0.0.1:${port}/x`,
    `\u0000//127.0.0.1:${port}/x`,
    `//orders.shop:8080@127.0.0.1:${port}/x`,
    `//orders.shop%3A8080@127.0.0.1:${port}/x`,
    `//ｌｏｃａｌｈｏｓｔ:${port}/x`,
    `//①②⑦.0.0.1:${port}/x`,
    `//0x7f.1:${port}/x`,
    `//orders.shop:${port}/x`,
    `http://127.0.0.1:${port}/x`,
    `HtTp://127.0.0.1:${port}/x`,
    `hTT\tp:/\n/127.0.0.1:${port}/x`,
    `http:\\\\127.0.0.1:${port}/x`,
    ` http://127.0.0.1:${port}/x`,
    `https://orders.shop:8080/x`,
    `http://orders.shop:8080@127.0.0.1:${port}/x`,
  ];

  it('refuses a string that is a URL of another origin, however it is spelled, and sends nothing', async () => {
    open();
    const results: Record<string, unknown> = {};
    for (const text of spellings(portOf(other))) {
      results[text] = await orders(text, { headers }).then(
        (response) => `it answered ${response.status}`,
        (error: { code?: unknown }) => error.code,
      );
    }
    const codes = spellings(portOf(other)).map((text) => [text, 'UND_ERR_INVALID_ARG']);
    expect(results).toEqual(Object.fromEntries(codes));
    expect([atOther, atPod]).toEqual([[], []]);
  });

  it('refuses such a URL as an object or a Request, and reads an object with changing text once', async () => {
    open();
    const url = `http://127.0.0.1:${portOf(other)}/x`;
    let asked = 0;
    const changing = { toString: () => (asked++ === 0 ? 'http://orders.shop:8080/changing' : url) };
    for (const input of [new URL(url), new Request(url)]) {
      await expect(orders(input, { headers })).rejects.toMatchObject({ code: 'UND_ERR_INVALID_ARG' });
    }
    expect(await (await orders(changing as never, { headers })).text()).toBe('pod');
    expect(atPod.map(({ path }) => path)).toEqual(['/changing']);
    expect(atOther).toEqual([]);
  });

  it('accepts every spelling of its own Service', async () => {
    open();
    const own = 'http://orders.shop:8080/x';
    const inputs = ['/x', 'x', '', '?a=//b', '/x//127.0.0.1', '/\t/orders.shop:8080/x', '//orders.shop:8080/x', own];
    const names = ['HTTP://ORDERS.shop:8080/x', 'http:x', 'http://orders.shop.svc.cluster.local:8080/x'];
    for (const input of [...inputs, ...names, new URL(own), new Request(own)]) {
      expect(await (await orders(input, { headers })).text()).toBe('pod');
    }
    expect(atPod).toHaveLength(13);
    expect(new Set(atPod.map(({ headers: { authorization } }) => authorization))).toEqual(
      new Set([headers.authorization]),
    );
  });

  it('follows a redirect of the Service to another origin, without credentials', async () => {
    open();
    const to = `http://127.0.0.1:${portOf(other)}/there`;
    expect(await (await orders(`/x?to=${to}`, { headers })).text()).toBe('other');
    expect(atOther.map(({ path }) => path)).toEqual(['/there']);
    expect(atOther[0]?.headers).not.toHaveProperty('authorization');
    expect(atOther[0]?.headers).not.toHaveProperty('cookie');
  });

  it('with a fallbackDispatcher sends URLs with a scheme there, and still refuses the others', async () => {
    fallbackDispatcher = new Agent();
    open({ fallbackDispatcher });
    const port = portOf(other);
    for (const input of [`http://127.0.0.1:${port}/x`, new URL(`http://127.0.0.1:${port}/x`)]) {
      expect(await (await orders(input)).text()).toBe('other');
    }
    for (const input of [`//127.0.0.1:${port}/x`, `/\\127.0.0.1:${port}/x`, `/\t/127.0.0.1:${port}/x`]) {
      await expect(orders(input, { headers })).rejects.toMatchObject({ code: 'UND_ERR_INVALID_ARG' });
    }
    expect(atOther).toHaveLength(2);
  });

  it('leaves URLs that are invalid, or not HTTP, to fetch', async () => {
    open();
    expect(await (await orders('data:,hello')).text()).toBe('hello');
    for (const input of ['http://', Symbol('x'), { url: '/x' }]) {
      await expect(orders(input as never)).rejects.toBeInstanceOf(TypeError);
    }
    expect(atPod).toEqual([]);
  });
});
