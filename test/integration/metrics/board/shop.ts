import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { fixed, isEvenkeelError, resolverFrom } from 'evenkeel';
import { createAdminHandler } from 'evenkeel/admin';
import { prometheusText } from 'evenkeel/metrics';
import { createDispatcher } from 'evenkeel/undici';
import { DiscoveryWorld } from '../../../support/fixtures/discovery-world.js';
import { Pod } from '../../../support/pods/pods.js';
import { until } from '../../../support/until.js';

const ORIGIN = 'http://orders.shop:8080';
const zones = ['eu-1a', 'eu-1b'];

interface Placed {
  readonly pod: Pod;
  readonly name: string;
  readonly zone: string;
  isReady: boolean;
  isLeaving: boolean;
}

/** A Service of a few pods, a client of it under steady traffic, and the client's metrics and admin page. */
export class Shop implements AsyncDisposable {
  /** Where Prometheus reads, and where the page is. */
  port = 0;
  answered = 0;
  /** Turned away because of the limit. */
  shed = 0;
  failed = 0;
  /** How calls failed. */
  readonly #errors = new Map<string, number>();
  readonly #world: DiscoveryWorld;
  readonly #orders: ReturnType<typeof createDispatcher>;
  readonly #service: ReturnType<DiscoveryWorld['api']['service']>;
  readonly #pods: Placed[] = [];
  readonly #server: Server;
  readonly #stop = new AbortController();
  #traffic: Promise<unknown> = Promise.resolve();
  #started = 0;

  private constructor(world: DiscoveryWorld) {
    this.#world = world;
    this.#service = world.api.service('shop', 'orders', {
      ports: [{ name: 'http', port: 8080, targetPort: 'http' }],
    });
    const resolver = resolverFrom('orders.shop:http', { ...world.options(), allowAddresses: ['loopback'] });
    this.#orders = createDispatcher(ORIGIN, {
      resolver,
      connections: 8,
      limit: fixed(24),
      hedge: { afterMs: 250 },
    });
    const admin = createAdminHandler({ perEndpoint: 20 });
    this.#server = createServer((request, response) => {
      if (request.url !== '/scrape') return admin(request, response);
      response.setHeader('content-type', 'text/plain; version=0.0.4');
      response.end(prometheusText({ perEndpoint: 20 }));
    });
  }

  /** @param callers How many send requests at once, now and then twice as many. */
  static async open(pods: number, callers: number): Promise<Shop> {
    const shop = new Shop(await DiscoveryWorld.create());
    await new Promise<void>((resolve) => shop.#server.listen(0, '127.0.0.1', resolve));
    shop.port = (shop.#server.address() as AddressInfo).port;
    for (let pod = 0; pod < pods; pod++) (await shop.#start()).isReady = true;
    shop.#publish();
    await until('all pods are connected', () => {
      const { endpoints } = shop.#orders.balancer.snapshot();
      return endpoints.filter(({ state }) => state === 'ready').length === pods;
    });
    const steady = Array.from({ length: callers }, () => shop.#call(() => pause(2 + 6 * Math.random())));
    shop.#traffic = Promise.all([...steady, shop.#bursts(callers)]);
    return shop;
  }

  /** Replaces every pod, one after the other, as a Deployment does. */
  async roll(stepMs: number): Promise<void> {
    for (const old of [...this.#pods]) {
      const fresh = await this.#start();
      this.#publish();
      await pause(stepMs / 2);
      fresh.isReady = true;
      old.isLeaving = true;
      this.#publish();
      old.pod.terminate();
      await pause(stepMs / 2);
      await old.pod.exited;
      this.#pods.splice(this.#pods.indexOf(old), 1);
      this.#publish();
    }
  }

  /** One pod answers after `delayMs`; 0 = as fast as the others. */
  async slow(delayMs: number): Promise<void> {
    await this.#pods[0]?.pod.behave({ delayMs: delayMs === 0 ? 4 : delayMs });
  }

  /** One pod resets every connection. */
  async breaks(reset: boolean): Promise<void> {
    await this.#pods[1]?.pod.behave({ reset });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#traffic;
    await this.#orders.destroy();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    for (const { pod } of this.#pods) await pod.kill();
    await this.#world[Symbol.asyncDispose]();
  }

  get errors(): string {
    return [...this.#errors].map(([error, count]) => `${count} ${error}`).join(', ');
  }

  #fail({ code, message }: NodeJS.ErrnoException): void {
    this.failed++;
    const error = `${code}: ${message.slice(0, 80)}`;
    this.#errors.set(error, (this.#errors.get(error) ?? 0) + 1);
  }

  async #start(): Promise<Placed> {
    const number = this.#started++;
    const name = `orders-${String.fromCharCode(97 + (number % 26))}`;
    const pod = await Pod.start({ name, graceMs: 1_000 });
    await pod.behave({ delayMs: 4 });
    const zone = zones[number % zones.length] as string;
    const placed = { pod, name, zone, isReady: false, isLeaving: false };
    this.#pods.push(placed);
    return placed;
  }

  #publish(): void {
    this.#service.setPods(
      this.#pods.map(({ pod, name, zone, isReady, isLeaving }) => ({
        name,
        zone,
        address: pod.host,
        ports: { http: pod.port },
        ready: isReady && !isLeaving,
        terminating: isLeaving,
      })),
    );
  }

  async #bursts(callers: number): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await pause(2_000);
      await Promise.all(Array.from({ length: 3 * callers }, () => this.#ask()));
    }
  }

  async #call(rest: () => Promise<unknown>): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.#ask();
      await rest();
    }
  }

  async #ask(): Promise<void> {
    try {
      const { body } = await this.#orders.request({ path: '/', method: 'GET' });
      await body.dump();
      this.answered++;
    } catch (error) {
      if (isEvenkeelError(error) && error.code === 'EVENKEEL_OVERLOAD') this.shed++;
      else this.#fail(error as NodeJS.ErrnoException);
      await pause(5);
    }
  }
}
