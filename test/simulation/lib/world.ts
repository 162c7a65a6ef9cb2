import { type Balancer, createBalancer } from '../../../src/balancer/balancer.js';
import type { Lease } from '../../../src/call/lease.js';
import type { Endpoint } from '../../../src/endpoint/endpoint.js';
import { type LoadReport, type Outcome, outcomes } from '../../../src/endpoint/outcome.js';
import type { LimitFactory } from '../../../src/limit/limit.js';
import { inFlight } from '../../../src/load/in-flight.js';
import type { LoadFactory } from '../../../src/load/load.js';
import type { PickerFactory } from '../../../src/picker/picker.js';
import type { Connection, Transport } from '../../../src/pool/transport.js';
import type { Priority } from '../../../src/propagation/priority.js';
import type { Clock } from '../../../src/runtime/clock.js';
import { drawIndex, type Rng } from '../../../src/runtime/rng.js';
import type { StageFactory } from '../../../src/stage/stage.js';
import { exactStages } from '../../../src/stage/standard-stages.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { RefusingServer } from './refusing-server.js';
import { type Answer, Server, type ServiceTime, type SimulatedServer } from './server.js';
import { ServerStats } from './server-stats.js';
import { type Machine, SharedServer } from './shared-server.js';
import { Tally } from './tally.js';
import { VirtualClock } from './virtual-clock.js';

/** How calls are balanced. */
export interface Strategy {
  readonly name: string;
  readonly picker: PickerFactory;
  readonly load?: LoadFactory;
  /** @defaultValue none */
  readonly stages?: readonly StageFactory[];
  /** Calls carry one of `KEYS` keys, all alike in demand. @defaultValue false */
  readonly keyed?: boolean;
  /** What differs from one client to another. */
  readonly ofClient?: (
    client: number,
    clients: number,
  ) => { readonly picker: PickerFactory; readonly load?: LoadFactory };
  /** What servers say with each answer, and to those that ask. @defaultValue as `WorldOptions.reports` */
  readonly says?: (state: SaidBy) => LoadReport | undefined;
  /** One client sees the calls of all, as one queue would. @defaultValue false */
  readonly seesAll?: boolean;
  /** Clients that are not balancers; undefined = this one is. Not with `limit`. */
  readonly makeClient?: (clock: Clock, rng: Rng, client: number) => OtherClient | undefined;
}

/** A call on its way to a server. */
interface SentCall {
  readonly priority?: Priority;
  readonly workMs: number | undefined;
  readonly done?: (isAnswered: boolean) => void;
}

/** What a call needs of its client: a balancer has it. */
interface Picks {
  pick(call?: { readonly key?: string | undefined }): PickedServer | undefined;
}

/** A server for one call. */
export type PickedServer = Pick<Lease<SimulatedServer>, 'handle' | 'end'>;

/** A client that is not a balancer. */
export interface OtherClient extends Picks {
  /** What there is from now on. Calls that run on others go on. */
  list(servers: readonly SimulatedServer[]): void;
}

/** A connection over which a picker can ask its server how busy it is, apart from any call, as Prequal does. */
export interface ProbedConnection<C> extends Connection<C> {
  probe(): Promise<LoadReport | undefined>;
}

/** Who says how busy it is. */
export interface SaidBy {
  /** Requests in flight, the one that is answered included. */
  readonly inFlight: number;
  readonly stats: ServerStats;
  readonly nowMs: number;
  /** It was asked, apart from any call. */
  readonly isAsked: boolean;
}

/** So many that the keys of a server are within a few per cent of its share of them. */
const KEYS: readonly string[] = Array.from({ length: 10_000 }, (_, index) => `customer-${index}`);

export interface WorldOptions {
  readonly seed: number;
  readonly strategy: Strategy;
  readonly servers: number;
  /** Clients with a balancer each, which know nothing of one another. @defaultValue 1 */
  readonly clients?: number;
  /** Calls per second over all clients: an open loop, at random (Poisson). */
  readonly callsPerSecond: number;
  readonly serviceTime: ServiceTime;
  /** Requests a server works on at once. @defaultValue Infinity */
  readonly workers?: number;
  /** Servers work on all requests at once, on machines like these; `serviceTime` is then the work. @defaultValue one queue each */
  readonly machine?: (index: number) => Machine;
  /**
   * What a server says of its requests in flight with each answer, given how many there are and its index; undefined = nothing.
   * @defaultValue servers say nothing
   */
  readonly reports?: (inFlight: number, index: number) => number | undefined;
  /** Told of each call that goes to a server. */
  readonly began?: (client: number, address: string, nowMs: number) => void;
  /** Time on the network, each way, in ms. @defaultValue 0 */
  readonly networkMs?: number;
  /** After how long a caller gives up, in ms; the call then counts as failed. @defaultValue never */
  readonly deadlineMs?: number;
  /** How many calls of a client may run at once; the others wait. Needs `deadlineMs`. @defaultValue none waits */
  readonly limit?: LimitFactory;
  /** The priority of a call. @defaultValue 'default' */
  readonly priority?: (rng: Rng) => Priority;
  /** Servers work on for callers who gave up, as ordinary servers do. @defaultValue false */
  readonly worksForGone?: boolean;
  /** What a pod's own limit is (`createBackend({ limit })`). @defaultValue none: they take everything */
  readonly serverLimit?: LimitFactory;
  /**
   * A closed loop in place of the open one: `count` callers, each of which asks `callsPerSecond × demand / callers` times a second, a
   * moment after its answer, and tries up to `tries` times at once if it gets none. @defaultValue an open loop
   */
  readonly callers?: { readonly count: number; readonly tries: number };
  /**
   * Calls bring their work with them, drawn as they arrive, so that every strategy meets the same calls.
   * @defaultValue false: the server draws it
   */
  readonly callsBringWork?: boolean;
  /** The share of calls that a client makes, against those of others. @defaultValue all the same */
  readonly share?: (client: number) => number;
  /** Calls per second of a client at a time, as a multiple of its mean; at most `peak`. @defaultValue always 1 */
  readonly rate?: { readonly peak: number; readonly at: (client: number, nowMs: number) => number };
}

/** What a pod says that has not begun a request. */
const notBegun: Outcome = Object.freeze({ kind: 'not-started', cause: 'overload', retryAfterMs: 1_000 });

/** Servers, clients and calls in virtual time, around the real balancer. */
export class World {
  readonly clock: VirtualClock = new VirtualClock();
  readonly servers: Server[] = [];
  /** Calls since the last `measure`. */
  tally: Tally = new Tally(0);
  /** Calls per second as a multiple of `callsPerSecond`. */
  demand = 1;
  /** Calls since the last `measure`, by priority. */
  readonly byPriority: Map<Priority, Tally> = new Map();
  /** Ejections by all clients, as `at ms: address`. */
  readonly ejections: { readonly atMs: number; readonly address: string }[] = [];
  readonly #options: WorldOptions;
  readonly #byAddress = new Map<string, SimulatedServer>();
  readonly #indexes = new Map<string, number>();
  readonly #stats = new Map<SimulatedServer, ServerStats>();
  readonly #resolvers: (FakeResolver | undefined)[] = [];
  readonly #balancers: (Balancer<SimulatedServer> | undefined)[] = [];
  readonly #others: (OtherClient | undefined)[] = [];
  /** How many clients there have been in a place. */
  readonly #generations: number[] = [];
  /** Draws the keys of calls. */
  readonly #keys: Rng;
  #listed: Server[] = [];
  #isClosed = false;
  /** The sum of all clients' shares. */
  #shares: number | undefined;

  constructor(options: WorldOptions) {
    this.#options = options;
    this.#keys = this.#stream(900_000);
    for (let index = 0; index < options.servers; index++) this.addServer();
    const clients = options.strategy.seesAll === true ? 1 : this.#clients;
    for (let client = 0; client < clients; client++) this.#addClient(client);
  }

  get #clients(): number {
    return this.#options.clients ?? 1;
  }

  /** Adds a server, not yet listed. */
  addServer(): Server {
    const { serviceTime, workers = Number.POSITIVE_INFINITY } = this.#options;
    const index = this.servers.length;
    const address = `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`;
    const server = new Server(address, this.clock, this.#stream(1_000 + index), serviceTime, workers);
    server.worksForGone = this.#options.worksForGone === true;
    const { serverLimit } = this.#options;
    const machine = this.#options.machine?.(index);
    this.servers.push(server);
    this.#indexes.set(address, index);
    const simulated =
      serverLimit !== undefined
        ? new RefusingServer(server, this.clock, serverLimit)
        : machine === undefined
          ? server
          : new SharedServer(server, this.clock, this.#stream(1_000 + index), serviceTime, machine);
    this.#byAddress.set(address, simulated);
    this.#stats.set(simulated, new ServerStats(simulated));
    return server;
  }

  /** What every client sees from now on. */
  list(servers: readonly Server[] = this.servers): void {
    this.#listed = [...servers];
    for (const resolver of this.#resolvers) {
      resolver?.update(...this.#listed.map(({ address }) => ({ address, port: 80 })));
    }
    for (const other of this.#others) other?.list(this.#simulated());
    this.clock.disturb();
  }

  /** A client's process is replaced: a fresh one makes its calls from now on. */
  replaceClient(client: number): void {
    if (this.#options.strategy.seesAll === true) return;
    const old = this.#balancers[client];
    this.#addClient(client);
    this.#resolvers[client]?.update(...this.#listed.map(({ address }) => ({ address, port: 80 })));
    this.#others[client]?.list(this.#simulated());
    // Its calls go on.
    if (old !== undefined)
      this.clock.at(this.clock.now() + 60_000, () => void old.close({ signal: AbortSignal.abort() }));
    this.clock.disturb();
  }

  #simulated(): SimulatedServer[] {
    return this.#listed.map(({ address }) => this.#byAddress.get(address) as SimulatedServer);
  }

  /** Lists all servers, connects, and lets calls run for `warmUpMs` before anything is measured. */
  async start(warmUpMs: number): Promise<void> {
    this.list();
    await this.clock.run(1);
    for (let client = 0; client < this.#clients; client++) {
      const { callers } = this.#options;
      if (callers === undefined) this.#scheduleCall(client, this.#stream(client));
      else this.#scheduleCallers(client, callers, this.#stream(client));
    }
    await this.run(warmUpMs);
  }

  /** The limits of all clients now. */
  get limits(): number[] {
    return this.#balancers.map((balancer) => balancer?.snapshot().limit?.max ?? 0);
  }

  /** Goes on for so long, and returns what happened to the calls that began in this time and have ended. */
  async run(ms: number): Promise<Tally> {
    const tally = new Tally(this.clock.now());
    this.tally = tally;
    this.byPriority.clear();
    for (const server of this.servers) server.taken = 0;
    await this.clock.run(this.clock.now() + ms);
    return tally;
  }

  /** Goes on until the calls of a stretch have ended, at most for so long. Others begin in the meantime, as before. */
  async finish(tally: Tally, mostMs: number): Promise<void> {
    const endMs = this.clock.now() + mostMs;
    while (tally.running > 0 && this.clock.now() < endMs) await this.run(Math.min(100, endMs - this.clock.now()));
  }

  /** No further call begins. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const balancer of this.#balancers) void balancer?.close({ signal: AbortSignal.abort() });
    await this.clock.run(this.clock.now() + 60_000);
  }

  #addClient(index: number): void {
    const { strategy } = this.#options;
    const generation = (this.#generations[index] ?? 0) + 1;
    this.#generations[index] = generation;
    const rng = this.#stream(500_000 + index + (generation - 1) * 1_000_000);
    this.#others[index] = strategy.makeClient?.(this.clock, rng, index);
    if (this.#others[index] !== undefined) return;
    const own = strategy.ofClient?.(index, this.#clients);
    const resolver = new FakeResolver();
    this.#resolvers[index] = resolver;
    this.#balancers[index] = createBalancer<SimulatedServer>({
      resolver,
      transport: this.#transport(),
      picker: own?.picker ?? strategy.picker,
      load: own?.load ?? strategy.load ?? inFlight(),
      limit: this.#options.limit,
      stages: exactStages(strategy.stages ?? []),
      pool: { maxConnectionAgeMs: Number.POSITIVE_INFINITY, maxConnecting: Number.POSITIVE_INFINITY },
      observer: {
        ejected: ({ endpoint }) => this.ejections.push({ atMs: this.clock.now(), address: endpoint.address }),
      },
      clock: this.clock,
      rng,
    });
  }

  /** Who makes the calls of a client. */
  #callerOf(client: number): Picks {
    const index = this.#options.strategy.seesAll === true ? 0 : client;
    return this.#others[index] ?? (this.#balancers[index] as Picks);
  }

  #transport(): Transport<SimulatedServer> {
    return {
      connect: async ({ address }: Endpoint): Promise<Connection<SimulatedServer>> => {
        const server = this.#byAddress.get(address);
        if (server === undefined) throw new Error(`no server at ${address}`);
        let close: (error: undefined) => void = () => {};
        const closed = new Promise<undefined>((resolve) => {
          close = resolve;
        });
        const connection: ProbedConnection<SimulatedServer> = {
          handle: server,
          capacity: Number.POSITIVE_INFINITY,
          closed,
          close: async () => close(undefined),
          probe: () => this.#probe(server),
        };
        return connection;
      },
    };
  }

  #scheduleCall(client: number, rng: Rng): void {
    const { rate } = this.#options;
    const perMs = (this.#options.callsPerSecond / 1_000) * this.#shareOf(client) * (rate?.peak ?? 1);
    const next = (): void => {
      this.clock.at(this.clock.now() - Math.log(1 - rng.next()) / (perMs * this.demand), () => {
        if (this.#isClosed) return;
        // Of the calls at the peak's rate those are left out that are too many now: a Poisson process whose rate changes.
        const isMade = rate === undefined || rng.next() * rate.peak < rate.at(client, this.clock.now());
        if (isMade) {
          if (this.#options.limit === undefined) this.#call(client, rng);
          else this.#waitAndCall(client, rng);
        }
        next();
      });
    };
    next();
  }

  #shareOf(client: number): number {
    const { share } = this.#options;
    if (share === undefined) return 1 / this.#clients;
    this.#shares ??= Array.from({ length: this.#clients }, (_, index) => share(index)).reduce(
      (sum, one) => sum + one,
      0,
    );
    return share(client) / this.#shares;
  }

  #scheduleCallers(
    client: number,
    { count, tries }: { readonly count: number; readonly tries: number },
    rng: Rng,
  ): void {
    const clients = this.#clients;
    const pause = (then: () => void): void => {
      const perMs = (this.#options.callsPerSecond * this.demand) / 1_000 / count;
      this.clock.at(this.clock.now() - Math.log(1 - rng.next()) / perMs, then);
    };
    const ask = (left: number): void => {
      this.#waitAndCall(client, rng, (isAnswered) => {
        if (this.#isClosed) return;
        // In the next turn, as a program would.
        if (isAnswered || left === 1) pause(() => ask(tries));
        else this.clock.at(this.clock.now() + 1, () => ask(left - 1));
      });
    };
    for (let caller = client; caller < count; caller += clients) pause(() => ask(tries));
  }

  #call(client: number, rng: Rng): void {
    const { tally } = this;
    const beganMs = this.clock.now();
    const key = this.#options.strategy.keyed === true ? KEYS[drawIndex(this.#keys, KEYS.length)] : undefined;
    const workMs = this.#workMs(rng);
    const lease = this.#callerOf(client).pick({ key });
    if (lease === undefined) {
      tally.refused(beganMs);
      return;
    }
    tally.began(lease.handle.address);
    this.#options.began?.(client, lease.handle.address, beganMs);
    this.#send(lease, tally, beganMs, { workMs });
  }

  /** The work that a call brings with it. */
  #workMs(rng: Rng): number | undefined {
    return this.#options.callsBringWork === true ? this.#options.serviceTime(rng) : undefined;
  }

  /** As adapters do: picks, or waits until the caller gives up. */
  #waitAndCall(client: number, rng: Rng, done: (isAnswered: boolean) => void = () => {}): void {
    const { deadlineMs = 0, priority } = this.#options;
    const workMs = this.#workMs(rng);
    const ofCall = priority?.(rng) ?? 'default';
    const tally = this.#tallyOf(ofCall);
    const beganMs = this.clock.now();
    this.clock.disturb();
    const caller = this.#callerOf(client);
    const lease = caller.pick();
    if (lease !== undefined) {
      tally.began(lease.handle.address);
      this.#options.began?.(client, lease.handle.address, beganMs);
      this.#send(lease, tally, beganMs, { priority: ofCall, workMs, done });
      return;
    }
    // Other clients have no limit, so nothing waits for them.
    const balancer = caller as Balancer<SimulatedServer>;
    const gaveUp = new AbortController();
    this.clock.at(beganMs + deadlineMs, () => {
      gaveUp.abort();
      this.clock.disturb();
    });
    balancer.acquire({ signal: gaveUp.signal, priority: ofCall, deadlineMs }).then(
      (late) => {
        tally.began(late.handle.address);
        this.#options.began?.(client, late.handle.address, this.clock.now());
        this.#send(late, tally, beganMs, { priority: ofCall, workMs, done });
      },
      () => {
        tally.refused(beganMs);
        done(false);
      },
    );
  }

  #tallyOf(priority: Priority): Tally {
    if (this.#options.priority === undefined) return this.tally;
    const tally = this.byPriority.get(priority) ?? new Tally(this.clock.now());
    this.byPriority.set(priority, tally);
    return tally;
  }

  #send(lease: PickedServer, tally: Tally, beganMs: number, call: SentCall): void {
    const { priority = 'default', workMs, done = () => {} } = call;
    const { deadlineMs, networkMs = 0 } = this.#options;
    let ended = false;
    let giveUp = (): void => {};
    const onNetwork = (then: () => void): void =>
      networkMs === 0 ? then() : this.clock.at(this.clock.now() + networkMs, then);
    onNetwork(() => {
      const cameMs = this.clock.now();
      const met = lease.handle.present + 1;
      const leftMs = deadlineMs === undefined ? undefined : beganMs + deadlineMs - this.clock.now();
      const asked = {
        priority,
        ...(leftMs !== undefined && { deadlineMs: leftMs }),
        ...(workMs !== undefined && { workMs }),
      };
      giveUp = lease.handle.take((answer: Answer) => {
        this.#statsOf(lease.handle).answered(met, this.clock.now() - cameMs, answer);
        const outcome = this.#outcomeOf(lease.handle, answer);
        onNetwork(() => {
          if (ended) return;
          ended = true;
          this.#disturbed();
          lease.end(outcome);
          tally.ended(lease.handle.address, beganMs, this.clock.now(), answer === 'ok');
          done(answer === 'ok');
        });
      }, asked);
    });
    if (deadlineMs === undefined) return;
    this.clock.at(beganMs + deadlineMs, () => {
      if (ended) return;
      ended = true;
      this.#disturbed();
      giveUp();
      lease.end(outcomes.timeout);
      tally.ended(lease.handle.address, beganMs, this.clock.now(), false);
      done(false);
    });
  }

  /** Somebody may have waited for this. */
  #disturbed(): void {
    if (this.#options.limit !== undefined) this.clock.disturb();
  }

  #outcomeOf(server: SimulatedServer, answer: Answer): Outcome {
    const outcome = answer === 'ok' ? outcomes.success : answer === 'error' ? outcomes.status : notBegun;
    // The one that is answered is still in flight when the server writes its report.
    const report = this.#reportOf(server, server.present + 1, false);
    return report === undefined ? outcome : { ...outcome, report };
  }

  #reportOf(server: SimulatedServer, inFlight: number, isAsked: boolean): LoadReport | undefined {
    const { reports, strategy } = this.#options;
    if (strategy.says !== undefined) {
      return strategy.says({ inFlight, stats: this.#statsOf(server), nowMs: this.clock.now(), isAsked });
    }
    const said = reports?.(inFlight, this.#indexes.get(server.address) as number);
    return said === undefined ? undefined : { namedMetrics: { evenkeel_in_flight: said } };
  }

  /** A probe asks a server how busy it is: there and back on the network, and no work for the server. */
  #probe(server: SimulatedServer): Promise<LoadReport | undefined> {
    const { networkMs = 0 } = this.#options;
    this.tally.probes++;
    return new Promise((resolve) => {
      this.clock.at(this.clock.now() + networkMs, () => {
        if (server.isSilent) return;
        const report = this.#reportOf(server, server.present, true);
        this.clock.at(this.clock.now() + networkMs, () => {
          resolve(report);
          this.clock.disturb();
        });
      });
    });
  }

  #statsOf(server: SimulatedServer): ServerStats {
    return this.#stats.get(server) as ServerStats;
  }

  /** Chance for one purpose: how often one thing draws changes nothing for another. */
  #stream(purpose: number): Rng {
    return seededRng(Math.imul(this.#options.seed, 0x9e3779b1) ^ Math.imul(purpose + 1, 0x85ebca6b));
  }
}
