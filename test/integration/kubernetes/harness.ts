import {
  type Balancer,
  conditions,
  createBalancer,
  type Observer,
  type ObserverEvents,
  type Resolution,
  type Resolver,
  type StageFactory,
  topologyHints,
} from 'evenkeel';
import { type EndpointSlicesOptions, endpointSlices } from 'evenkeel/kubernetes';
import { FakeClock, type FakeConnection, FakeTransport, seededRng, settle } from 'evenkeel/testing';
import { afterEach } from 'vitest';
import { type ApiServer, type ApiServerOptions, createApiServer } from '../../servers/index.js';
import { RecordingListener } from '../../support/fixtures/recording-listener.js';
import { freePort } from '../../support/programs/free-port.js';
import { until } from '../../support/until.js';

const cleanups: (() => Promise<void> | void)[] = [];

/** Ends what a test began, last things first. */
export function cleanUpAfterEach(): void {
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });
}

export function atEnd(cleanup: () => Promise<void> | void): void {
  cleanups.push(cleanup);
}

export async function openApi(options: ApiServerOptions = {}): Promise<ApiServer> {
  // Some tests stop it for a while.
  const api = await createApiServer({ rng: seededRng(3), port: await freePort(), ...options });
  atEnd(() => api.close());
  return api;
}

/**
 * Real turns, so that sockets are heard between two steps of virtual time: as many as a connection, a question and its
 * answer need, also where the machine lets this process have only one in a millisecond.
 */
async function turns(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 1));
  for (let turn = 0; turn < 8; turn++) await new Promise((resolve) => setImmediate(resolve));
}

type WatchedOptions = Partial<EndpointSlicesOptions> & { readonly make?: (options: EndpointSlicesOptions) => Resolver };

/** A resolver over sockets, watched with a clock that the test steers. */
export class WatchedService {
  readonly api: ApiServer;
  readonly clock: FakeClock;
  readonly listener: RecordingListener = new RecordingListener();
  readonly warnings: ObserverEvents['warned'][] = [];
  readonly resolution: Resolution;

  constructor(
    api: ApiServer,
    { make = endpointSlices, ...options }: WatchedOptions = {},
    clock: FakeClock = new FakeClock(),
    seed = 5,
  ) {
    this.api = api;
    this.clock = clock;
    const observer: Observer = { warned: (event) => this.warnings.push(event) };
    // What these tests count are lists; streaming-lists.test.ts has the others.
    const resolver = make({
      namespace: 'shop',
      service: 'orders',
      apiServer: api.url,
      streamingLists: false,
      ...options,
    });
    this.resolution = resolver.watch(this.listener, { clock, rng: seededRng(seed), observer });
    atEnd(() => this.resolution.close());
  }

  /** Waits, in real time, until the last set has these `address:port`. */
  async sees(text: string): Promise<void> {
    await until(`the set is "${text}", it was "${this.addresses}"`, () => this.addresses === text);
  }

  get addresses(): string | undefined {
    return this.listener.endpoints?.map(({ address, port }) => `${address}:${port}`).join(' ');
  }

  /** Waits until so many watches were asked for, and one is open. */
  async watching(count: number): Promise<void> {
    await until(
      `${count} watches were asked for`,
      () => this.api.counts.watches >= count && this.api.counts.openWatches > 0,
    );
  }

  /**
   * Lets virtual time pass in small steps with real turns between them: what the server has sent is heard before a
   * watchdog could think that it was silent.
   */
  async elapse(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 500) {
      await this.clock.advanceAsync(Math.min(500, ms - passed));
      await turns();
    }
  }

  /**
   * Lets time pass until a state that needs network answers in between is reached. Returns how long it took, in virtual
   * time.
   */
  async pass(what: string, condition: () => boolean, stepMs = 100, limitMs = 120_000): Promise<number> {
    const startMs = this.clock.now();
    const realEndMs = performance.now() + 60_000;
    while (!condition()) {
      if (this.clock.now() - startMs > limitMs) throw new Error(`not within ${limitMs} ms of virtual time: ${what}`);
      if (performance.now() > realEndMs) throw new Error(`not within 60 s of real time: ${what}`);
      await this.clock.advanceAsync(stepMs);
      await turns();
    }
    return this.clock.now() - startMs;
  }
}

/**
 * Says when a client has applied everything written so far: another resolver on the same watch sees a slice of its own.
 * It uses another port name, so nobody else does.
 */
export class Probe {
  readonly #api: ApiServer;
  readonly #watched: WatchedService;
  #round = 0;
  readonly #service: string;

  constructor(api: ApiServer, clock: FakeClock, service = 'orders') {
    this.#api = api;
    this.#service = service;
    this.#write();
    this.#watched = new WatchedService(api, { port: 'probe', family: 'IPv4', service }, clock);
  }

  /** Once, before the first `inStep`. Lets a little time pass. */
  async start(): Promise<void> {
    await this.#watched.pass('the probe saw its slice', () => this.#watched.listener.endpoints?.length === 15, 60);
  }

  async inStep(): Promise<void> {
    this.#round += 1;
    this.#write();
    // One more endpoint that stops being ready: such news is never held back.
    await until('the probe saw the change', () => {
      const unready = this.#watched.listener.endpoints?.filter(({ conditions }) => !conditions.ready).length ?? 0;
      return unready === this.#round;
    });
    await settle();
  }

  #write(): void {
    this.#api.slices.put({
      metadata: { name: 'zz-probe', namespace: 'shop', labels: { 'kubernetes.io/service-name': this.#service } },
      addressType: 'IPv4',
      endpoints: Array.from({ length: 15 }, (_, index) => ({
        addresses: [`10.255.0.${index + 1}`],
        conditions: { ready: index >= this.#round },
      })),
      ports: [{ name: 'probe', port: 1 }],
    });
  }
}

/** The whole watching: API server, resolver, stages and pool, with connections that are only pretended. */
export class WatchingBalancer {
  readonly api: ApiServer;
  readonly clock: FakeClock = new FakeClock();
  readonly transport: FakeTransport = new FakeTransport();
  readonly balancer: Balancer<FakeConnection>;
  readonly resolveFailures: ObserverEvents['resolveFailed'][] = [];
  published = 0;

  constructor(
    api: ApiServer,
    options: Partial<EndpointSlicesOptions> = {},
    topology?: { readonly zone?: string | undefined; readonly nodeName?: string | undefined },
  ) {
    this.api = api;
    const stages: StageFactory[] = [conditions()];
    if (topology !== undefined) stages.push(topologyHints(topology));
    this.balancer = createBalancer({
      resolver: endpointSlices({ namespace: 'shop', service: 'orders', port: 'http', apiServer: api.url, ...options }),
      transport: this.transport,
      stages,
      clock: this.clock,
      rng: seededRng(9),
      observer: {
        resolved: () => {
          this.published += 1;
        },
        resolveFailed: (event) => this.resolveFailures.push(event),
      },
    });
    atEnd(() => this.balancer.close());
  }

  /** The usable set, as `address:port` or `address:port#uid`. */
  get set(): string {
    return this.#keys((state) => state !== 'draining' && state !== 'closed');
  }

  get draining(): string {
    return this.#keys((state) => state === 'draining');
  }

  #keys(select: (state: string) => boolean): string {
    const { endpoints } = this.balancer.snapshot();
    return endpoints
      .filter((endpoint) => select(endpoint.state))
      .map((endpoint) => endpoint.key)
      .sort()
      .join(' ');
  }
}
