import type { Clock } from '../../runtime/clock.js';
import type { Group } from '../../runtime/group.js';
import type { EndpointSlice } from './endpoint-slice.js';
import type { SharedState } from './shared-state.js';
import { partsOf, stand, tellFailure, type WatchMessage } from './watch-message.js';

/** Minimum time between states sent to one member. */
const STATE_MS = 500;

/** What a leader sends to the other members: that it leads, its state, and each change. Silent while it does not lead. */
export class WatchTeller {
  readonly #group: Group;
  /** The addressees. */
  readonly #others: ReadonlySet<number>;
  readonly #clock: Clock;
  readonly #state: SharedState;
  /** When each member was last sent a state. */
  readonly #sentAtMs = new Map<number, number>();
  /** Undefined while another member leads. */
  #term: number | undefined;
  /** The number of the last state or change sent. */
  #seq = 0;
  /** Slices that changed in this turn; undefined: none. */
  #changed: Set<string> | undefined;

  constructor(group: Group, others: ReadonlySet<number>, clock: Clock, state: SharedState) {
    this.#group = group;
    this.#others = others;
    this.#clock = clock;
    this.#state = state;
  }

  begin(term: number): void {
    this.#term = term;
    this.#seq = 0;
    this.lead();
  }

  end(): void {
    this.#term = undefined;
    this.#changed = undefined;
    this.#sentAtMs.clear();
  }

  /** Says that we lead, our position, and whether our watch fails. */
  lead(to?: number): void {
    // A version is only sent together with everything that belongs to it.
    this.#tellChanges();
    const { synced: isSynced, failure } = this.#state;
    this.#send({ kind: 'lead', isSynced, failure: tellFailure(failure) }, to);
  }

  /** There is a new complete state. */
  replaced(): void {
    this.#changed = undefined;
    this.#seq += 1;
    if (this.#others.size > 0) this.#tellState();
  }

  /** A slice has changed. All changes of a turn are sent together. */
  changed(name: string): void {
    if (this.#term === undefined) return;
    if (this.#changed === undefined) this.#clock.defer(() => this.#tellChanges());
    this.#changed ??= new Set();
    this.#changed.add(name);
  }

  /** A member asks for the state. */
  answer(member: number): void {
    const now = this.#clock.now();
    if (!this.#state.synced || now - (this.#sentAtMs.get(member) ?? Number.NEGATIVE_INFINITY) < STATE_MS) return;
    this.#sentAtMs.set(member, now);
    // Unsent changes belong to the state: they are sent first, so that the state's number includes them.
    this.#tellChanges();
    this.#tellState(member);
  }

  forget(member: number): void {
    this.#sentAtMs.delete(member);
  }

  #tellState(to?: number): void {
    const parts = partsOf(this.#state.slices.values());
    for (const [part, slices] of parts.entries()) {
      this.#send({ kind: 'state', part, parts: parts.length, slices }, to);
    }
  }

  #tellChanges(): void {
    const names = this.#changed;
    this.#changed = undefined;
    if (names === undefined) return;
    this.#seq += 1;
    if (this.#others.size === 0) return;
    const slices: EndpointSlice[] = [];
    const gone: string[] = [];
    for (const name of names) {
      const slice = this.#state.slices.get(name);
      if (slice === undefined) gone.push(name);
      else slices.push(slice);
    }
    this.#send({ kind: 'change', slices, gone });
  }

  #send(what: Unnumbered<WatchMessage>, to?: number): void {
    if (this.#term === undefined || this.#others.size === 0) return;
    this.#group.send({ ...stand(this.#term, this.#seq, this.#state.version), ...what }, to);
  }
}

/** A message without its sender's position; kept apart for each kind. */
type Unnumbered<M> = M extends WatchMessage ? Omit<M, 'protocol' | 'term' | 'seq' | 'version'> : never;
