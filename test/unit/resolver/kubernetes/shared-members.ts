import { ResolveError } from '../../../../src/errors.js';
import { type EndpointSlice, parseSlice } from '../../../../src/resolver/kubernetes/endpoint-slice.js';
import type { SharedState } from '../../../../src/resolver/kubernetes/shared-state.js';
import { SliceStore } from '../../../../src/resolver/kubernetes/slice-store.js';
import { WatchMember } from '../../../../src/resolver/kubernetes/watch-member.js';
import type { Group, GroupListener } from '../../../../src/runtime/group.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import { wireSlice } from './fake-api-client.js';

/** What an API server would have: slices by name, each with one address, and a version. */
export class Truth {
  version = 10;
  readonly addresses: Map<string, string> = new Map([['s1', '10.0.0.1']]);
  /** Whether it can be reached. */
  isUp = true;
  readonly #watching = new Set<Member>();
  lists = 0;

  get watches(): number {
    return this.#watching.size;
  }

  slice(name: string): EndpointSlice {
    const object = wireSlice(name, this.version, [this.addresses.get(name) as string]);
    return parseSlice(object as never, 'orders') as EndpointSlice;
  }

  put(name: string, address: string): void {
    this.addresses.set(name, address);
    this.#write(name);
  }

  delete(name: string): void {
    this.addresses.delete(name);
    this.#write(name);
  }

  #write(name: string): void {
    this.version += 1;
    for (const member of this.#watching) member.event(name);
  }

  open(member: Member): void {
    this.#watching.add(member);
  }

  close(member: Member): void {
    this.#watching.delete(member);
  }

  get text(): string {
    return [...this.addresses.entries()].sort().join(' ');
  }
}

/** Members that hear each other, as through a primary or a BroadcastChannel; virtual time. */
export class Pod {
  readonly clock: FakeClock = new FakeClock();
  readonly truth: Truth = new Truth();
  readonly members: Member[] = [];
  readonly groups: Map<number, { readonly listener: GroupListener; readonly member: () => Member | undefined }> =
    new Map();
  /** Messages told, by kind. */
  readonly sent: { readonly from: number; readonly to: number | undefined; readonly kind: string }[] = [];
  readonly #all: Group[] = [];
  /** Nobody answers: a primary without evenkeel, or one that is blocked. */
  isSilent = false;
  /** What is not delivered. */
  loses: (from: number, to: number, message: { readonly kind: string }) => boolean = () => false;

  add(): Member {
    const member = new Member(this, this.members.length + 1);
    this.members.push(member);
    return member;
  }

  open(self: number, listener: GroupListener, member: () => Member | undefined): Group {
    const pod = this;
    const tell = (what: (other: GroupListener, number: number) => void, to?: number): void => {
      if (pod.isSilent) return;
      for (const [number, other] of [...pod.groups]) {
        if (number === self || (to !== undefined && to !== number)) continue;
        const run = (): void => {
          // Those that are dead hear nothing.
          if (pod.groups.has(number)) what(other.listener, number);
        };
        const paused = other.member()?.paused;
        if (paused !== undefined) paused.push(run);
        else pod.clock.timer(run, 1);
      }
    };
    const group: Group = {
      self,
      get isOpen() {
        return true;
      },
      join() {
        if (pod.isSilent) return;
        pod.groups.set(self, { listener, member });
        tell((other) => other.came(self));
        pod.clock.timer(() => {
          if (pod.groups.has(self)) listener.joined([...pod.groups.keys()].filter((number) => number !== self));
        }, 2);
      },
      send(message, to) {
        // The dead say nothing, and those that are paused neither.
        if (!pod.isSilent && !pod.groups.has(self)) return;
        if (member()?.paused !== undefined) return;
        const { kind } = message as { kind: string };
        pod.sent.push({ from: self, to, kind });
        const copy = JSON.stringify(message);
        tell((other, number) => {
          if (!pod.loses(self, number, { kind })) other.heard(self, JSON.parse(copy));
        }, to);
      },
      close() {
        if (pod.groups.delete(self)) tell((other) => other.gone(self));
      },
    };
    group.join();
    this.#all.push(group);
    return group;
  }

  /** What a worker does from time to time while nobody has answered. */
  rejoin(): void {
    for (const group of this.#all) group.join();
  }

  /** Dies without a word, as a thread that is terminated. */
  kill(member: Member): void {
    this.groups.delete(member.number);
    member.stop();
    member.isDead = true;
  }

  get sets(): string[] {
    return this.members.filter(({ isDead }) => !isDead).map(({ text }) => text);
  }

  get roles(): string {
    return this.members.map(({ isDead, watch }) => (isDead ? 'dead' : watch.watch)).join(' ');
  }

  async pass(ms: number): Promise<void> {
    await this.clock.advanceAsync(ms);
  }
}

/** A process that follows the Service, with a watch that needs no sockets. */
export class Member implements SharedState {
  readonly slices: SliceStore = new SliceStore();
  readonly number: number;
  readonly watch: WatchMember;
  /** Published, in order. */
  readonly told: string[] = [];
  readonly warnings: string[] = [];
  synced = false;
  version: string | undefined;
  failure: ResolveError | undefined;
  isDead = false;
  /** Its own watch cannot reach the API server, though others can. */
  isCutOff = false;
  /** What it has not heard while it is paused. */
  paused: (() => void)[] | undefined;
  #isWatching = false;
  readonly #pod: Pod;

  constructor(pod: Pod, number: number) {
    this.#pod = pod;
    this.number = number;
    this.watch = new WatchMember(
      'orders',
      (_name, _clock, listener) => pod.open(number, listener, () => this),
      pod.clock,
      this,
    );
  }

  get text(): string {
    return [...this.slices.values()]
      .map(({ name, members }) => [name, members[0]?.address])
      .sort()
      .join(' ');
  }

  start(): void {
    if (this.#isWatching) return;
    this.#isWatching = true;
    this.#tryToWatch();
  }

  #tryToWatch(): void {
    const { truth, clock } = this.#pod;
    clock.timer(() => {
      if (!this.#isWatching) return;
      if (!truth.isUp || this.isCutOff) {
        if (this.failure === undefined) {
          this.failed(new ResolveError('no connection'));
          this.watch.judged();
        }
        clock.timer(() => this.#tryToWatch(), 1_000);
        return;
      }
      truth.open(this);
      // From the version it has, everything since then comes at once.
      if (this.synced) for (const name of this.#names()) this.event(name);
      else {
        truth.lists += 1;
        this.version = String(truth.version);
        this.replaced(
          [...truth.addresses.keys()].map((name) => truth.slice(name)),
          this.version,
        );
        this.watch.replaced();
      }
      if (this.failure !== undefined) {
        this.confirmed();
        this.watch.judged();
      }
    }, 20);
  }

  #names(): Iterable<string> {
    const { truth } = this.#pod;
    if (this.version === String(truth.version)) return [];
    return new Set([...this.slices.names(), ...truth.addresses.keys()]);
  }

  event(name: string): void {
    const run = (): void => {
      if (!this.#isWatching || this.isDead) return;
      const { truth } = this.#pod;
      this.slices.put(name, truth.addresses.has(name) ? truth.slice(name) : undefined);
      this.watch.changed(name);
      this.version = String(truth.version);
    };
    if (this.paused !== undefined) this.paused.push(run);
    else run();
  }

  stop(): void {
    this.#isWatching = false;
    this.#pod.truth.close(this);
  }

  leave(): void {
    this.isDead = true;
    this.watch.close();
    this.stop();
  }

  /** What it missed is heard first: that is how an event loop goes on. */
  wake(): void {
    const missed = this.paused ?? [];
    this.paused = undefined;
    for (const run of missed) run();
  }

  replaced(slices: readonly EndpointSlice[], version: string | undefined): void {
    this.slices.replace(slices);
    this.synced = true;
    this.version = version;
    this.told.push(`list ${slices.map(({ name }) => name).join(' ')}`);
  }

  changed(slices: readonly EndpointSlice[], gone: readonly string[], version: string | undefined): void {
    for (const slice of slices) this.slices.put(slice.name, slice);
    for (const name of gone) this.slices.put(name, undefined);
    this.version = version;
    this.told.push(`change ${slices.map(({ name }) => name).join(' ')} -${gone.join(' ')}`);
  }

  advanced(version: string | undefined): void {
    this.version = version;
  }

  failed(error: ResolveError): void {
    this.failure = error;
    this.told.push(`fail ${error.code} ${error.message}`);
  }

  confirmed(): void {
    if (this.failure === undefined) return;
    this.failure = undefined;
    this.told.push('fresh');
  }

  warned(message: string): void {
    this.warnings.push(message);
  }
}
