import type { Clock, Timer } from '../../runtime/clock.js';
import type { Group, GroupListener, OpenGroup } from '../../runtime/group.js';
import type { WatchOwner } from '../resolver.js';
import { Beat } from './beat.js';
import type { EndpointSlice } from './endpoint-slice.js';
import type { SharedState } from './shared-state.js';
import { fitsStore } from './slice-store.js';
import { failureTold, isOlder, readWatchMessage, stand, type WatchMessage } from './watch-message.js';
import { WatchTeller } from './watch-teller.js';

/** A primary that has not answered by now has no evenkeel, or an old version. In ms. */
const ANSWER_MS = 1_000;
/** After this a warning is reported. */
const UNANSWERED_MS = 5_000;
/** How often a leader says that it leads, and every member checks the situation. */
const BEAT_MS = 1_000;
/** A leader that has been silent for this long is replaced. */
const SILENT_MS = 5_000;
/** How long the others wait for the next leader: if they have a set, and if not. */
const CLAIM_MS = { synced: 1_000, first: 2_000 };
/** A leader whose watch has failed for this long is replaced: the fault may be in its process and not in the API server. */
const FAILING_MS = 30_000;

/**
 * A member of a group of processes that share the watch of a Service. One leads: it watches, and tells the others. When it leaves,
 * falls silent or fails, another continues from the version it has, so nothing is missed; if several lead, one remains. If nobody
 * answers, each watches by itself.
 */
export class WatchMember implements GroupListener {
  readonly #state: SharedState;
  readonly #clock: Clock;
  readonly #group: Group;
  readonly #others = new Set<number>();
  /** Members that did not lead when it was their turn, or led badly, since the last time there was a leader. */
  readonly #passedOver = new Set<number>();
  readonly #teller: WatchTeller;
  /** Undefined while no leader is known. */
  #leader: number | undefined;
  /** The highest seen. */
  #term = 0;
  /** As a follower: number of the last state or change applied; undefined before the first. */
  #seq: number | undefined;
  #watches = false;
  /** Whose turn it is to lead, and until when. */
  #next: number | undefined;
  #nextUntilMs = Number.POSITIVE_INFINITY;
  #heardAtMs = 0;
  #failingSinceMs: number | undefined;
  #askedAtMs = Number.NEGATIVE_INFINITY;
  #parts: EndpointSlice[] = [];
  #partsSeen = 0;
  readonly #beat: Beat;
  #unanswered: Timer;
  #closed = false;

  constructor(name: string, openGroup: OpenGroup, clock: Clock, state: SharedState) {
    this.#state = state;
    this.#clock = clock;
    this.#group = openGroup(name, clock, this);
    this.#teller = new WatchTeller(this.#group, this.#others, clock, state);
    this.#unanswered = clock.timer(() => this.#startAlone(), ANSWER_MS);
    this.#beat = new Beat(clock, BEAT_MS, (mayHaveMissed) => {
      if (this.#leads || !mayHaveMissed) this.#look();
    });
  }

  get watch(): WatchOwner {
    return this.#watches ? 'own' : 'shared';
  }

  /** Our own watch has a new complete state. */
  replaced(): void {
    this.#teller.replaced();
  }

  /** Our own watch has a change. */
  changed(name: string): void {
    this.#teller.changed(name);
  }

  /** Our own watch has failed, or works again. */
  judged(): void {
    this.#teller.lead();
  }

  close(): void {
    this.#closed = true;
    this.#beat.close();
    this.#unanswered.cancel();
    this.#teller.end();
    this.#group.close();
  }

  joined(others: readonly number[]): void {
    if (this.#closed) return;
    this.#unanswered.cancel();
    this.#others.clear();
    for (const other of others) this.#others.add(other);
    if (this.#leads) this.#teller.lead();
    else if (this.#leader === undefined) this.#choose();
  }

  came(member: number): void {
    this.#others.add(member);
    this.#teller.lead(member);
  }

  gone(member: number): void {
    this.#others.delete(member);
    this.#teller.forget(member);
    if (member === this.#leader || member === this.#next) this.#elect();
  }

  heard(from: number, value: unknown): void {
    if (this.#closed) return;
    const message = readWatchMessage(value);
    if (message === undefined) return;
    this.#others.add(from);
    if (message.kind === 'ask') {
      if (this.#leads) this.#teller.answer(from);
      return;
    }
    const { term } = message;
    const isBest = term === this.#term ? from <= (this.#leader ?? from) : term > this.#term;
    // A member that was passed over may only have been slow, unless its watch fails.
    const isWell = message.kind === 'lead' && message.failure === undefined;
    const isDeposed = this.#leader === undefined && term === this.#term && this.#passedOver.has(from) && !isWell;
    if (!isBest || isDeposed) return;
    // Our watch is only replaced by one that is at least as good.
    if (this.#leads && this.#isWell && message.kind === 'lead' && !(isWell && message.isSynced)) {
      this.#lead(term + 1);
      return;
    }
    if (from !== this.#leader || term !== this.#term) this.#follow(from, term);
    this.#heardAtMs = this.#clock.now();
    if (message.kind === 'lead') this.#heardLead(message);
    else if (message.kind === 'state') this.#heardState(message);
    else this.#heardChange(message);
  }

  get #leads(): boolean {
    return this.#leader === this.#group.self;
  }

  get #isWell(): boolean {
    return this.#state.synced && this.#state.failure === undefined;
  }

  #startAlone(): void {
    this.#lead();
    this.#unanswered = this.#clock.timer(() => {
      this.#state.warned(
        'shareWatch: nobody answers, so this process has its own watch; import evenkeel in the primary',
      );
    }, UNANSWERED_MS);
  }

  /** Nobody leads: the members present decide who does. */
  #elect(): void {
    this.#leader = undefined;
    this.#next = undefined;
    this.#nextUntilMs = this.#clock.now() + CLAIM_MS.synced;
    if (this.#group.isOpen) this.#group.join();
    else this.#lead();
  }

  /** The first in line leads; the others wait a moment for it. */
  #choose(): void {
    const { self } = this.#group;
    let inLine = [self, ...this.#others].filter((member) => !this.#passedOver.has(member));
    if (inLine.length === 0) {
      this.#passedOver.clear();
      inLine = [self, ...this.#others];
    }
    const next = inLine.reduce((least, member) => Math.min(least, member));
    if (next === self) {
      this.#lead();
      return;
    }
    this.#next = next;
    this.#nextUntilMs = this.#clock.now() + CLAIM_MS[this.#state.synced ? 'synced' : 'first'];
  }

  #lead(term = this.#term + 1): void {
    this.#leader = this.#group.self;
    this.#next = undefined;
    this.#term = term;
    this.#passedOver.clear();
    this.#watches = true;
    this.#state.start();
    this.#teller.begin(this.#term);
  }

  #follow(leader: number, term: number): void {
    if (this.#leads && this.#state.failure !== undefined) this.#passedOver.add(this.#group.self);
    this.#teller.end();
    this.#leader = leader;
    this.#next = undefined;
    this.#term = term;
    // We do not have its state yet; until then our own watch, if any, goes on.
    this.#seq = undefined;
    this.#failingSinceMs = undefined;
    this.#partsSeen = 0;
    this.#askedAtMs = Number.NEGATIVE_INFINITY;
  }

  #heardLead({ seq, version, isSynced, failure }: WatchMessage & { readonly kind: 'lead' }): void {
    if (isSynced && this.#seq !== seq) {
      const { synced, version: ours } = this.#state;
      if (synced && version !== undefined && version === ours) this.#inStep(seq);
      else if (!synced || !isOlder(version, ours)) this.#ask();
    }
    if (failure !== undefined) {
      this.#failingSinceMs ??= this.#clock.now();
      // While our own watch runs, its state counts.
      if (!this.#watches && failure.message !== this.#state.failure?.message) this.#state.failed(failureTold(failure));
      return;
    }
    this.#failingSinceMs = undefined;
    if (this.#seq !== seq || !isSynced) return;
    this.#passedOver.clear();
    this.#state.advanced(version);
    this.#state.confirmed();
  }

  #heardState({ seq, version, part, parts, slices }: WatchMessage & { readonly kind: 'state' }): void {
    if (this.#seq !== undefined && seq <= this.#seq) return;
    if (part === 0) {
      this.#parts = [];
      this.#partsSeen = 0;
    }
    if (part !== this.#partsSeen) return;
    this.#partsSeen += 1;
    for (const slice of slices) this.#parts.push(slice);
    if (this.#partsSeen < parts) return;
    const whole = this.#parts;
    this.#parts = [];
    this.#partsSeen = 0;
    const { synced, version: ours } = this.#state;
    // State never goes back in time (W1): ours is newer, and we ask again when the leader has caught up.
    if ((synced && isOlder(version, ours)) || !fitsStore(whole)) return;
    this.#inStep(seq);
    this.#state.replaced(whole, version);
  }

  #heardChange({ seq, version, slices, gone }: WatchMessage & { readonly kind: 'change' }): void {
    if (this.#seq === undefined || seq <= this.#seq) return;
    if (seq !== this.#seq + 1) {
      this.#seq = undefined;
      this.#ask();
      return;
    }
    this.#seq = seq;
    this.#state.changed(slices, gone, version);
  }

  /** Our state is the leader's as of `seq`. */
  #inStep(seq: number): void {
    this.#seq = seq;
    if (!this.#watches) return;
    this.#watches = false;
    this.#state.stop();
  }

  #ask(): void {
    const now = this.#clock.now();
    if (now - this.#askedAtMs < BEAT_MS / 2) return;
    this.#askedAtMs = now;
    this.#group.send({ ...stand(this.#term, this.#seq ?? 0, undefined), kind: 'ask' }, this.#leader);
  }

  #look(): void {
    const now = this.#clock.now();
    if (this.#leads) this.#teller.lead();
    else if (this.#leader === undefined) {
      if (now < this.#nextUntilMs) return;
      // Callers are waiting for a first set, and several watches for a moment do no harm.
      if (this.#next === undefined || !this.#state.synced) this.#lead();
      else {
        this.#passedOver.add(this.#next);
        this.#elect();
      }
    } else if (now - this.#heardAtMs > SILENT_MS || this.#failsForLong(now)) {
      this.#passedOver.add(this.#leader);
      this.#elect();
    }
  }

  #failsForLong(now: number): boolean {
    // If it is forbidden to one, it is forbidden to all.
    if (this.#failingSinceMs === undefined || this.#state.failure?.code === 'EVENKEEL_FORBIDDEN') return false;
    return now - this.#failingSinceMs > FAILING_MS;
  }
}
