import { Agent, type ClientRequest, type IncomingMessage } from 'node:http';
import * as https from 'node:https';
import { Socket } from 'node:net';
import axios from 'axios';
import { staticEndpoints } from 'evenkeel';
import { type AgentOptions, createAgent, type HttpServiceAgent } from 'evenkeel/node-http';
import got from 'got';
import fetch from 'node-fetch';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { Pod, Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { codeOf, Opened, send } from './support/request.js';

const origin = 'http://orders.shop:8080';
const authorization = 'Bearer only-for-orders';
const opened = new Opened();

describe('a request for another origin', () => {
  let pods: Pods;
  /** Some other server, which must get what is meant for it; the pods must not. */
  let otherPod: Pod;
  let there: string;

  beforeAll(async () => {
    pods = await Pods.start(2);
    otherPod = await Pod.start({ name: 'other' });
    there = `http://127.0.0.1:${otherPod.port}`;
  });
  afterEach(() => opened.destroyAll());
  afterAll(async () => {
    await pods[Symbol.asyncDispose]();
    await otherPod[Symbol.asyncDispose]();
  });

  const open = (options: AgentOptions = {}): HttpServiceAgent =>
    opened.add(createAgent(origin, { resolver: staticEndpoints(pods.endpoints), ...options }));

  it('goes there and to no pod, over an Agent that is closed together with ours', async () => {
    const agent = open();
    const before = await pods.total('requests');
    const { body } = await send(agent, `${there}/`, { headers: { authorization } });
    expect(JSON.parse(body)).toMatchObject({ pod: 'other', host: `127.0.0.1:${otherPod.port}` });
    expect(await pods.total('requests')).toBe(before);
    await agent.close();
    await until('nothing is open there', async () => (await otherPod.stats()).open === 0);
  });

  it('may finish when the agent closes', async () => {
    const agent = open();
    const arrived = (await otherPod.stats()).requests;
    const answer = send(agent, `${there}/bytes/5000000`);
    await until('it has arrived', async () => (await otherPod.stats()).requests > arrived);
    await agent.close();
    expect((await answer).body).toHaveLength(5_000_000);
    expect(await codeOf(send(agent, `${there}/`))).toBe('EVENKEEL_CLOSED');
  });

  const clients: Record<string, (agent: HttpServiceAgent) => Promise<unknown>> = {
    axios: async (httpAgent) =>
      (await axios.get(`${origin}/redirect?to=${there}/there`, { httpAgent, proxy: false, headers: { authorization } }))
        .data,
    got: (http) =>
      got(`${origin}/redirect?to=${there}/there`, {
        agent: { http },
        headers: { authorization },
      }).json() as Promise<unknown>,
    'node-fetch': async (agent) =>
      (await fetch(`${origin}/redirect?to=${there}/there`, { agent, headers: { authorization } })).json(),
  };
  it.each(Object.entries(clients))(
    'that %s makes to follow a redirect leaves the pods, without the credentials',
    async (_n, go) => {
      const agent = open();
      const before = await pods.total('requests');
      const authorized = (await otherPod.stats()).authorized;
      expect(await go(agent)).toMatchObject({ pod: 'other', url: '/there' });
      expect(await pods.total('requests')).toBe(before + 1);
      expect((await otherPod.stats()).authorized).toBe(authorized);
    },
  );

  it('uses the given agent, which is not closed with ours', async () => {
    const seen: string[] = [];
    const fallbackAgent = new Agent({ keepAlive: true });
    const { addRequest } = fallbackAgent as unknown as { addRequest(...given: unknown[]): void };
    Object.assign(fallbackAgent, {
      addRequest(request: unknown, options: { host: string; port: number }) {
        seen.push(`${options.host}:${options.port}`);
        addRequest.call(fallbackAgent, request, { ...options, host: '127.0.0.1', port: otherPod.port });
      },
    });
    const agent = open({ fallbackAgent });
    const before = await pods.total('requests');
    const names = ['orders.shop.example.com:8080', 'orders.other:8080', 'orders.shop.svc.example.com:8080'];
    for (const name of [...names, 'orders.shop:9999']) {
      const { headers } = await send(agent, `http://${name}/`, { headers: { authorization } });
      expect(headers['x-pod']).toBe('other');
    }
    expect(seen).toEqual([...names, 'orders.shop:9999']);
    expect(await pods.total('requests')).toBe(before);
    await agent.close();
    expect(Object.keys(fallbackAgent.freeSockets)).toHaveLength(1);
    fallbackAgent.destroy();
  });

  it("to a Unix socket, or with a proxy's absolute path, reaches no pod either", async () => {
    const agent = open();
    const before = await pods.total('requests');
    expect(await codeOf(send(agent, `${origin}/`, { socketPath: '/nowhere/at.sock' }))).toBe('ENOENT');
    const proxied = send(agent, `http://127.0.0.1:${otherPod.port}/`, { path: 'http://orders.shop:8080/x' });
    expect((await proxied).headers['x-pod']).toBe('other');
    const taken: string[] = [];
    const fallbackAgent = Object.assign(new Agent(), {
      addRequest: (outgoing: ClientRequest) => {
        taken.push(outgoing.path);
        outgoing.destroy();
        outgoing.onSocket(new Socket());
      },
    });
    expect(await codeOf(send(open({ fallbackAgent }), origin, { path: 'http://elsewhere.example/x' }))).toBe(
      'ECONNRESET',
    );
    expect(taken).toEqual(['http://elsewhere.example/x']);
    expect(await pods.total('requests')).toBe(before);
  });

  it('for any of the names of the Service reaches the pods', async () => {
    const agent = open();
    const before = await pods.total('requests');
    const names = ['orders.shop', 'ORDERS.shop', 'orders.shop.svc', 'orders.shop.svc.cluster.local', 'orders.shop.'];
    for (const name of names) {
      const { body } = await send(agent, `http://${name}:8080/x?y=1`);
      expect(JSON.parse(body)).toMatchObject({ host: `${name.toLowerCase()}:8080`, url: '/x?y=1' });
    }
    expect((await send(agent, origin, { path: `${origin}/absolute` })).status).toBe(200);
    expect((await send(agent, origin, { path: '*', method: 'OPTIONS' })).status).toBe(200);
    expect(await pods.total('requests')).toBe(before + names.length + 2);
  });

  it('an address or localhost in the target is one fixed endpoint', async () => {
    const agents = [`http://127.0.0.1:${otherPod.port}`, `http://localhost:${otherPod.port}`].map(
      (target) => [target, opened.add(createAgent(target))] as const,
    );
    for (const [target, agent] of agents) expect((await send(agent, target)).headers['x-pod']).toBe('other');
  });
});

describe('over TLS', () => {
  const secure = 'https://orders.shop:8443';
  const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
  // The certificate names the Service. No pod's address is in it: it must be checked against the name, not the address.
  const certificate = createCertificate({
    commonName: 'orders',
    hosts: ['orders.shop', 'orders.shop.svc.cluster.local'],
    issuer: authority,
  });
  const tls = { ca: authority.cert };
  let pods: Pods;

  beforeAll(async () => {
    pods = await Pods.start(2, { tls: certificate });
  });
  afterEach(async () => {
    await opened.destroyAll();
    await until('every connection of the pods is closed', async () => (await pods.total('open')) === 0);
  });
  afterAll(() => pods[Symbol.asyncDispose]());

  const open = (target: string, options: AgentOptions = {}): HttpServiceAgent =>
    opened.add(createAgent(target, { resolver: staticEndpoints(pods.endpoints), ...options }));

  it('sends and checks the name of the Service while it dials the pods', async () => {
    const agent = open(secure, { tls }) as HttpServiceAgent & https.Agent;
    for (const name of ['orders.shop', 'orders.shop.svc.cluster.local']) {
      const { body } = await send(agent, `https://${name}:8443/`);
      expect(JSON.parse(body)).toMatchObject({ host: `${name}:8443` });
    }
    const { data } = await axios.get(`${secure}/`, { httpsAgent: agent, proxy: false });
    expect(data).toMatchObject({ host: 'orders.shop:8443' });
    expect(await got(`${secure}/`, { agent: { https: agent } }).json()).toMatchObject({ host: 'orders.shop:8443' });
    for (const { servernames } of await pods.stats()) expect(Object.keys(servernames)).toEqual(['orders.shop']);
  });

  it('keeps its connections whatever Host header callers set', async () => {
    const agent = open(secure, { tls, connections: 1 });
    const before = await pods.total('connections');
    for (const host of ['a.example.com', 'b.example.com', 'a.example.com', 'orders.shop']) {
      await send(agent, `${secure}/`, { headers: { host } });
    }
    expect((await pods.total('connections')) - before).toBe(2);
  });

  /** How long a handshake takes is not what is tested. */
  const refused = ({ balancer }: Pick<HttpServiceAgent, 'balancer'>): Promise<void> =>
    until('a pod was refused', () => balancer.snapshot().endpoints.some(({ lastError }) => lastError !== undefined));

  it('refuses pods with a certificate for another Service, or from an unknown authority', async () => {
    const before = await pods.total('requests');
    const billing = open('https://billing.shop:8443', { tls, waitTimeoutMs: 300 });
    await refused(billing);
    await expect(send(billing, 'https://billing.shop:8443/')).rejects.toMatchObject({
      code: 'EVENKEEL_CONNECT',
      message: expect.stringContaining('billing.shop'),
    });
    const unknown = open(secure, { waitTimeoutMs: 300 });
    await refused(unknown);
    await expect(send(unknown, `${secure}/`)).rejects.toMatchObject({ message: expect.stringContaining('verify') });
    expect(await pods.total('requests')).toBe(before);
  });

  it('ignores TLS options of a single request that would turn checks off', async () => {
    const agent = open(secure, { waitTimeoutMs: 300 });
    const options = { rejectUnauthorized: false, servername: 'somebody.else' } as object;
    expect(await codeOf(send(agent, `${secure}/`, options))).toBe('EVENKEEL_CONNECT');
  });

  it('upgrades connections', async () => {
    const agent = open(secure, { tls });
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      https
        .get(`${secure}/`, { agent, headers: { connection: 'upgrade', upgrade: 'echo' } })
        .on('upgrade', (answer, socket) => {
          socket.destroy();
          resolve(answer);
        })
        .on('error', reject);
    });
    expect(response.statusCode).toBe(101);
  });
});
