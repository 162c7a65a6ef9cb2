import type { LimitFactory } from '../../../src/limit/limit.js';
import type { Priority } from '../../../src/propagation/priority.js';
import { SharedTimers } from '../../../src/runtime/shared-timers.js';
import { Admission } from '../../../src/server/admission.js';
import { ServedCall } from '../../../src/server/served-call.js';
import type { Answer, Asked, Server, SimulatedServer } from './server.js';
import type { VirtualClock } from './virtual-clock.js';

/** A pod with `createBackend({ limit })` in front: what it cannot do in time it does not begin. */
export class RefusingServer implements SimulatedServer {
  readonly #server: Server;
  readonly #clock: VirtualClock;
  readonly #timers: SharedTimers;
  readonly #admission: Admission;

  constructor(server: Server, clock: VirtualClock, limit: LimitFactory) {
    this.#server = server;
    this.#clock = clock;
    this.#timers = new SharedTimers(clock);
    this.#admission = new Admission({ limit, maxWaiting: 1_000, waitTimeoutMs: 10_000, clock });
  }

  get address(): string {
    return this.#server.address;
  }

  get taken(): number {
    return this.#server.taken;
  }

  set taken(taken: number) {
    this.#server.taken = taken;
  }

  get cores(): number {
    return this.#server.cores;
  }

  get usedMs(): number {
    return this.#server.usedMs;
  }

  get isSilent(): boolean {
    return this.#server.isSilent;
  }

  get present(): number {
    return this.#admission.running + this.#admission.waiting;
  }

  take(reply: (answer: Answer) => void, asked: Asked = {}): () => void {
    const owner = { clock: this.#clock, timers: this.#timers, admission: this.#admission };
    const call = new ServedCall(owner, asked.deadlineMs, asked.priority as Priority | undefined);
    let leave = (): void => {};
    const begin = (): void => {
      leave = this.#server.take((answer) => {
        // As Node tells it: when the answer is out.
        call.over(true, answer === 'error');
        this.#clock.disturb();
        reply(answer);
      }, asked);
    };
    const turnedAway = (): void => {
      if (!call.isAbandoned) reply('refused');
      this.#clock.disturb();
    };
    const waiting = this.#admission.enter(call);
    if (waiting === undefined) begin();
    else {
      void waiting.then(() => {
        begin();
        this.#clock.disturb();
      }, turnedAway);
    }
    return () => {
      // It goes on to the end of what it has begun: its place is taken until then.
      if (call.begunMs === undefined) call.over(false, false);
      leave();
      this.#clock.disturb();
    };
  }
}
