import { constants } from 'node:http2';
import type { Clock } from '../runtime/clock.js';
import type { HttpResponse } from './http-requests.js';
import type { ServedCall } from './served-call.js';

/** So many responses per place of the limit may wait for their readers, and so many bytes in all of them. */
const MAX_PER_PLACE = 16;
const MAX_BYTES = 64 * 1024 * 1024;

interface Unread {
  readonly response: HttpResponse;
  readonly sinceMs: number;
  /** How many bytes waited at first. */
  readonly bytes: number;
}

/**
 * The responses whose handlers are done, or write no more for now, and whose readers have not read them. Their number and memory are bounded: beyond that, the
 * slowest is closed.
 */
export class UnreadResponses {
  readonly #clock: Clock;
  readonly #unread = new Map<ServedCall, Unread>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(call: ServedCall, response: HttpResponse): void {
    this.#unread.set(call, { response, sinceMs: this.#clock.now(), bytes: waitingBytes(response) });
  }

  /** Closes the slowest responses that are too many. @param max How many requests may run at once. */
  closeSlowest(max: number): void {
    let bytes = 0;
    for (const { response } of this.#unread.values()) bytes += waitingBytes(response);
    // One response alone may be as large as it likes.
    while (this.#unread.size > 1 && (this.#unread.size > MAX_PER_PLACE * max || bytes > MAX_BYTES)) {
      const [slowest, { response }] = this.#slowest();
      bytes -= waitingBytes(response);
      this.#unread.delete(slowest);
      if ('stream' in response) response.stream.close(constants.NGHTTP2_CANCEL);
      else response.destroy();
    }
  }

  delete(call: ServedCall): void {
    this.#unread.delete(call);
  }

  /** The response of which the fewest bytes per ms were read; of those alike, the one that has waited longest. */
  #slowest(): [ServedCall, Unread] {
    const nowMs = this.#clock.now();
    let [slowest] = this.#unread;
    let least = Number.POSITIVE_INFINITY;
    for (const entry of this.#unread) {
      const { response, sinceMs, bytes } = entry[1];
      // A response that has just come has had no time to be read.
      const rate = nowMs > sinceMs ? (bytes - waitingBytes(response)) / (nowMs - sinceMs) : Number.POSITIVE_INFINITY;
      if (rate >= least) continue;
      least = rate;
      slowest = entry;
    }
    return slowest as [ServedCall, Unread];
  }
}

/** How many bytes of a response wait in this process. */
function waitingBytes(response: HttpResponse): number {
  return 'stream' in response ? (response.stream?.writableLength ?? 0) : response.writableLength;
}
