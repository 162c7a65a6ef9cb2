import type { Cluster, Worker } from 'node:cluster';
import type { Clock, Timer } from './clock.js';
import { type Group, type GroupListener, MEMBERS_EACH } from './group.js';
import { hearPrimary, hearWorkers, tellPrimary, type WorkerProcess, type WorkersListener } from './worker-messages.js';

/** The pause before a worker tries to join again, in ms: the first, and the longest. */
const JOIN_AGAIN_MS = 1_000;
const JOIN_AGAIN_AT_MOST_MS = 60_000;
/** Pending messages to one worker. More are dropped: it is slow, and will request what it missed. */
const MAX_UNSENT = 512;
/** A worker in more groups than this gets no answer. */
const MAX_GROUPS = 1_000;
const MAX_NAME_LENGTH = 300;

/** A worker's message. */
interface ToPrimary {
  readonly evenkeel: 'group';
  readonly group: string;
  readonly member: number;
  readonly does: 'join' | 'leave' | 'say';
  readonly to?: number | undefined;
  readonly message?: unknown;
}

/** The primary's message. */
interface ToWorker {
  readonly evenkeel: 'group';
  readonly group: string;
  readonly what: 'joined' | 'came' | 'gone' | 'said';
  /** The addressee; undefined: all. */
  readonly to?: number | undefined;
  /** The member the message is about. */
  readonly member: number;
  readonly others?: readonly number[];
  readonly message?: unknown;
}

interface OfGroup {
  readonly group: string;
  readonly member: number;
}

function isOfGroup(message: unknown): message is OfGroup {
  const { evenkeel, group, member } = (message ?? {}) as Partial<ToPrimary>;
  return (
    evenkeel === 'group' &&
    typeof group === 'string' &&
    group.length <= MAX_NAME_LENGTH &&
    Number.isSafeInteger(member) &&
    (member as number) >= 0
  );
}

/** A group of workers, as one of them sees it. */
export class WorkerGroup implements Group {
  readonly self: number;
  readonly #name: string;
  readonly #process: WorkerProcess & { readonly connected?: boolean };
  readonly #clock: Clock;
  readonly #unlisten: () => void;
  #timer: Timer | undefined;

  constructor(
    name: string,
    self: number,
    clock: Clock,
    worker: WorkerProcess & { readonly connected?: boolean },
    listener: GroupListener,
  ) {
    this.self = self;
    this.#name = name;
    this.#clock = clock;
    this.#process = worker;
    this.#unlisten = hearPrimary(worker, (message) => {
      if (!isOfGroup(message) || message.group !== name) return;
      const { what, to, member, others, message: said } = message as Partial<ToWorker> & OfGroup;
      if (to !== undefined && to !== self) return;
      if (what === 'joined') {
        this.#timer?.cancel();
        listener.joined(Array.isArray(others) ? others.filter(Number.isSafeInteger) : []);
      } else if (member === self) return;
      else if (what === 'came') listener.came(member);
      else if (what === 'gone') listener.gone(member);
      else if (what === 'said') listener.heard(member, said);
    });
    this.join();
  }

  get isOpen(): boolean {
    return this.#process.connected !== false;
  }

  send(message: object, to?: number): void {
    this.#tell({ does: 'say', message, ...(to !== undefined && { to }) });
  }

  close(): void {
    this.#timer?.cancel();
    this.#unlisten();
    this.#tell({ does: 'leave' });
  }

  join(): void {
    this.#joinAgainAfter(JOIN_AGAIN_MS);
  }

  #joinAgainAfter(pauseMs: number): void {
    this.#timer?.cancel();
    const nextMs = Math.min(2 * pauseMs, JOIN_AGAIN_AT_MOST_MS);
    this.#timer = this.#clock.timer(() => this.#joinAgainAfter(nextMs), pauseMs);
    this.#tell({ does: 'join' });
  }

  #tell(what: Pick<ToPrimary, 'does' | 'to' | 'message'>): void {
    if (!this.isOpen) return;
    tellPrimary(this.#process, {
      evenkeel: 'group',
      group: this.#name,
      member: this.self,
      ...what,
    } satisfies ToPrimary);
  }
}

/** In the primary: forwards messages between workers of a cluster. It only keeps track of who is in which group. */
export class PrimaryGroups implements WorkersListener {
  /** Members by group name. */
  readonly #groups = new Map<string, Map<number, Worker>>();
  /** Pending messages by worker. */
  readonly #unsent = new WeakMap<Worker, number>();
  /** Number of groups by worker. */
  readonly #memberships = new Map<Worker, number>();
  readonly #unlisten: () => void;

  constructor(cluster: Cluster) {
    this.#unlisten = hearWorkers(cluster, this);
  }

  /** Number of groups: 0 once all members have left. */
  get size(): number {
    return this.#groups.size;
  }

  close(): void {
    this.#unlisten();
  }

  heard(worker: Worker, message: unknown): void {
    // A worker can only speak for itself.
    if (!isOfGroup(message) || Math.floor(message.member / MEMBERS_EACH) !== Number(worker.id)) return;
    const { group, member, does, to, message: said } = message as Partial<ToPrimary> & OfGroup;
    const members = this.#groups.get(group);
    if (does === 'join') this.#join(group, members ?? new Map<number, Worker>(), worker, member);
    else if (members?.get(member) !== worker) return;
    else if (does === 'leave') this.#leave(group, members, member);
    else if (does === 'say') this.#tell(group, members, { what: 'said', member, to, message: said });
  }

  gone(worker: Worker): void {
    if (!this.#memberships.has(worker)) return;
    for (const [group, members] of this.#groups) {
      for (const [member, of] of members) if (of === worker) this.#leave(group, members, member);
    }
  }

  #join(group: string, members: Map<number, Worker>, worker: Worker, member: number): void {
    const others = [...members.keys()].filter((other) => other !== member);
    if (!members.has(member)) {
      const memberships = this.#memberships.get(worker) ?? 0;
      if (memberships >= MAX_GROUPS) return;
      this.#memberships.set(worker, memberships + 1);
      this.#groups.set(group, members);
      this.#tell(group, members, { what: 'came', member });
      members.set(member, worker);
    }
    this.#tell(group, members, { what: 'joined', member, others, to: member });
  }

  #leave(group: string, members: Map<number, Worker>, member: number): void {
    const worker = members.get(member) as Worker;
    members.delete(member);
    const memberships = (this.#memberships.get(worker) ?? 1) - 1;
    if (memberships === 0) this.#memberships.delete(worker);
    else this.#memberships.set(worker, memberships);
    if (members.size === 0) this.#groups.delete(group);
    else this.#tell(group, members, { what: 'gone', member });
  }

  /** To one member, or to every worker with members, except the one it is about. */
  #tell(group: string, members: ReadonlyMap<number, Worker>, what: Omit<ToWorker, 'evenkeel' | 'group'>): void {
    const message: ToWorker = { evenkeel: 'group', group, ...what };
    if (what.to !== undefined) {
      const worker = members.get(what.to);
      if (worker !== undefined) this.#send(worker, message);
      return;
    }
    const workers = new Set<Worker>();
    for (const [member, worker] of members) if (member !== what.member) workers.add(worker);
    for (const worker of workers) this.#send(worker, message);
  }

  #send(worker: Worker, message: ToWorker): void {
    const unsent = this.#unsent.get(worker) ?? 0;
    if (unsent >= MAX_UNSENT || !worker.isConnected()) return;
    this.#unsent.set(worker, unsent + 1);
    worker.send(message, () => this.#unsent.set(worker, (this.#unsent.get(worker) ?? 1) - 1));
  }
}
