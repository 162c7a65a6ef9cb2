/** Something that happens at a time. */
export interface Event {
  readonly atMs: number;
  /** Undefined once it is cancelled. */
  fn: (() => void) | undefined;
  /** Of the simulated world: it cannot settle a promise. */
  readonly world: boolean;
}

/** With fewer events than this it is not worth looking for cancelled ones. */
const FEW = 4_096;

/**
 * Events by time, and in the order they were added if their times are equal. A heap with four children per node, and the times in an
 * array of numbers: a large simulation mostly compares them. Cancelled events are removed when they are the majority, since nearly
 * every timer of a balancer is cancelled long before its time.
 */
export class EventQueue {
  #atMs = new Float64Array(1_024);
  #orders = new Float64Array(1_024);
  #events: (Event | undefined)[] = new Array<Event | undefined>(1_024).fill(undefined);
  #size = 0;
  #added = 0;
  #cancelled = 0;

  /** The earliest event; undefined if there is none. */
  get first(): Event | undefined {
    return this.#events[0];
  }

  add(event: Event): void {
    if (this.#size === this.#atMs.length) this.#grow();
    this.#up(this.#size++, event.atMs, this.#added++, event);
  }

  /** Removes the earliest. */
  shift(): void {
    if (this.#events[0]?.fn === undefined) this.#cancelled--;
    const last = --this.#size;
    const event = this.#events[last] as Event;
    const atMs = this.#atMs[last] as number;
    const order = this.#orders[last] as number;
    this.#events[last] = undefined;
    if (last > 0) this.#down(0, atMs, order, event);
  }

  cancel(event: Event): void {
    if (event.fn === undefined) return;
    event.fn = undefined;
    if (++this.#cancelled > this.#size / 2 && this.#size > FEW) this.#sweep();
  }

  #up(from: number, atMs: number, order: number, event: Event): void {
    const times = this.#atMs;
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 2;
      // The new event was added last.
      if ((times[parent] as number) <= atMs) break;
      this.#move(parent, place);
      place = parent;
    }
    this.#put(place, atMs, order, event);
  }

  #down(from: number, atMs: number, order: number, event: Event): void {
    const times = this.#atMs;
    const size = this.#size;
    let place = from;
    for (;;) {
      const start = 4 * place + 1;
      if (start >= size) break;
      let least = start;
      const end = Math.min(start + 4, size);
      for (let child = start + 1; child < end; child++) if (this.#isBefore(child, least)) least = child;
      const leastMs = times[least] as number;
      if (atMs < leastMs || (atMs === leastMs && order < (this.#orders[least] as number))) break;
      this.#move(least, place);
      place = least;
    }
    this.#put(place, atMs, order, event);
  }

  #isBefore(a: number, b: number): boolean {
    const first = this.#atMs[a] as number;
    const second = this.#atMs[b] as number;
    return first < second || (first === second && (this.#orders[a] as number) < (this.#orders[b] as number));
  }

  #move(from: number, to: number): void {
    this.#put(to, this.#atMs[from] as number, this.#orders[from] as number, this.#events[from] as Event);
  }

  #put(place: number, atMs: number, order: number, event: Event): void {
    this.#atMs[place] = atMs;
    this.#orders[place] = order;
    this.#events[place] = event;
  }

  #sweep(): void {
    let kept = 0;
    for (let place = 0; place < this.#size; place++) {
      if ((this.#events[place] as Event).fn !== undefined) this.#move(place, kept++);
    }
    this.#events.fill(undefined, kept, this.#size);
    this.#size = kept;
    this.#cancelled = 0;
    for (let place = (kept - 2) >> 2; place >= 0; place--) {
      this.#down(place, this.#atMs[place] as number, this.#orders[place] as number, this.#events[place] as Event);
    }
  }

  #grow(): void {
    const times = new Float64Array(2 * this.#size);
    times.set(this.#atMs);
    this.#atMs = times;
    const orders = new Float64Array(2 * this.#size);
    orders.set(this.#orders);
    this.#orders = orders;
  }
}
