import type { Clock, Timer } from '../../../index.js';
import type { CheckedOut, ClusterFace } from './cluster-face.js';

/** How often it is looked whether there is progress, in ms; callers may come to wait as long as there is … */
const LOOK_MS = 100;
/**
 * … and this many further checks. One is not enough: after a stall of our own the timer fires before the servers' answers are
 * read.
 */
const LOOKS = 2;
/** Of a node with a larger pool, or one without limit, not all connections can be gathered. */
const MAX_CONNECTIONS = 100;

/** What is to be gathered. */
export interface ExclusiveCheckoutOf {
  readonly cluster: ClusterFace;
  readonly clock: Clock;
  readonly id: string;
  readonly connectionLimit: number;
}

/**
 * Checks out every connection a node may have. mysql2 serves first who came first, so those in use come to us as soon as
 * their queries end, and nobody gets one after us: when we have them all, nobody is using the node.
 */
export class ExclusiveCheckout {
  readonly #of: ExclusiveCheckoutOf;
  readonly #over: (all: boolean) => void;
  #patience: Timer;
  #progress = 0;
  #looks = 0;
  readonly #held: CheckedOut[] = [];
  readonly #wanted: number;
  /** What becomes of connections that come when it is over. */
  #late: 'destroy' | 'release' | undefined;

  /** @param over Called once, unless it is stopped: whether all were gathered in time. They are ended right after. */
  constructor(of: ExclusiveCheckoutOf, over: (all: boolean) => void) {
    this.#of = of;
    this.#over = over;
    const { clock, connectionLimit } = of;
    const isFeasible = connectionLimit > 0 && connectionLimit <= MAX_CONNECTIONS;
    this.#wanted = isFeasible ? connectionLimit : 0;
    this.#patience = clock.timer(() => (isFeasible ? this.#look() : this.#end(false)), isFeasible ? LOOK_MS : 0);
    for (let count = 0; count < this.#wanted; count++) void this.#one();
  }

  /** Ends it without a word; what was gathered is ended or given back. */
  stop(how: 'destroy' | 'release'): void {
    if (this.#late !== undefined) return;
    this.#late = how;
    this.#patience.cancel();
    for (const connection of this.#held.splice(0)) connection[how]();
  }

  async #one(): Promise<void> {
    try {
      const connection = await this.#of.cluster.checkOut(this.#of.id);
      if (this.#late !== undefined) {
        connection[this.#late]();
        return;
      }
      this.#held.push(connection);
      if (this.#held.length === this.#wanted) this.#end(true);
    } catch {
      // Nothing can be opened: its server is gone, or mysql2 has it offline.
      this.#end(false);
    }
  }

  /** Somebody who keeps a connection keeps it for long: then nothing more comes. */
  #look(): void {
    this.#looks = this.#held.length > this.#progress ? 0 : this.#looks + 1;
    this.#progress = this.#held.length;
    if (this.#looks >= LOOKS) this.#end(false);
    else this.#patience = this.#of.clock.timer(() => this.#look(), LOOK_MS);
  }

  #end(all: boolean): void {
    if (this.#late !== undefined) return;
    this.#over(all);
    this.stop('destroy');
  }
}
