import type { Arrival } from './journal.js';
import { machineMs, PROOF } from './proof.js';

/** One request as its caller saw it. */
export interface CallRecord {
  readonly id: string;
  readonly method: string;
  readonly startedMs: number;
  endedMs: number;
  /** What it failed with; undefined: answered below 500. */
  failure: string | undefined;
}

/** Sends one request and reads its answer to the end; returns the status. */
export type Send = (method: string, id: string) => Promise<number>;

/** What `request` of undici and ours have in common, as far as traffic needs it. */
interface Requesting {
  request(options: {
    path: string;
    method: 'GET';
    headers: Record<string, string>;
    body?: string;
  }): Promise<{ statusCode: number; body: { text(): Promise<string> } }>;
}

/** Put before the failure of a request whose answer had begun. */
export const BEGUN = 'after its answer had begun';

/** Reads an answer that has begun to its end. */
export async function readOn<T>(body: Promise<T>): Promise<T> {
  try {
    return await body;
  } catch (error) {
    throw new Error(BEGUN, { cause: error });
  }
}

/**
 * What traffic asks pods for. In a proof as many requests as the machine holds; elsewhere those of all callers are on their way at any
 * moment, too, and leave the machine to others.
 */
export const trafficPath: string = PROOF ? '/status/200' : '/wait/50';

/** Requests through a dispatcher. A POST has a body. */
export function through(dispatcher: unknown, path: string = trafficPath): Send {
  return async (method, id) => {
    const options = { path, method: method as 'GET', headers: { 'x-id': id } };
    const { statusCode, body } = await (dispatcher as Requesting).request(
      method === 'POST' ? { ...options, body: `order ${id}` } : options,
    );
    await readOn(body.text());
    return statusCode;
  };
}

/** The client's side of the count. */
export class Tally {
  readonly calls: CallRecord[] = [];
  answered = 0;
  readonly #send: Send;

  constructor(send: Send) {
    this.#send = send;
  }

  /** One request, counted. Never rejects. */
  async call(method: string, id: string): Promise<void> {
    const startedMs = machineMs();
    const record: CallRecord = { id, method, startedMs, endedMs: Number.NaN, failure: 'it never ended' };
    this.calls.push(record);
    try {
      const status = await this.#send(method, id);
      record.failure = status < 500 ? undefined : `status ${status}`;
    } catch (error) {
      record.failure = describe(error);
    }
    record.endedMs = machineMs();
    if (record.failure === undefined) this.answered++;
  }

  failed(method?: string): readonly CallRecord[] {
    return this.calls.filter((call) => call.failure !== undefined && (method === undefined || call.method === method));
  }

  /**
   * Holds both sides against each other. Returns what must not be: an answered request no pod ever got, one that may
   * not be repeated and arrived twice.
   */
  contradictions(arrivals: ReadonlyMap<string, readonly Arrival[]>): string[] {
    const found: string[] = [];
    for (const { id, method, failure } of this.calls) {
      const times = arrivals.get(id)?.length ?? 0;
      if (failure === undefined && times === 0) found.push(`${method} ${id} was answered and reached no pod`);
      if (method === 'POST' && times > 1) found.push(`POST ${id} arrived ${times} times`);
    }
    return found;
  }
}

/** Callers that send one request after the other, GET and POST in turn, until stopped. */
export class Traffic extends Tally {
  #stopped = false;
  readonly #callers: Promise<unknown>;

  constructor(callers: number, send: Send, methods: readonly string[] = ['GET', 'POST']) {
    super(send);
    this.#callers = Promise.all(Array.from({ length: callers }, (_, caller) => this.#work(caller, methods)));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#callers;
  }

  async #work(caller: number, methods: readonly string[]): Promise<void> {
    for (let turn = 0; !this.#stopped; turn++) {
      await this.call(methods[turn % methods.length] as string, `${caller}-${turn}`);
    }
  }
}

/**
 * Starts `perSecond` requests a second, whether earlier ones have ended or not, for `lengthMs` or until it is `enough`;
 * resolves when all have ended.
 */
export async function openLoop(
  tally: Tally,
  perSecond: number,
  lengthMs: number,
  options: {
    readonly prefix: string;
    readonly methods?: readonly string[];
    readonly tick?: () => void;
    readonly enough?: () => boolean;
  },
): Promise<void> {
  const { prefix, methods = ['GET'], tick, enough } = options;
  const running = new Set<Promise<void>>();
  const beganMs = performance.now();
  let sent = 0;
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      const elapsedMs = Math.min(lengthMs, performance.now() - beganMs);
      // A process that was kept from running must not catch up in one go: the rate is at most what was asked for.
      for (let burst = 0; sent < (elapsedMs / 1_000) * perSecond; burst++) {
        if (burst > perSecond / 50) {
          sent = Math.floor((elapsedMs / 1_000) * perSecond);
          break;
        }
        const call = tally.call(methods[sent % methods.length] as string, `${prefix}-${sent++}`);
        running.add(call);
        void call.then(() => running.delete(call));
      }
      tick?.();
      if (elapsedMs < lengthMs && !enough?.()) return;
      clearInterval(timer);
      resolve();
    }, 2);
  });
  await Promise.all(running);
}

function describe(error: unknown): string {
  const { name, code, message, cause } = error as { name?: string; code?: string; message?: string; cause?: unknown };
  return `${name} ${code ?? ''} ${message}${cause === undefined ? '' : ` (${describe(cause)})`}`;
}
