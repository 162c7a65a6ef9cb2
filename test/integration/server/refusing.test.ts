import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { inFlight, type Observer, roundRobin, staticEndpoints } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { createDispatcher, createFetch, type ServiceDispatcher } from 'evenkeel/undici';
import { describe, expect, it } from 'vitest';
import { addressMark, busyMark, refusingMark } from '../../../src/propagation/not-begun.js';
import { calledAfterEach } from '../../support/opened.js';
import { until } from '../../support/until.js';

const origin = 'http://orders.shop:8080';
const OFFER = 'evenkeel-may-refuse';
const program = fileURLToPath(new URL('support/busy-pod.mjs', import.meta.url));

const closing = calledAfterEach();

interface State {
  readonly inFlight: number;
  /** The requests that were answered at once since the last look. */
  readonly served: readonly { readonly method: string; readonly offer: string | undefined }[];
}

class BusyPod {
  readonly endpoint: { readonly address: string; readonly port: number };
  readonly #process: ChildProcess;

  constructor(child: ChildProcess, port: number) {
    this.#process = child;
    this.endpoint = { address: '127.0.0.1', port };
  }

  static async start(mode = 'refuses'): Promise<BusyPod> {
    const child = fork(program, [mode]);
    const [{ port }] = (await once(child, 'message')) as [{ port: number }];
    const pod = new BusyPod(child, port);
    closing.push(async () => {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    });
    return pod;
  }

  async ask(message: 'state' | 'served' | 'rest'): Promise<State> {
    const answer = once(this.#process, 'message');
    this.#process.send(message);
    return (await answer)[0] as State;
  }

  /** Others send it requests that last until it rests. */
  async hold(path: '/work' | '/wait', requests: number): Promise<void> {
    const before = (await this.ask('state')).inFlight;
    for (let number = 0; number < requests; number++) {
      get({ host: '127.0.0.1', port: this.endpoint.port, path, agent: false }, (response) => response.resume()).on(
        'error',
        () => {},
      );
    }
    await until('they run', async () => (await this.ask('state')).inFlight >= before + requests);
  }

  /** Requests queue here, and it has noticed. */
  async beBusy(requests: number): Promise<void> {
    await this.hold('/work', requests);
    await until('it refuses', async () => (await this.offered('2, 0.0')).statusCode === 503);
    await this.ask('served');
  }

  /** What a caller with another pod gets: the status and the headers. */
  async offered(offer: string): Promise<IncomingMessage> {
    const { port } = this.endpoint;
    const headers = { [OFFER]: offer, 'endpoint-load-metrics-format': 'TEXT' };
    const [response] = (await once(request({ host: '127.0.0.1', port, agent: false, headers }).end(), 'response')) as [
      IncomingMessage,
    ];
    response.resume();
    return response;
  }
}

describe('a pod that may refuse', () => {
  it('refuses requests that may go elsewhere while others queue here: at once, with its identity, without Retry-After', async () => {
    const pod = await BusyPod.start();
    expect((await pod.offered('2, 0.0')).statusCode).toBe(200);
    await pod.beBusy(3);
    const { statusCode, headers } = await pod.offered('2, 0.0');
    expect([statusCode, headers['evenkeel-not-begun'], headers['retry-after']]).toEqual([
      503,
      expect.stringMatching(/^[0-9a-f]{16}; busy$/),
      undefined,
    ]);
    expect(headers['endpoint-load-metrics']).toContain('evenkeel_in_flight=3');
    // Those who do not say so are served.
    const { port } = pod.endpoint;
    const plain = await fetch(`http://127.0.0.1:${port}/`);
    expect([plain.status, await plain.text()]).toEqual([200, expect.stringMatching(/^\d+$/)]);
    // Its refusals are neither requests nor failures of its own.
    await pod.ask('rest');
    await until('none runs', async () => (await pod.ask('state')).inFlight === 0);
  });

  it('refuses no request while all pods are equally full', async () => {
    const pod = await BusyPod.start();
    await pod.beBusy(6);
    expect((await pod.offered('2, 6.0')).statusCode).toBe(200);
    expect((await pod.offered('2, 3.9')).statusCode).toBe(503);
  });

  it('refuses no request while its running ones wait for something else, as on the other pods', async () => {
    const pods = [await BusyPod.start(), await BusyPod.start()];
    for (const pod of pods) await pod.hold('/wait', 50);
    const refused: unknown[] = [];
    const attemptEnded: Observer['attemptEnded'] = ({ outcome }) => {
      if (outcome.kind !== 'success') refused.push(outcome);
    };
    const { send } = (clients.undici as (typeof clients)[string])(pods, { observer: { attemptEnded } });
    await times(200, send);
    const states = await Promise.all(pods.map((pod) => pod.ask('served')));
    const offers = states.flatMap(({ served }) => served).filter(({ offer }) => offer !== undefined);
    expect(offers.length).toBeGreaterThan(150);
    expect(refused).toEqual([]);
  });

  it('refuses no request by default, and ignores invalid offers', async () => {
    const never = await BusyPod.start('never');
    await never.hold('/work', 3);
    expect((await never.offered('2, 0.0')).statusCode).toBe(200);
    const pod = await BusyPod.start();
    await pod.beBusy(3);
    for (const offer of ['0, 0.0', '2', '', '-1, 0.0', '2, -1', '2, NaN', '10, 0.0']) {
      expect((await pod.offered(offer)).statusCode, offer).toBe(200);
    }
  });
});

type Send = (init?: { readonly method?: string; readonly body?: unknown }) => Promise<string>;

interface Client {
  readonly send: Send;
  readonly dispatcher: Pick<ServiceDispatcher, 'balancer'>;
}

const clients: Record<string, (pods: readonly BusyPod[], options: object) => Client> = {
  undici: (pods, options) => {
    const dispatcher = createDispatcher(origin, { ...taking(pods), ...options });
    closing.push(() => dispatcher.destroy());
    const send: Send = async ({ method = 'GET', body } = {}) =>
      (await dispatcher.request({ path: '/', method: method as 'GET', body: body as string })).body.text();
    return { send, dispatcher };
  },
  fetch: (pods, options) => {
    const own = createFetch(origin, { ...taking(pods), ...options });
    closing.push(() => own.close());
    return { send: async (init) => (await own('/', init as RequestInit)).text(), dispatcher: own };
  },
  'global fetch': (pods, options) => {
    const dispatcher = createDispatcher(origin, { ...taking(pods), ...options });
    closing.push(() => dispatcher.destroy());
    const send: Send = async (init) => (await fetch(`${origin}/`, { ...init, dispatcher } as never)).text();
    return { send, dispatcher };
  },
};

/** In turn, so that every other request goes to the busy pod first. */
const taking = (pods: readonly BusyPod[]) => ({
  resolver: staticEndpoints(pods.map(({ endpoint }) => endpoint)),
  picker: roundRobin(),
  load: inFlight(),
});

async function times(count: number, send: () => Promise<unknown>): Promise<void> {
  for (let number = 0; number < count; number++) await send();
}

describe.each(Object.entries(clients))('%s', (name, clientOf) => {
  it('sends requests that a busy pod refuses to another: no failure, no retry, nothing taken from the budget', async () => {
    const [busy, idle] = [await BusyPod.start(), await BusyPod.start()];
    const outcomes: string[] = [];
    const attemptEnded: Observer['attemptEnded'] = ({ outcome, retrying }) =>
      outcomes.push(`${outcome.kind} ${outcome.cause} ${retrying}`);
    const { send, dispatcher } = clientOf([busy, idle], { observer: { attemptEnded } });
    // It hears that both report, and may refuse.
    await times(4, send);
    await busy.beBusy(3);
    await busy.ask('served');
    await idle.ask('served');
    outcomes.length = 0;
    await times(20, send);
    expect((await busy.ask('served')).served).toEqual([]);
    const { served } = await idle.ask('served');
    expect(served).toHaveLength(20);
    // One that was refused has one refusal left.
    const refused = served.filter(({ offer }) => offer?.startsWith('1'));
    expect(refused.length).toBeGreaterThanOrEqual(9);
    await until('all ended', () => outcomes.filter((outcome) => outcome === 'success undefined false').length === 20);
    expect(outcomes.filter((outcome) => outcome === 'not-started undefined true')).toHaveLength(refused.length);
    expect(outcomes).toHaveLength(20 + refused.length);
    const { counts, endpoints } = dispatcher.balancer.snapshot();
    expect(counts.overBudget).toBe(0);
    expect(Object.values(counts.ejections).every((count) => count === 0)).toBe(true);
    expect(endpoints.map(({ failed }) => failed)).toEqual([0, 0]);
    await busy.ask('rest');
  });

  it('may have a POST refused if its body can be sent again', async () => {
    const [busy, idle] = [await BusyPod.start(), await BusyPod.start()];
    const { send } = clientOf([busy, idle], {});
    await times(4, send);
    await busy.beBusy(3);
    await busy.ask('served');
    await times(6, () => send({ method: 'POST', body: 'order' }));
    // Of the body, `fetch` itself leaves the dispatcher only an iterator: those requests are served where they come to.
    const served = name === 'global fetch' ? 3 : 0;
    expect((await busy.ask('served')).served).toEqual(Array(served).fill({ method: 'POST' }));
    await busy.ask('rest');
  });
});

describe('no refusal is offered', () => {
  it('by node:http, for requests with a key, without another pod, or to pods that do not refuse', async () => {
    const [busy, idle] = [await BusyPod.start(), await BusyPod.start()];
    const agent = createAgent(origin, taking([busy, idle]));
    closing.push(() => agent.destroy());
    await times(6, async () => {
      const [response] = (await once(get(`${origin}/`, { agent }), 'response')) as [IncomingMessage];
      response.resume();
      await once(response, 'end');
    });
    await times(6, (clients.undici as (typeof clients)[string])([busy, idle], { key: () => 'a' }).send);
    await times(6, (clients.undici as (typeof clients)[string])([busy], {}).send);
    const others = [await BusyPod.start('never'), await BusyPod.start('never')];
    await times(6, (clients.undici as (typeof clients)[string])(others, {}).send);
    for (const pod of [busy, idle, ...others]) {
      const { served } = await pod.ask('served');
      expect(served.filter(({ offer }) => offer !== undefined)).toEqual([]);
    }
  });
});

it('a request is refused by two pods at most', async () => {
  const pods = [await BusyPod.start(), await BusyPod.start(), await BusyPod.start()];
  const { send } = (clients.undici as (typeof clients)[string])(pods, {});
  await times(6, send);
  for (const pod of pods) await pod.beBusy(4);
  for (const pod of pods) await pod.ask('served');
  await send();
  const served = (await Promise.all(pods.map((pod) => pod.ask('served')))).flatMap((state) => state.served);
  expect(served).toEqual([{ method: 'GET' }]);
  for (const pod of pods) await pod.ask('rest');
});

it('pods that always refuse get a request at most three times', async () => {
  let requests = 0;
  const pods = await Promise.all(
    [0, 1].map(async () => {
      const server = createServer((incoming, response) => {
        const { localAddress = '', localPort = 0 } = incoming.socket;
        const mark = addressMark(localAddress, localPort);
        response.setHeader('evenkeel-reports', refusingMark(mark));
        if (incoming.headers['endpoint-load-metrics-format'] === undefined) {
          response.end();
          return;
        }
        requests++;
        response.setHeader('endpoint-load-metrics', 'TEXT named_metrics.evenkeel_in_flight=1');
        response.writeHead(503, { 'evenkeel-not-begun': busyMark(mark) }).end('no');
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      closing.push(() => {
        server.closeAllConnections();
        server.close();
      });
      return { address: '127.0.0.1', port: (server.address() as AddressInfo).port };
    }),
  );
  const dispatcher = createDispatcher(origin, { resolver: staticEndpoints(pods), picker: roundRobin() });
  closing.push(() => dispatcher.destroy());
  const send = async (): Promise<number> => {
    const { statusCode, body } = await dispatcher.request({ path: '/', method: 'GET' });
    await body.dump();
    return statusCode;
  };
  expect([await send(), await send()]).toEqual([200, 200]);
  expect(await send()).toBe(503);
  expect(requests).toBe(3);
});
